package gateway

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/rules"
)

// TestHeaderAdvisories: what a caller writes into a header neither chooses whose
// request it is, nor removes what a proxy has set. The names are those of the
// advisories that describe each attack.
func TestHeaderAdvisories(t *testing.T) {
	seen := header("X-Customer", "X-Real-Ip", "X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "X_customer", "X_Customer",
		"X-Original-Url", "Forwarded", "True-Client-Ip", "X-Other", "Upgrade", "Http2-Settings", "Te", "Connection", "Plain_name")
	to := service(t, seen)
	outside := Config{Routes: []Route{{To: []string{to}}}, Identity: Believed{"x-customer", network(t, "10.0.0.0/8")}}
	inside := outside
	inside.Identity.From = network(t, "127.0.0.0/8")
	behind := inside
	behind.Proxies = rules.Proxies{Trusted: network(t, "127.0.0.0/8")}
	const own = "X-Real-Ip=127.0.0.1;X-Forwarded-For=127.0.0.1;X-Forwarded-Proto=http;X-Forwarded-Host=h;"
	of := map[string]*engine{"outside": serve(t, outside), "inside": serve(t, inside), "behind": serve(t, behind)}
	for _, c := range []struct {
		advisory, where string
		fields          []string
		status          int
		want            string
	}{
		{"identity from anybody", "outside", []string{"X-Customer: acme"}, 200, own},
		{"identity from its proxy", "inside", []string{"X-Customer: acme"}, 200, "X-Customer=acme;" + own},
		{"CVE-2024-45410, CVE-2026-29054", "inside", []string{"X-Customer: acme", "Connection: x-customer, X-Real-Ip, X-Forwarded-For"}, 200, "X-Customer=acme;" + own},
		{"several identities", "inside", []string{"X-Customer: evil", "X-Customer: acme"}, 400, "Bad Request\n"},
		{"CVE-2025-64484, CVE-2026-35051", "inside", []string{"X_Customer: evil"}, 200, own},
		{"an underscore", "outside", []string{"Plain_Name: x"}, 200, own},
		{"CVE-2026-39858", "inside", []string{"X-Customer: acme", "x_customer: evil"}, 200, "X-Customer=acme;" + own},
		{"CVE-2026-54763", "outside", []string{"X-Forwarded_For: 6.6.6.6", "X_Real_Ip: 6.6.6.6"}, 200, own},
		{"GHSA-hm36-ffrh-c77c", "outside", []string{"X-Forwarded-For: 6.6.6.6", "X-Real-IP: 6.6.6.6", "Forwarded: for=6.6.6.6", "True-Client-IP: 6.6.6.6"}, 200, own},
		{"CVE-2026-45045", "outside", []string{"X-Real-Ip: 6.6.6.6", "X-Real-Ip: 7.7.7.7"}, 200, own},
		{"another path", "outside", []string{"X-Original-URL: /admin"}, 200, own},
		{"a field of the caller's that it hides", "outside", []string{"X-Other: 1", "Connection: X-Other"}, 200, own},
		{"h2c upgrade", "outside", []string{"Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA"}, 200, own},
		{"unknown upgrade", "outside", []string{"Connection: Upgrade", "Upgrade: TLS/1.0"}, 200, own},
		{"two upgrades", "outside", []string{"Connection: Upgrade", "Upgrade: websocket", "Upgrade: h2c"}, 200, own},
		{"upgrade in a list", "outside", []string{"Connection: Upgrade", "Upgrade: websocket, h2c"}, 200, own},
		{"trailers", "outside", []string{"Connection: TE", "TE: trailers"}, 200, own + "Te=trailers;"},
		{
			"a chain", "behind",
			[]string{"X-Forwarded-For: 6.6.6.6, 192.0.2.7"},
			200,
			"X-Real-Ip=192.0.2.7;X-Forwarded-For=192.0.2.7, 127.0.0.1;X-Forwarded-Proto=http;X-Forwarded-Host=h;",
		},
		{
			"a chain that the caller removes", "behind",
			[]string{"X-Forwarded-For: 192.0.2.7", "Connection: X-Forwarded-For"},
			200,
			"X-Real-Ip=192.0.2.7;X-Forwarded-For=192.0.2.7, 127.0.0.1;X-Forwarded-Proto=http;X-Forwarded-Host=h;",
		},
		{
			"TLS in front", "behind",
			[]string{"X-Forwarded-For: 192.0.2.7", "X-Forwarded-Proto: https", "X-Forwarded-Host: a.example"},
			200,
			"X-Real-Ip=192.0.2.7;X-Forwarded-For=192.0.2.7, 127.0.0.1;X-Forwarded-Proto=https;X-Forwarded-Host=a.example;",
		},
	} {
		status, body := of[c.where].raw(lines(append([]string{"GET / HTTP/1.1", "Host: h"}, append(c.fields, "Connection: close")...)...))
		if status != c.status || body != c.want {
			t.Errorf("%s, %s:\ngot  %d %s\nwant %d %s", c.advisory, c.where, status, body, c.status, c.want)
		}
	}
}

// TestUnderscores: they pass where they are wanted, but as nobody's alias.
func TestUnderscores(t *testing.T) {
	to := service(t, header("Api_key", "X_customer", "X_real_ip"))
	e := serve(t, Config{Routes: []Route{{To: []string{to}}}, Underscores: true, Identity: Believed{"X-Customer", network(t, "127.0.0.0/8")}})
	if _, body := e.raw(lines("GET / HTTP/1.1", "Host: h", "Api_Key: k", "X_Customer: evil", "X_Real_Ip: 6.6.6.6")); body != "Api_key=k;" {
		t.Errorf("the service sees %q", body)
	}
}

// TestChunkedEnds: what follows a chunked request on its connection is not read, as a
// proxy in front may have taken it for a part of the body, by the length that stood
// there too. A request with a length alone keeps its connection.
func TestChunkedEnds(t *testing.T) {
	var seen atomic.Int64
	to := service(t, func(_ http.ResponseWriter, r *http.Request) { seen.Add(1); io.Copy(io.Discard, r.Body) })
	e := serve(t, Config{Routes: []Route{{To: []string{to}}}})
	next := lines("GET /next HTTP/1.1", "Host: h", "Connection: close")
	for _, c := range []struct {
		text string
		want int64
	}{
		{lines("POST / HTTP/1.1", "Host: h", "Content-Length: 5", "Transfer-Encoding: chunked") + "0\r\n\r\n", 1},
		{lines("POST / HTTP/1.1", "Host: h", "Transfer-Encoding: chunked") + "0\r\n\r\n", 1},
		{lines("POST / HTTP/1.1", "Host: h", "Content-Length: 5") + "12345", 2},
	} {
		seen.Store(0)
		conn := e.dial()
		if _, err := io.WriteString(conn, c.text+next); err != nil {
			t.Fatal(err)
		}
		if answer, _ := io.ReadAll(conn); seen.Load() != c.want || strings.Count(string(answer), "HTTP/1.1 200") != int(c.want) {
			t.Errorf("%q and a request behind it: %d were served, want %d:\n%s", c.text, seen.Load(), c.want, answer)
		}
	}
}

// TestFraming: of bytes that may be read as one request or as two, the limiter
// counts as many as the service sees, and what is ambiguous is refused.
func TestFraming(t *testing.T) {
	var mu sync.Mutex
	served, counted := map[string]int{}, map[string]int{} // by path
	count := func(in map[string]int, path string) {
		mu.Lock()
		defer mu.Unlock()
		in[path]++
	}
	to := service(t, func(w http.ResponseWriter, r *http.Request) {
		count(served, r.URL.Path)
		fmt.Fprint(w, r.Host, r.URL)
	})
	limiter := &admit.Control{OnEvent: func(e admit.Event) { count(counted, e.Request.Path) }}
	e := serve(t, Config{Routes: []Route{{To: []string{to}, PassHost: true}}, Control: limiter})
	const smuggled = "GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n"
	for i, c := range []struct {
		name, text string
		status     int
	}{
		{"two lengths", lines("POST / HTTP/1.1", "Host: h", "Content-Length: 0", "Content-Length: 5") + "12345", 400},
		{"a list of lengths", lines("POST / HTTP/1.1", "Host: h", "Content-Length: 0, 5") + "12345", 400},
		{"a length with a sign", lines("POST / HTTP/1.1", "Host: h", "Content-Length: +5") + "12345", 400},
		{"chunked, identity", lines("POST / HTTP/1.1", "Host: h", "Transfer-Encoding: chunked, identity") + "0\r\n\r\n", 501},
		{"twice chunked", lines("POST / HTTP/1.1", "Host: h", "Transfer-Encoding: chunked", "Transfer-Encoding: chunked") + "0\r\n\r\n", 501},
		{"xchunked", lines("POST / HTTP/1.1", "Host: h", "Transfer-Encoding: xchunked") + "0\r\n\r\n", 501},
		{"a space before the colon", lines("POST / HTTP/1.1", "Host: h", "Transfer-Encoding : chunked") + "0\r\n\r\n", 400},
		{"a folded line", lines("POST / HTTP/1.1", "Host: h", "Transfer-Encoding:", " chunked", "Content-Length: 4") + "0\r\n\r\n", 200},
		{"a bare LF in a chunk", lines("POST / HTTP/1.1", "Host: h", "Transfer-Encoding: chunked") + "2;\nxx\r\n0\r\n\r\n", 400},
		{"a chunk that is too long", lines("POST / HTTP/1.1", "Host: h", "Transfer-Encoding: chunked") + "ffffffffffffffff1\r\n", 400},
		{"two hosts", lines("GET / HTTP/1.1", "Host: a", "Host: b"), 400},
		{"no host", lines("GET / HTTP/1.1"), 400},
		{"a NUL", lines("GET / HTTP/1.1", "Host: h", "X: \x00"), 400},
		{"CONNECT", lines("CONNECT h:80 HTTP/1.1", "Host: h:80"), 405},
		{"absolute form", lines("GET http://inner/ HTTP/1.1", "Host: outer"), 200},
		{"a body of GET", lines("GET / HTTP/1.1", "Host: h", fmt.Sprintf("Content-Length: %d", len(smuggled))) + smuggled, 200},
		{"length and chunked", lines("POST / HTTP/1.1", "Host: h", "Content-Length: 5", "Transfer-Encoding: chunked") + "0\r\n\r\n", 200},
	} {
		path := fmt.Sprint("/", i)
		text := strings.Replace(c.text, "/ ", path+" ", 1)
		text = strings.Replace(text, "\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1)
		status, body := e.raw(text)
		if status != c.status {
			t.Errorf("%s: %d %q, want %d", c.name, status, body, c.status)
		}
		if c.name == "absolute form" && body != "inner"+path {
			t.Errorf("%s: the service sees %q, want the host that the limiter sees", c.name, body)
		}
		mu.Lock()
		s, l := served[path], counted[path]
		mu.Unlock()
		if c.status == 200 && (s != 1 || l != 1) || s > l {
			t.Errorf("%s: the service saw %d requests and the limiter %d", c.name, s, l)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if served["/smuggled"] > 0 {
		t.Error("a request inside another was served")
	}
}
