//go:build unix

package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/rules"
)

// rawService answers each request with bytes, which end the connection if they begin with
// '!'. It reads no bodies, and returns its URL and how many connections there are.
func rawService(t *testing.T, answer func(r *http.Request) string) (string, *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	n := new(atomic.Int64)
	serve := func(c net.Conn) {
		defer n.Add(-1)
		defer c.Close()
		for in := bufio.NewReader(c); ; {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			text := answer(r)
			if _, err := io.WriteString(c, strings.TrimPrefix(text, "!")); err != nil {
				return
			}
			if strings.HasPrefix(text, "!") { // it ends here, and the gateway has yet to see that
				_ = c.(*net.TCPConn).CloseWrite()
				_, _ = io.Copy(io.Discard, c)
				return
			}
		}
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			n.Add(1)
			go serve(c)
		}
	}()
	return "http://" + l.Addr().String(), n
}

// TestHostileUpstreams: what an upstream sends that no proxy may pass on as it is. The
// answer to the next request is always its own.
func TestHostileUpstreams(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnext"
	hidden := "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhidden"
	for _, c := range []struct {
		name, method, answer string
		status               int
		body                 string // "cut": the answer does not end
	}{
		{"204 with a body", "GET", "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n" + hidden, 204, ""},
		{"304 with a body", "GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n" + hidden, 304, ""},
		{"HEAD with a body", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n" + hidden, 200, ""},
		{"two answers", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx" + hidden, 200, "x"},
		{"two lengths", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx", 502, "Bad Gateway\n"},
		{"length and chunks", "GET", "!HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nxy\r\n0\r\n\r\n" + hidden, 200, "xy"},
		{"identity and chunks", "GET", "!HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, identity\r\n\r\n2\r\nxy\r\n0\r\n\r\n", 502, "Bad Gateway\n"},
		{"ends in its middle", "GET", "!HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nx", 200, "cut"},
		{"ends in a chunk", "GET", "!HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nx", 200, "cut"},
		{"ends before the last chunk", "GET", "!HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n", 200, "cut"},
		{"switches unasked", "GET", "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n" + hidden, 502, "Bad Gateway\n"},
		{"status 000", "GET", "HTTP/1.1 000 None\r\nContent-Length: 6\r\n\r\nhidden", 502, "Bad Gateway\n"},
		{"status 099", "GET", "HTTP/1.1 099 None\r\nContent-Length: 6\r\n\r\nhidden", 502, "Bad Gateway\n"},
		{"no header", "GET", "!SSH-2.0-OpenSSH\r\n", 502, "Bad Gateway\n"},
		{"a header of 2 MB", "GET", "!HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 2<<20) + "\r\n\r\n", 502, "Bad Gateway\n"},
		{"10,000 early answers", "GET", strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n", 10_000) + ok, 502, "Bad Gateway\n"},
		{"20 early answers", "GET", strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n", 20) + ok, 200, "next"},
		{"a line of its own", "GET", "HTTP/1.1 200 OK\r\nX: a\r\n Content-Length: 0\r\nContent-Length: 1\r\n\r\nx", 200, "x"},
	} {
		for _, upload := range []bool{false, true} { // by direct, and by ReverseProxy
			to, connections := rawService(t, func(r *http.Request) string {
				if r.URL.Path == "/next" {
					return ok
				}
				return c.answer
			})
			e := serve(t, Config{Routes: []Route{{To: []string{to}}}})
			body := io.Reader(nil)
			if upload && c.method == "GET" {
				body = strings.NewReader("x")
			}
			a, err := http.DefaultTransport.RoundTrip(e.request(c.method, "/", body))
			if err != nil {
				if c.body != "cut" {
					t.Errorf("%s: %v", c.name, err)
				}
				continue
			}
			text, err := io.ReadAll(a.Body)
			a.Body.Close()
			if c.body == "cut" {
				if err == nil || a.StatusCode != c.status {
					t.Errorf("%s: %d %q is whole", c.name, a.StatusCode, text)
				}
			} else if err != nil || a.StatusCode != c.status || string(text) != c.body {
				t.Errorf("%s: %d %q, %v; want %d %q", c.name, a.StatusCode, text, err, c.status, c.body)
			}
			if strings.Contains(c.answer, "hidden") && !gone(connections) {
				t.Errorf("%s: the connection is kept", c.name)
			}
			for range 3 {
				if status, text := do(t, e.request("GET", "/next", nil)); status != 200 || text != "next" {
					t.Errorf("%s: the next is answered %d %q", c.name, status, text)
				}
			}
			if err := e.end(); err != nil {
				t.Error(err)
			}
		}
	}
}

// gone waits until there are no connections. What is behind an answer net/http notices
// when it reads again, and takes for the answer to a request that comes before that.
func gone(connections *atomic.Int64) bool {
	for late := time.Now().Add(10 * time.Second); connections.Load() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			return false
		}
	}
	return true
}

// TestClimbing: a path with ".." does not leave the path of the target, nor the route that
// the rules saw, in whichever notation.
func TestClimbing(t *testing.T) {
	var decided atomic.Value
	limiter := control(t, `{"rules": {"name": "a", "limits": "1000000/s"}}`)
	limiter.OnEvent = func(e admit.Event) { decided.Store(e.Request.Path) }
	to := service(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, cleaned(r.URL.Path)) })
	e := serve(t, Config{Control: limiter, Routes: []Route{
		{Match: "/admin*", Degrade: func(*rules.Compiled) bool { return true }, Degraded: &Degraded{Status: 403, Body: []byte("admin")}, To: []string{to}},
		{Match: "/*", To: []string{to + "/public"}},
	}})
	const bad = "Bad Request\n"
	for target, want := range map[string]string{
		"/x": "/public/x", "/a/../x": "/public/x", "/../secret": "/public/secret", "/../../secret/": "/public/secret/", "/%2e%2e/secret": "/public/secret", "/.%2E/%2e./secret": "/public/secret",
		"/a/..%2f..%2fsecret": "/public/secret", "/..%2fsecret": "/public/secret", "/a%2Fb": "/public/a/b", "/a//b": "/public/a/b", "/..a/b..": "/public/..a/b..",
		"/..;/admin": bad, "/x/..;a=b/..;/admin": bad, "/..;": bad, "/%2e%2e;x/admin": bad, "/..%3b/admin": bad, "/..\\admin": bad, "/..%5cadmin": bad, "/x%5C..%5c..%5Cadmin": bad, "/a%5c..": bad, "/..%5c;/admin": bad,
		"/a;b/c": "/public/a;b/c", "/a;..": "/public/a;..", "/a..;b": "/public/a..;b", "/a%5cb": "/public/a\\b", "/...;/x": "/public/...;/x", "/%252e%252e/x": "/public/%2e%2e/x",
		"/admin": "admin", "/x/../admin": "admin", "/x/..%2fadmin": "admin", "/%61dmin": "admin", "//admin": "admin", "/./admin": "admin", "/x/%2e%2e/admin/y": "admin",
	} {
		status, got := e.raw(lines("GET "+target+" HTTP/1.1", "Host: h", "Connection: close"))
		if got != want {
			t.Errorf("%s: %d %s, want %s", target, status, got, want)
		}
	}
}

// TestHostsAlike: what a route takes for its host the rules take for it too.
func TestHostsAlike(t *testing.T) {
	to := service(t, func(http.ResponseWriter, *http.Request) {})
	e := serve(t, Config{
		Routes:  []Route{{Match: "api.example.org/*", To: []string{to}}, {Match: "[::1]/*", To: []string{to}}, {Match: "::2/*", To: []string{to}}},
		Control: control(t, `{"rules": {"name": "api", "match": {"hosts": ["api.example.org", "[::1]", "[::2]"]}, "limits": "0/s"}}`),
	})
	for host, want := range map[string]int{
		"api.example.org": 429, "API.example.org": 429, "api.example.org.": 429, "api.example.org:80": 429, "api.example.org.:80": 429, "api.example.org:": 429,
		"[api.example.org]": 404, "[api.example.org]:80": 404, "[api.example.org.]": 404, "[[api.example.org": 404, "api.example.org]": 404, "api.example.org..": 404,
		"api.example.org:80:80": 404, "[::1]": 429, "[::2]:80": 429, "[::1]:80": 429, "[::1].": 429, "[::1": 404, "::1": 404, "::1]": 404, "[[::1]]": 404,
	} {
		if status, _ := e.raw(lines("GET / HTTP/1.1", "Host: "+host, "Connection: close")); status != want {
			t.Errorf("%s: %d, want %d", host, status, want)
		}
	}
}

// TestOpaque: an absolute URL without a path, in which the rest is no path either, would
// match no route but "*" and be sent as it is.
func TestOpaque(t *testing.T) {
	var served tally
	to := service(t, func(w http.ResponseWriter, r *http.Request) { served.add(r.RequestURI); fmt.Fprint(w, r.RequestURI) })
	e := serve(t, Config{Routes: []Route{
		{Match: "/admin*", Degrade: func(*rules.Compiled) bool { return true }, Degraded: &Degraded{Status: 403}, To: []string{to}},
		{Match: "*", To: []string{to + "/public"}},
	}})
	for request, want := range map[string]int{
		"GET http:http://inner/admin": 400, "POST http:http://inner/admin": 400, "GET http:admin": 400, "GET x:x://inner/admin": 400, "OPTIONS http:*": 400, "GET http://inner": 400,
		"GET http://inner/": 200, "GET http://inner/admin": 403, "OPTIONS *": 200, "CONNECT inner:80": 405,
	} {
		if status, got := e.raw(lines(request+" HTTP/1.1", "Host: h", "Connection: close")); status != want {
			t.Errorf("%s: %d %s, want %d", request, status, got, want)
		}
	}
	if n := served.of("http:") + served.of("x:"); n > 0 {
		t.Errorf("the upstream has seen %d of them", n)
	}
}

// TestHTTP10: nothing behind a request of HTTP/1.0 is read, in which net/http overlooks a
// Transfer-Encoding that a proxy in front may have gone by.
func TestHTTP10(t *testing.T) {
	var served tally
	to := service(t, func(_ http.ResponseWriter, r *http.Request) {
		served.add(r.URL.Path)
		io.Copy(io.Discard, r.Body)
	})
	e := serve(t, Config{Routes: []Route{{To: []string{to}}}})
	for i, head := range []string{"Transfer-Encoding: chunked", "Transfer-Encoding: chunked\r\nContent-Length: 5", "Content-Length: 5\r\nTransfer-Encoding: x"} {
		id := strconv.Itoa(i)
		status := e.first("POST /" + id + "/ HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\n" + head + "\r\n\r\n" + strings.ReplaceAll(behind, "GET /", "GET /"+id+"/"))
		if n := served.of(id + " smuggled"); status != 200 || n != 0 || served.of(id) != 1 {
			t.Errorf("%q: %d, %d requests behind it are served", head, status, served.of(id)-1)
		}
	}
}

// TestHostileCallers: what callers send beside the framings of TestSmuggling.
func TestHostileCallers(t *testing.T) {
	var served tally
	to := service(t, func(w http.ResponseWriter, r *http.Request) {
		served.add(r.URL.Path)
		if r.URL.Path == "/early" {
			w.WriteHeader(403) // before the body
			return
		}
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			fmt.Fprint(w, "host ", r.Host, " forwarded ", r.Header["X-Forwarded-Host"], " trailers ", len(r.Trailer))
		}
	})
	var host atomic.Value
	limiter := control(t, `{"rules": {"name": "a", "key": "address", "limits": "1000000/s"}}`)
	limiter.OnEvent = func(e admit.Event) { host.Store(e.Request.Host + " " + e.Request.Address.String()) }
	e := serve(t, Config{Routes: []Route{{To: []string{to}, PassHost: true}}, Control: limiter, Proxies: rules.Proxies{Trusted: network(t, "127.0.0.0/8")}})
	smuggled := "GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n"
	for _, c := range []struct {
		name, text, want string
		status           int
	}{
		{"absolute form", lines("GET http://inner/ HTTP/1.1", "Host: outer", "Connection: close"), "host inner forwarded [inner]", 200},
		{"absolute form with a user", lines("GET http://u:p@inner/ HTTP/1.1", "Host: outer", "Connection: close"), "host inner forwarded [inner]", 200},
		{"a user in Host", lines("GET / HTTP/1.1", "Host: u@h", "Connection: close"), "", 400},
		{"a path in Host", lines("GET / HTTP/1.1", "Host: h/x", "Connection: close"), "", 400},
		{"trailers of 1 MB", lines("POST / HTTP/1.1", "Host: h", "Transfer-Encoding: chunked", "Trailer: X", "Connection: close") + "0\r\nX: " + strings.Repeat("x", 1<<20) + "\r\n\r\n", "", 400},
		{"10,000 trailers", lines("POST / HTTP/1.1", "Host: h", "Transfer-Encoding: chunked", "Connection: close") + "0\r\n" + strings.Repeat("X: y\r\n", 10_000) + "\r\n", "", 400},
		{"10,000 hops", lines("GET / HTTP/1.1", "Host: h", "Connection: close", "X-Forwarded-For: "+strings.Repeat("6.6.6.6,", 7_900)+"192.0.2.7"), "host h", 200},
		{"too many hops", lines("GET / HTTP/1.1", "Host: h", "Connection: close", "X-Forwarded-For: "+strings.Repeat("6.6.6.6,", 10_000)+"192.0.2.7"), "", 431},
		{"expects to go on, and is refused", lines("POST /early HTTP/1.1", "Host: h", "Expect: 100-continue", fmt.Sprint("Content-Length: ", len(smuggled))) + smuggled, "", 403},
		{"upgrade that is not made", lines("GET / HTTP/1.1", "Host: h", "Connection: Upgrade, close", "Upgrade: websocket") + smuggled, "host h", 200},
		{"upgrade with a body", lines("POST / HTTP/1.1", "Host: h", "Connection: Upgrade, close", "Upgrade: websocket", fmt.Sprint("Content-Length: ", len(smuggled))) + smuggled, "host h", 200},
	} {
		host.Store("")
		began := time.Now()
		status, got := e.raw(c.text)
		if status != c.status || !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %d %.80q, want %d %q", c.name, status, got, c.status, c.want)
		}
		if d := time.Since(began); d > 8*time.Second {
			t.Errorf("%s: took %v", c.name, d)
		}
		if name := host.Load().(string); c.name == "10,000 hops" && name != "h 192.0.2.7" {
			t.Errorf("%s: charged is %q", c.name, name)
		}
	}
	if status, _ := do(t, e.request("GET", "/", nil)); status != 200 {
		t.Errorf("afterwards: %d", status)
	}
	if n := served.of("smuggled"); n > 0 {
		t.Errorf("%d requests were smuggled", n)
	}
}
