package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
	"github.com/throttle-go/throttle/rules"
)

// TestCallersBody: bodies that are malformed, cut short or too large, however
// many, eject no upstream.
func TestCallersBody(t *testing.T) {
	to := service(t, func(_ http.ResponseWriter, r *http.Request) { io.ReadAll(r.Body) })
	chunked := lines("POST / HTTP/1.1", "Host: h", "Transfer-Encoding: chunked")
	for name, target := range map[string]string{"HTTP/1.1": to, "HTTP/2": h2cService(t)} {
		e := serve(t, Config{Routes: []Route{{To: []string{target}}}, Limits: Limits{MaxBody: 10}})
		for range 10 {
			if status, _ := e.raw(chunked + "1\r\nx\r\nzz\r\n"); status != 400 {
				t.Errorf("%s: a malformed chunk: %d, want 400", name, status)
			}
			if status, _ := do(t, e.request("POST", "/", io.MultiReader(strings.NewReader("12345678901")))); status != 413 {
				t.Errorf("%s: 11 bytes of 10: %d, want 413", name, status)
			}
		}
		if s := e.Upstreams()[0]; !s.Until.IsZero() {
			t.Errorf("%s: callers have ejected %s", name, s.Address)
		}
	}
}

// TestBodyNeverComes: a refused request whose body does not come loses its
// connection, and a drain goes on without it; one that comes late keeps it.
func TestBodyNeverComes(t *testing.T) {
	to := service(t, func(http.ResponseWriter, *http.Request) {})
	none := control(t, `{"rules": [{"name": "all", "limits": "1/h"}]}`)
	text := lines("POST / HTTP/1.1", "Host: h", "Content-Length: 100")
	refused := func(header, drain time.Duration) (*engine, net.Conn) {
		e := serve(t, Config{
			Routes: []Route{{To: []string{to}}}, Control: none,
			Limits: Limits{HeaderTimeout: header}, Drain: Drain{Timeout: drain},
		})
		do(t, e.request("GET", "/", nil)) // all that is free
		c := e.dial()
		io.WriteString(c, text)
		return e, c
	}
	_, kept := refused(10*time.Second, time.Minute)
	time.Sleep(50 * time.Millisecond)
	io.WriteString(kept, strings.Repeat("x", 100)+lines("GET / HTTP/1.1", "Host: h", "Connection: close"))
	if all, err := io.ReadAll(kept); err != nil || strings.Count(string(all), "HTTP/1.1 429") != 2 {
		t.Errorf("a body that comes late: %q, %v; want two answers", all, err)
	}
	e, stuck := refused(time.Second, time.Minute)
	if answer, err := io.ReadAll(stuck); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 429") {
		t.Errorf("a body that never comes: %q, %v; want an answer and the end", answer, err)
	}
	if err := e.end(); err != nil {
		t.Error(err)
	}
	e, _ = refused(time.Minute, 5*time.Second)
	for late := time.Now().Add(10 * time.Second); e.active.Load() == 0 && time.Now().Before(late); {
		time.Sleep(time.Millisecond)
	}
	began := time.Now()
	if err := e.end(); err != nil || time.Since(began) > 15*time.Second {
		t.Errorf("drained after %v: %v", time.Since(began), err)
	}
}

// TestAnswerBeforeBody: an answer that does not wait for the body of its request ends the
// connection, as it says: what follows on it would be read twice at a time, of which the
// program dies. One to a body that was read keeps it.
func TestAnswerBeforeBody(t *testing.T) {
	to := service(t, func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) })
	e := serve(t, Config{Routes: []Route{{Match: "/away/*", To: []string{"http://127.0.0.1:1"}}, {To: []string{to}}}})
	post := func(path, body string) string {
		return lines("POST "+path+" HTTP/1.1", "Host: h", fmt.Sprint("Content-Length: ", len(body))) + body
	}
	for range 3 {
		c := e.dial()
		io.WriteString(c, post("/", "abc")+post("/away/x", "hello")+post("/", "def"))
		all, err := io.ReadAll(c)
		text := string(all)
		if err != nil || strings.Count(text, "HTTP/1.1") != 2 || !strings.Contains(text, "\r\n\r\nabc") {
			t.Errorf("%q, %v; want two answers and the end", all, err)
		}
		if served, refused, _ := strings.Cut(text, "HTTP/1.1 502 "); strings.Contains(served, "Connection: close") || !strings.Contains(refused, "Connection: close") {
			t.Errorf("%q; want Connection: close in the second answer alone", all)
		}
	}
}

// TestAnswerBeforeBodyByHTTP2: an upstream by HTTP/2 may end its answer before the body of
// the request, whose caller gets all of it, also while it sends nothing.
func TestAnswerBeforeBodyByHTTP2(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/refused" {
			w.WriteHeader(403)
		}
		w.Header().Set("Trailer", "Sum")
		io.WriteString(w, "less")
		if r.URL.Path == "/stream" {
			_ = http.NewResponseController(w).Flush()
		}
		w.Header().Set("Sum", "4")
		if r.URL.Path == "/cut" {
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
	}))
	both := new(http.Protocols)
	both.SetUnencryptedHTTP2(true)
	s.Config.Protocols = both
	s.Start()
	t.Cleanup(s.Close)
	t.Cleanup(s.CloseClientConnections)
	e := serve(t, Config{Routes: []Route{{To: []string{strings.Replace(s.URL, "http:", "h2c:", 1)}}}})
	for _, by := range []*http.Transport{{}, {Protocols: both}} {
		for path, want := range map[string]string{"/refused": "403 less", "/stream": "200 less 4 <nil>", "/cut": "200 less  cut"} {
			if got := unfinished(t, by, "http://"+e.addr+path); !strings.HasPrefix(got, want) {
				t.Errorf("%s: %q, want %q", path, got, want)
			}
		}
	}
}

// unfinished sends a request whose body does not come, and returns the status of the
// answer, its body, its trailer and whether it was cut.
func unfinished(t *testing.T, by *http.Transport, url string) string {
	t.Helper()
	defer by.CloseIdleConnections()
	body, never := io.Pipe()
	defer never.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	defer context.AfterFunc(ctx, func() { never.Close() })() // by waits for it, whatever ctx says
	r, err := http.NewRequestWithContext(ctx, "POST", url, body)
	if err != nil {
		return err.Error()
	}
	a, err := by.RoundTrip(r)
	if err != nil {
		return err.Error()
	}
	defer a.Body.Close()
	defer never.Close() // before, for the same reason
	text, err := io.ReadAll(a.Body)
	if err != nil && ctx.Err() == nil {
		err = errors.New("cut")
	}
	return fmt.Sprint(a.StatusCode, " ", string(text), " ", a.Trailer.Get("Sum"), " ", err)
}

// TestForgedTrailers: what the header may not say, no trailer says either, declared
// or not, also from a proxy that is trusted.
func TestForgedTrailers(t *testing.T) {
	to := service(t, func(w http.ResponseWriter, r *http.Request) {
		declared := len(r.Trailer)
		io.ReadAll(r.Body)
		fmt.Fprintln(w, declared, r.Trailer)
	})
	forged := []string{"X-Customer", "X_Customer", "X-Forwarded-For", "X-Real-IP"}
	text := func(declared string) string {
		all := lines("POST / HTTP/1.1", "Host: h", "Transfer-Encoding: chunked", "Trailer: "+declared) + "1\r\nx\r\n0\r\n"
		for _, name := range append(forged, "Sum") {
			all += name + ": 1\r\n"
		}
		return all + "\r\n"
	}
	for _, c := range []Config{{}, {Underscores: true}, {Proxies: rules.Proxies{Trusted: network(t, "127.0.0.0/8")}}} {
		c.Routes = []Route{{To: []string{to}}}
		c.Identity = Believed{"X-Customer", network(t, "127.0.0.0/8")}
		e := serve(t, c)
		for _, declared := range []string{"Sum", "Sum, " + strings.Join(forged, ", ")} {
			if status, got := e.raw(text(declared)); status != 200 || got != "1 map[Sum:[1]]\n" {
				t.Errorf("declared %s: %d %q, want Sum alone", declared, status, got)
			}
		}
	}
}

// TestTooLargeDegraded: the bound of bodies holds while a switch is on, which is
// read in the version of the rules that decides about the request.
func TestTooLargeDegraded(t *testing.T) {
	to := service(t, func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) })
	c := control(t, `{"rules": [], "switches": {"name": "lean", "value": true}}`)
	e := serve(t, Config{Control: c, Limits: Limits{MaxBody: 10}, Routes: []Route{{
		To: []string{nobody(t)}, Degraded: &Degraded{To: []string{to}},
		Degrade: func(v *rules.Compiled) bool { return v == c.Rules.Load() && v.Switch("lean", "", time.Now()).On() },
	}}})
	for body, want := range map[string]int{"1234567890": 200, "12345678901": 413} {
		if status, got := do(t, e.request("POST", "/", io.MultiReader(strings.NewReader(body)))); status != want || want == 200 && got != body {
			t.Errorf("%d bytes: %d %q, want %d", len(body), status, got, want)
		}
	}
}

// TestEverybody: networks that let every caller choose what a proxy states are
// refused, and those that match nobody.
func TestEverybody(t *testing.T) {
	for path, put := range map[string]func(*Config, rules.Networks){
		"proxies":                  func(c *Config, n rules.Networks) { c.Proxies.Trusted = n },
		"identity.from":            func(c *Config, n rules.Networks) { c.Identity = Believed{"X-Customer", n} },
		"priority.from":            func(c *Config, n rules.Networks) { c.Priority = Believed{"X-Priority", n} },
		"listen[0].proxy_protocol": func(c *Config, n rules.Networks) { c.Listen[0].ProxyProtocol = n },
	} {
		for text, want := range map[string]string{
			"10.0.0.0/8 0.0.0.0/0":  "[1]: trusts everybody",
			"::/0":                  "[0]: trusts everybody",
			"0.0.0.0/1 128.0.0.0/1": ": these networks together are everybody",
			"::ffff:10.0.0.0/104":   "[0]: ::ffff:10.0.0.0/104 is an IPv4 network in the form of IPv6",
			"10.0.0.0/8 fd00::/8":   "",
		} {
			c := Config{Listen: []Listen{{Addr: "127.0.0.1:0"}}, Routes: []Route{{To: []string{"http://192.0.2.1"}}}}
			var all rules.Networks
			for network := range strings.FieldsSeq(text) {
				all = append(all, netip.MustParsePrefix(network))
			}
			put(&c, all)
			_, err := New(c)
			flaw := (*Flaw)(nil)
			if errors.As(err, &flaw) != (want != "") || flaw != nil && !strings.HasPrefix(flaw.Error(), path+want) {
				t.Errorf("%s of %s: %v, want %q", path, text, err, path+want)
			}
		}
	}
}

// TestIdentityFields: a field that is no name, that net/http takes away, or that is one of
// the connection, cannot state the client, and is refused.
func TestIdentityFields(t *testing.T) {
	for _, name := range []string{"X:A", "X A", "X_A", "é", "host", "Connection", "Content-Length", "Te", "Transfer-Encoding", "Upgrade", "X-Real-IP"} {
		c := Config{Listen: []Listen{{Addr: "127.0.0.1:0"}}, Routes: []Route{{To: []string{"http://192.0.2.1"}}}}
		c.Identity = Believed{name, rules.Networks{netip.MustParsePrefix("10.0.0.0/8")}}
		_, err := New(c)
		if flaw := (*Flaw)(nil); !errors.As(err, &flaw) || flaw.Path != "identity.header" {
			t.Errorf("%q: %v, want a flaw of identity.header", name, err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, stderr, code := clitest.Play(ended, Run, "-to", "http://192.0.2.1", "-listen", "127.0.0.1:0", "-limit", "1/s", "-identity", " from 10.0.0.0/8"); code != 2 || !strings.Contains(stderr, "must be like 'X-Customer from") {
		t.Errorf("without a name: code %d, %q", code, stderr)
	}
}

// TestZones: an address on one interface is none of a flag, which would trust it on any.
func TestZones(t *testing.T) {
	for _, name := range []string{"-trust", "-proxy-protocol"} {
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		_, stderr, code := clitest.Play(ended, Run, "-to", "http://192.0.2.1", "-listen", "127.0.0.1:0", "-limit", "1/s", name, "fe80::1%eth0")
		if want := name + " fe80::1%eth0: must be an address or a network"; code != 2 || !strings.Contains(stderr, want) {
			t.Errorf("%s: code %d, %q, want %q", name, code, stderr, want)
		}
	}
}

// TestProxyProtocolOnUnix: a socket whose connections come from no network is refused with
// networks from which they begin with the PROXY protocol, also where it is inherited.
func TestProxyProtocolOnUnix(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Skip("no unix sockets:", err)
	}
	defer l.Close()
	for text, want := range map[string]string{"": "", "10.0.0.0/8": "listen[0].proxy_protocol: a connection to a unix socket comes from no network"} {
		c := Config{Listen: []Listen{{Addr: "systemd:web", Listener: l}}, Routes: []Route{{To: []string{"http://192.0.2.1"}}}}
		if text != "" {
			c.Listen[0].ProxyProtocol = rules.Networks{netip.MustParsePrefix(text)}
		}
		_, err := New(c)
		flaw := (*Flaw)(nil)
		if errors.As(err, &flaw) != (want != "") || flaw != nil && !strings.HasPrefix(flaw.Error(), want) {
			t.Errorf("from %q: %v, want %q", text, err, want)
		}
	}
}

// TestRepeats: net/http sends some requests without a body again, on a kept
// connection that ends before the answer begins, and no others.
func TestRepeats(t *testing.T) {
	var seen atomic.Int64
	to := service(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/ok" {
			seen.Add(1)
			panic(http.ErrAbortHandler)
		}
	})
	for _, c := range []struct {
		method, key, body string
		want              int64
	}{
		{"GET", "", "", 2},
		{"POST", "", "", 1},
		{"DELETE", "", "", 1},
		{"POST", "Idempotency-Key", "", 2},
		{"POST", "X-Idempotency-Key", "", 2},
		{"POST", "Idempotency-Key", "x", 1},
	} {
		e := serve(t, Config{Routes: []Route{{To: []string{to}}}})
		do(t, e.request("GET", "/ok", nil)) // its connection is kept
		seen.Store(0)
		r := e.request(c.method, "/", strings.NewReader(c.body))
		if c.key != "" {
			r.Header.Set(c.key, "1")
		}
		if status, _ := do(t, r); status != 502 || seen.Load() != c.want {
			t.Errorf("%+v: %d, the upstream has seen it %d times", c, status, seen.Load())
		}
	}
}

// TestLongStatic: a static answer that is longer than net/http holds back does not
// wait for a body that never comes.
func TestLongStatic(t *testing.T) {
	static := strings.Repeat("x", 64<<10)
	e := serve(t, Config{
		Limits: Limits{HeaderTimeout: time.Second},
		Routes: []Route{{To: []string{nobody(t)}, Degraded: &Degraded{Body: []byte(static)}, Degrade: func(*rules.Compiled) bool { return true }}},
	})
	status, body := e.raw(lines("POST / HTTP/1.1", "Host: h", "Content-Length: 100"))
	if status != 200 || body != static {
		t.Errorf("%d and %d bytes, want 200 and %d", status, len(body), len(static))
	}
}
