//go:build unix

package gateway

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/rules"
)

// spoofed are values by which a caller poses as 6.6.6.6 or 2001:db8:6::6.
var spoofed = []string{
	"6.6.6.6", "6.6.6.6:443", `"6.6.6.6"`, `"6.6.6.6:443"`, "6.6.6.6, 127.0.0.1", "127.0.0.1, 6.6.6.6", ",,6.6.6.6,,", "6.6.6.6 ", "\t6.6.6.6",
	"::ffff:6.6.6.6", "[::ffff:6.6.6.6]:1", "2001:db8:6::6", "[2001:db8:6::6]", "[2001:db8:6::6]:443", "2001:db8:6::6%eth0", `"[2001:db8:6::6]"`,
	"for=6.6.6.6", "for=6.6.6.6;by=127.0.0.1", `for="[2001:db8:6::6]:1"`, "unknown, 6.6.6.6", "_hidden, 6.6.6.6", "6.6.6.6" + strings.Repeat(", 10.0.0.1", 100),
}

// TestForgedAddresses: who is charged is the other end of the connection, whatever
// the caller writes into whichever field, as one that Connection names or with '_';
// and behind a trusted proxy the address that the proxy has added, whatever stands
// before it.
func TestForgedAddresses(t *testing.T) {
	to := service(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Header) })
	var charged netip.Addr
	limiter := control(t, `{"rules": {"name": "a", "key": "address", "limits": "1000000/s"}}`)
	limiter.OnEvent = func(e admit.Event) { charged = e.Request.Address } // before the answer
	open := serve(t, Config{Routes: []Route{{To: []string{to}}}, Control: limiter})
	trusting := serve(t, Config{Routes: []Route{{To: []string{to}}}, Control: limiter, Proxies: rules.Proxies{Trusted: network(t, "127.0.0.0/8")}})
	vectors := 0
	check := func(e *engine, want string, fields ...string) {
		t.Helper()
		vectors++
		charged = netip.Addr{}
		status, seen := e.raw(lines(append([]string{"GET / HTTP/1.1", "Host: h", "Connection: close"}, fields...)...))
		if status != 200 || charged.String() != want || !strings.Contains(seen, "X-Real-Ip:["+want+"]") {
			t.Errorf("%q: %d, %v is charged, want %s; the service sees %s", fields, status, charged, want, seen)
		}
		if strings.Contains(seen, "6.6.6.6") || strings.Contains(seen, "2001:db8:6::6") {
			t.Errorf("%q: the service sees %s", fields, seen)
		}
	}
	for _, name := range []string{
		"X-Forwarded-For", "x-forwarded-for", "X_Forwarded_For", "X-Forwarded_For", "X-Real-IP", "X_Real_IP", "Forwarded", "True-Client-IP", "Client-IP",
		"X-Client-IP", "X-Cluster-Client-IP", "CF-Connecting-IP", "Fastly-Client-IP", "X-Envoy-External-Address", "X-Original-Forwarded-For",
	} {
		for _, value := range spoofed {
			check(open, "127.0.0.1", name+": "+value)
			check(open, "127.0.0.1", name+": "+value, "Connection: "+name+", X-Real-Ip, X-Forwarded-For")
		}
	}
	for _, value := range spoofed {
		if strings.HasSuffix(value, "127.0.0.1") { // that would be a chain of two trusted proxies
			continue
		}
		check(trusting, "192.0.2.7", "X-Forwarded-For: "+value+", 192.0.2.7")
		check(trusting, "192.0.2.7", "X-Forwarded-For: "+value, "X-Forwarded-For: 192.0.2.7", "Connection: X-Real-Ip, X-Forwarded-For")
		check(trusting, "2001:db8::7", "X-Forwarded-For: "+value+", [2001:DB8:0::0007]:443, 127.0.0.1")
	}
	if t.Logf("%d vectors", vectors); vectors < 200 {
		t.Errorf("%d vectors, want 200", vectors)
	}
}

// TestOneNetwork: the addresses of an IPv6 network of 64 bits are one caller, 2,000 of
// them (100,000 with THROTTLE_SOAK=1), however they are written; IPv4 addresses
// are each their own, also as IPv6.
func TestOneNetwork(t *testing.T) {
	n := 2_000
	if os.Getenv("THROTTLE_SOAK") != "" {
		n = 100_000
	}
	to := service(t, func(http.ResponseWriter, *http.Request) {})
	e := serve(t, Config{
		Routes: []Route{{To: []string{to}}}, Proxies: rules.Proxies{Trusted: network(t, "127.0.0.0/8")},
		Control: control(t, `{"rules": {"name": "a", "key": "address", "limits": "10/day"}}`),
	})
	get := func(from string) int {
		r := e.request("GET", "/", nil)
		r.Header.Set("X-Forwarded-For", from)
		status, _ := do(t, r)
		return status
	}
	passed := 0
	for i := range n {
		from := fmt.Sprintf("2001:db8:1:2:%x:%x:%x:%x", i%7*9000, i&0xffff, i>>8, i>>16)
		switch i % 3 {
		case 1:
			from = "[" + strings.ToUpper(from) + "]:443"
		case 2:
			from = netip.MustParseAddr(from).StringExpanded()
		}
		if get(from) == 200 {
			passed++
		}
	}
	if passed != 10 {
		t.Errorf("of %d addresses of one network %d passed, want the 10 of one caller", n, passed)
	}
	for i := range 20 {
		if from := fmt.Sprintf("::ffff:192.0.2.%d", i); get(from) != 200 || get("2001:db8:1:2::1") != 429 {
			t.Errorf("%s shares the limit of another", from)
		}
	}
	statuses := map[int]int{}
	for i := range 12 {
		statuses[get([]string{"198.51.100.1", "::ffff:198.51.100.1", "::FFFF:C633:6401", "[::ffff:198.51.100.1]:1"}[i%4])]++
	}
	if statuses[200] != 10 || statuses[429] != 2 {
		t.Errorf("one address in four forms: %v, want 10 passed and 2 refused", statuses)
	}
}

// framing is a request by raw bytes.
type framing struct {
	text string
	bad  bool // must not be answered 2xx
	ends bool // nothing behind it is served
}

// behind stands behind each: a body of 5 bytes or of none, another request, and the
// last.
const behind = "0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: h\r\n\r\nGET /end HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"

// framings are requests whose end is doubtful.
func framings() (all []framing) {
	lengths := []string{"", "5", "05", "+5", "-5", "0x5", "5 5", "5, 5", "5, 6", "5\r\nContent-Length: 5", "5\r\nContent-Length: 6", "99999999999999999999", " 5", "5\t", "5\v", "five"}
	codings := []string{"", "chunked", "Chunked", " chunked", "chunked ", "chunked\t", "\vchunked", "xchunked", "chunked, identity", "identity", "identity, chunked", "chunked, chunked", "chunked\r\nTransfer-Encoding: chunked", "chunked\r\nTransfer-Encoding: x", "chunked;q=1", `"chunked"`, "gzip", ",chunked"}
	for _, method := range []string{"GET", "POST"} {
		for _, length := range lengths {
			for _, coding := range codings {
				f := framing{text: method + " / HTTP/1.1\r\nHost: h\r\n", ends: coding != ""}
				if length != "" {
					f.text += "Content-Length: " + length + "\r\n"
					f.bad = coding == "" && !slices.Contains([]string{"5", "05", "5\r\nContent-Length: 5", " 5", "5\t"}, length)
				}
				if coding != "" {
					f.text += "Transfer-Encoding: " + coding + "\r\n"
					f.bad = !strings.EqualFold(strings.Trim(coding, " \t"), "chunked")
				}
				f.text += "\r\n"
				all = append(all, f)
			}
		}
	}
	for _, head := range []string{"Transfer-Encoding : chunked", " Transfer-Encoding: chunked", "X: y\r\n Transfer-Encoding: chunked", "Transfer-Encoding\t: chunked", "X: y\rTransfer-Encoding: chunked", "X: \x00", "X\x00: y", "Host: h", "Content-Length : 5", "Bad Name: y", ": y", "X"} {
		all = append(all, framing{text: "POST / HTTP/1.1\r\nHost: h\r\n" + head + "\r\n\r\n", bad: head != "X: y\r\n Transfer-Encoding: chunked"})
	}
	for _, line := range []string{"GET  / HTTP/1.1", "GET / HTTP/1.1 ", "GET / HTTP/3.0", "GET /\r\n", "G(T / HTTP/1.1", "GET /a b HTTP/1.1", " GET / HTTP/1.1", "GET / HTTP/1.01", "GET / http/1.1"} {
		all = append(all, framing{text: line + "\r\nHost: h\r\n\r\n", bad: true})
	}
	for _, chunk := range []string{"0x1\r\nx\r\n", "+1\r\nx\r\n", "-1\r\nx\r\n", "1\r\nxy\r\n", "1\nx\n", "1;a\nb\r\nx\r\n", "FFFFFFFFFFFFFFFFF\r\nx\r\n", "\r\n", "1\rx\r\n", "1\r\nx\r\r\n"} {
		all = append(all, framing{text: "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk, ends: true})
	}
	return all
}

// tally counts requests by the first part of their path.
type tally struct {
	mu  sync.Mutex
	all map[string]int
}

func (c *tally) add(path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[string]int{}
	}
	first, last, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	c.all[first]++
	if last == "smuggled" {
		c.all[first+" smuggled"]++
	}
}

func (c *tally) of(first string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all[first]
}

// TestSmuggling: of requests whose end is doubtful as many reach the service as were
// decided about, those that are ambiguous are not answered 2xx, and what follows a
// chunked one is never read.
func TestSmuggling(t *testing.T) {
	var decided, served tally
	to := service(t, func(_ http.ResponseWriter, r *http.Request) {
		served.add(r.URL.Path)
		io.Copy(io.Discard, r.Body)
	})
	limiter := control(t, `{"rules": {"name": "a", "limits": "1000000/s"}}`)
	limiter.OnEvent = func(e admit.Event) { decided.add(e.Request.Path) }
	e := serve(t, Config{Routes: []Route{{To: []string{to}}}, Control: limiter})
	all := framings()
	for i, f := range all {
		id := strconv.Itoa(i)
		status := e.first(strings.Replace(f.text, " /", " /"+id+"/", 1) + strings.ReplaceAll(behind, "GET /", "GET /"+id+"/"))
		// A body that is malformed in its middle may have reached the service, or not.
		if d, s := decided.of(id), served.of(id); s > d || s < d && status != 400 {
			t.Errorf("%q: %d were decided about, %d served", f.text, d, s)
		}
		if hidden := served.of(id + " smuggled"); f.bad && status < 400 || f.ends && hidden > 0 || status == 0 {
			t.Errorf("%q: %d, and %d hidden ones", f.text, status, hidden)
		}
	}
	if err := e.end(); err != nil {
		t.Error(err)
	}
	reached := 0
	for i, f := range all {
		id := strconv.Itoa(i)
		reached += served.of(id)
		if served.of(id) > decided.of(id) {
			t.Errorf("%q: in the end %d were decided about, %d served", f.text, decided.of(id), served.of(id))
		}
	}
	if t.Logf("%d vectors, %d requests reached the service", len(all), reached); reached < 50 {
		t.Error("want at least 50, or this tests nothing")
	}
}

// first sends bytes, reads until the gateway ends the connection and returns the
// status of the first answer; 0 if there is none.
func (e *engine) first(text string) int {
	c := e.dial()
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		e.t.Fatal(err)
	}
	if _, err := io.WriteString(c, text); err != nil {
		e.t.Fatal(err)
	}
	answer, err := io.ReadAll(c)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		e.t.Errorf("%q: the connection is held", text)
	}
	a, err := http.ReadResponse(bufio.NewReader(strings.NewReader(string(answer))), nil)
	if err != nil {
		return 0
	}
	a.Body.Close()
	return a.StatusCode
}

// TestSlowHandshakes: connections that begin TLS and do not go on are closed, and
// keep nobody out.
func TestSlowHandshakes(t *testing.T) {
	f := newCertificate(t, "127.0.0.1")
	to := service(t, func(http.ResponseWriter, *http.Request) {})
	e := serve(t, Config{
		Listen: []Listen{{Addr: "127.0.0.1:0", TLS: &TLS{Cert: f.cert, Key: f.key}}},
		Routes: []Route{{To: []string{to}}}, Limits: Limits{HeaderTimeout: 5 * time.Second},
	})
	var slow []net.Conn
	for i := range 200 {
		c := e.dial()
		_, _ = io.WriteString(c, []string{"", "\x16\x03\x01", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "GET"}[i%4])
		slow = append(slow, c)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: f.pool(t)}}
	defer transport.CloseIdleConnections()
	r := e.request("GET", "/", nil)
	r.URL.Scheme = "https"
	if a, err := transport.RoundTrip(r); err != nil || a.StatusCode != 200 {
		t.Errorf("meanwhile: %v, %v", a, err)
	}
	for i, c := range slow {
		if !ends(c) {
			t.Fatalf("connection %d is held", i)
		}
	}
}

// TestFloodOfKeysServed: 3,000 keys that callers make up (200,000 with
// THROTTLE_SOAK=1), through the running gateway on 8 connections: none is refused, a key
// above its limit stays refused meanwhile, and little is held.
func TestFloodOfKeysServed(t *testing.T) {
	n := 3_000
	if os.Getenv("THROTTLE_SOAK") != "" {
		n = 200_000
	}
	to := service(t, func(http.ResponseWriter, *http.Request) {})
	e := serve(t, Config{Routes: []Route{{To: []string{to}}}, Control: control(t, `{"rules": {"name": "a", "key": "header:X-Key", "limits": "10/day"}}`)})
	get := func(key string) int {
		r := e.request("GET", "/", nil)
		r.Header.Set("X-Key", key)
		status, _ := do(t, r)
		return status
	}
	for range 10 {
		get("offender")
	}
	var refused, passed atomic.Int64
	heap, _ := footprint(func() {
		var group sync.WaitGroup
		for worker := range 8 {
			group.Go(func() {
				for i := range n / 8 {
					if get(fmt.Sprintf("made-up-%d-%d", worker, i)) != 200 {
						refused.Add(1)
					}
					if i%20 == 0 && get("offender") != 429 {
						passed.Add(1)
					}
				}
			})
		}
		group.Wait()
	})
	t.Logf("%d keys, +%d MB at most", n, heap>>20)
	if refused.Load() > 0 || passed.Load() > 0 || heap > 64<<20 {
		t.Errorf("%d made-up keys were refused, the key above its limit passed %d times, at most %d MB were held", refused.Load(), passed.Load(), heap>>20)
	}
}
