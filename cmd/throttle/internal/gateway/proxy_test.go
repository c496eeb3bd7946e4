package gateway

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/rules"
)

const twoAnHour = `{"rules": [{"name": "all", "limits": "2/h"}]}`

// do sends a request and returns the status and the body.
func do(t *testing.T, r *http.Request) (int, string) {
	t.Helper()
	a, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	body, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return a.StatusCode, string(body)
}

func (e *engine) request(method, path string, body io.Reader) *http.Request {
	e.t.Helper()
	r, err := http.NewRequestWithContext(e.t.Context(), method, "http://"+e.addr+path, body)
	if err != nil {
		e.t.Fatal(err)
	}
	return r
}

// nobody returns a URL at which nothing listens.
func nobody(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return "http://" + l.Addr().String()
}

// TestNextUpstream: a request that one upstream cannot be connected to goes to
// the next, with its body.
func TestNextUpstream(t *testing.T) {
	alive := service(t, func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) })
	var tries atomic.Int64
	for range 4 { // until the dead one is the first
		e := serve(t, Config{Routes: []Route{{To: []string{nobody(t), alive}}}, OnServed: func(s Served) { tries.Add(int64(s.Tries)) }})
		for _, body := range []io.Reader{strings.NewReader("text"), io.MultiReader(strings.NewReader("te"), strings.NewReader("xt"))} {
			if status, got := do(t, e.request("POST", "/", body)); status != 200 || got != "text" {
				t.Errorf("%d %q", status, got)
			}
		}
	}
	if n := tries.Load(); n <= 8 {
		t.Errorf("%d tries of 8 requests: the dead upstream was never the first", n)
	}
}

// TestNextUpstreamPath: the next upstream gets its own path, without the prefix of
// the one before.
func TestNextUpstreamPath(t *testing.T) {
	alive := service(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.URL.EscapedPath()) })
	tries := make(chan int, 1)
	for prefix, want := range map[string]string{"": "/a%2Fb", "/own": "/own/a%2Fb"} {
		e := serve(t, Config{ // the second is the first to be tried
			Routes:   []Route{{To: []string{alive + prefix, nobody(t) + "/dead%2F"}}},
			OnServed: func(s Served) { tries <- s.Tries },
		})
		if _, got := do(t, e.request("GET", "/a%2Fb", nil)); got != want {
			t.Errorf("behind %q the path is %s, want %s", prefix, got, want)
		}
		if n := <-tries; n != 2 {
			t.Errorf("%d tries, want 2", n)
		}
	}
}

// TestRefund: what no upstream has seen is not charged; what one may have seen is
// charged, and never sent again.
func TestRefund(t *testing.T) {
	e := serve(t, Config{Routes: []Route{{To: []string{nobody(t)}}}, Control: control(t, twoAnHour)})
	for i := range 4 {
		a, err := http.DefaultTransport.RoundTrip(e.request("GET", "/", nil))
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		if a.StatusCode != 502 || a.Header.Get("RateLimit") != "" {
			t.Errorf("request %d to a dead upstream: %d, RateLimit %q; want 502 and no word of a limit", i+1, a.StatusCode, a.Header.Get("RateLimit"))
		}
	}
	var seen atomic.Int64
	cuts := service(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/ok") {
			return
		}
		seen.Add(1)
		io.ReadAll(r.Body)
		panic(http.ErrAbortHandler)
	})
	e = serve(t, Config{Routes: []Route{{To: []string{cuts, cuts + "/b"}}}, Control: control(t, `{"rules": [{"name": "all", "limits": "3/h"}]}`)})
	if status, _ := do(t, e.request("GET", "/ok", nil)); status != 200 { // its connection is kept
		t.Fatal(status)
	}
	for i, want := range []int{502, 502, 429} {
		if status, _ := do(t, e.request("POST", "/", strings.NewReader("x"))); status != want {
			t.Errorf("request %d to an upstream that cuts: %d, want %d", i+1, status, want)
		}
	}
	if seen.Load() != 2 {
		t.Errorf("an upstream saw %d requests, want 2", seen.Load())
	}
	seen.Store(0)
	e = serve(t, Config{Routes: []Route{{To: []string{cuts, cuts + "/b"}}}}) // with new connections
	if status, _ := do(t, e.request("GET", "/", nil)); status != 502 || seen.Load() != 1 {
		t.Errorf("a GET to upstreams that cut: %d, seen %d times; want 502, once", status, seen.Load())
	}
}

// TestEarlyHints: answers that go before the answer pass, and do not take what
// is said of the limit with them.
func TestEarlyHints(t *testing.T) {
	to := service(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</a.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		io.Copy(w, r.Body) // 100 Continue
	})
	e := serve(t, Config{Routes: []Route{{To: []string{to}}}, Control: control(t, `{"rules": [{"name": "all", "limits": "9/h"}]}`)})
	hints := ""
	r := e.request("POST", "/", strings.NewReader("x"))
	r.Header.Set("Expect", "100-continue")
	r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
			if code == 103 {
				hints = h.Get("Link") + h.Get("RateLimit")
			}
			return nil
		},
	}))
	a, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	if hints != "</a.css>; rel=preload" {
		t.Errorf("the hints say %q", hints)
	}
	if got := a.Header.Get("RateLimit"); !strings.HasPrefix(got, `"all";r=8`) {
		t.Errorf("after hints RateLimit is %q", got)
	}
}

// TestEarlyHintsOld: a caller of HTTP/1.0, which would take an answer that goes before
// the answer for it, gets none of those, with a body and without one.
func TestEarlyHintsOld(t *testing.T) {
	to := service(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</a.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Link")
		io.Copy(w, r.Body)
	})
	e := serve(t, Config{Routes: []Route{{To: []string{to}}}})
	for text, want := range map[string]string{
		lines("GET / HTTP/1.0"): "",
		lines("POST / HTTP/1.0", "Expect: 100-continue", "Content-Length: 1") + "x": "x",
	} {
		if status, body := e.raw(text); status != 200 || body != want {
			t.Errorf("%q: %d %q, want 200 %q", text, status, body, want)
		}
	}
}

// TestOwnFields: fields of the upstream about limits of its own do not replace
// the gateway's, and stand beside them where a list may.
func TestOwnFields(t *testing.T) {
	to := service(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("RateLimit", `"theirs";r=1`)
		w.Header().Set("RateLimit-Remaining", "1")
	})
	for headers, want := range map[string]string{"draft": `"all";r=8;t=400|"theirs";r=1 1`, "triple": `"theirs";r=1 8`} {
		o, err := optionsOf([]string{"-to", to, "-limit", "9/h", "-headers", headers})
		if err != nil {
			t.Fatal(err)
		}
		e := serve(t, Config{Routes: []Route{{To: []string{to}}}, Headers: o.Headers, Control: control(t, `{"rules": [{"name": "all", "limits": "9/h"}]}`)})
		a, err := http.DefaultTransport.RoundTrip(e.request("GET", "/", nil))
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		if got := strings.Join(a.Header.Values("RateLimit"), "|") + " " + strings.Join(a.Header.Values("RateLimit-Remaining"), "|"); got != want {
			t.Errorf("%s: %q, want %q", headers, got, want)
		}
	}
}

// TestProtocols: HTTP/1.1 and HTTP/2 on both sides, with trailers both ways and
// a body that flows while the answer does.
func TestProtocols(t *testing.T) {
	echo := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "Sum")
		rc := http.NewResponseController(w)
		if err := rc.EnableFullDuplex(); err != nil && r.ProtoMajor == 1 {
			t.Error(err)
		}
		fmt.Fprint(w, r.Proto, " ")
		rc.Flush()
		io.Copy(flusher{w, rc}, r.Body)
		w.Header().Set("Sum", r.Trailer.Get("Sum"))
	})
	secure := httptest.NewUnstartedServer(echo)
	secure.EnableHTTP2 = true
	secure.StartTLS()
	defer secure.Close()
	ca := writePEM(t, "CERTIFICATE", secure.Certificate().Raw)
	clear := httptest.NewUnstartedServer(echo)
	clear.Config.Protocols = new(http.Protocols)
	clear.Config.Protocols.SetHTTP1(true)
	clear.Config.Protocols.SetUnencryptedHTTP2(true)
	clear.Start()
	defer clear.Close()
	files := newCertificate(t, "127.0.0.1")
	e := serve(t, Config{
		Listen: []Listen{{Addr: "127.0.0.1:0", TLS: &TLS{Cert: files.cert, Key: files.key}}},
		Routes: []Route{
			{Match: "/h2/*", To: []string{secure.URL}, TLS: UpstreamTLS{CA: ca, ServerName: "example.com"}},
			{Match: "/h2c/*", To: []string{strings.Replace(clear.URL, "http:", "h2c:", 1)}},
			{To: []string{clear.URL}},
		},
	})
	for _, version := range []string{"HTTP/1.1", "HTTP/2.0"} {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: files.pool(t)}, ForceAttemptHTTP2: version == "HTTP/2.0"}
		for path, want := range map[string]string{"/h2/": "HTTP/2.0", "/h2c/": "HTTP/2.0", "/": "HTTP/1.1"} {
			if got := pingPong(t, transport, "https://"+e.addr+path); got != version+" "+want+" a b sum" {
				t.Errorf("a caller by %s, %s: %q, want an upstream by %s", version, path, got, want)
			}
		}
		transport.CloseIdleConnections()
	}
}

// flusher flushes what is written.
type flusher struct {
	io.Writer
	rc *http.ResponseController
}

func (f flusher) Write(p []byte) (int, error) {
	n, err := f.Writer.Write(p)
	if err == nil {
		err = f.rc.Flush()
	}
	return n, err
}

// pingPong sends one part of a body after it has the answer to the one before.
func pingPong(t *testing.T, transport http.RoundTripper, url string) string {
	t.Helper()
	reader, writer := io.Pipe()
	defer writer.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, "POST", url, reader)
	if err != nil {
		t.Fatal(err)
	}
	r.Trailer = http.Header{"Sum": nil}
	a, err := transport.RoundTrip(r)
	if err != nil {
		return err.Error()
	}
	defer a.Body.Close()
	in := bufio.NewReader(a.Body)
	all := a.Proto + " "
	for _, part := range []string{"", "a ", "b "} {
		if part != "" {
			io.WriteString(writer, part)
		}
		text, err := in.ReadString(' ')
		if all += text; err != nil {
			return all + err.Error()
		}
	}
	r.Trailer.Set("Sum", "sum")
	writer.Close()
	rest, err := io.ReadAll(in)
	if err != nil {
		return all + err.Error()
	}
	return all + string(rest) + a.Trailer.Get("Sum")
}

// TestTooLarge: a body beyond the bound is refused, uncharged if its length is
// known before.
func TestTooLarge(t *testing.T) {
	to := service(t, func(w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) })
	e := serve(t, Config{Routes: []Route{{To: []string{to}}}, Limits: Limits{MaxBody: 10, MaxHeader: 1 << 10}, Control: control(t, twoAnHour)})
	for range 3 {
		if status, _ := do(t, e.request("POST", "/", strings.NewReader("12345678901"))); status != 413 {
			t.Errorf("11 bytes: %d, want 413", status)
		}
	}
	if status, _ := do(t, e.request("POST", "/", io.MultiReader(strings.NewReader("12345678901")))); status != 413 {
		t.Errorf("11 bytes in chunks: %d, want 413", status)
	}
	if status, _ := do(t, e.request("POST", "/", strings.NewReader("1234567890"))); status != 200 {
		t.Errorf("10 bytes: %d, want 200", status)
	}
	if status, _ := e.raw(lines("GET / HTTP/1.1", "Host: h", "X: "+strings.Repeat("x", 8<<10))); status != 431 {
		t.Errorf("a header of 8 kB: %d, want 431", status)
	}
}

// TestDegraded: in place of a refusal, and while a switch says so, a static
// answer or another upstream answers.
func TestDegraded(t *testing.T) {
	var off atomic.Bool
	degrade := func(*rules.Compiled) bool { return off.Load() }
	full := service(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "full") })
	less := service(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "less") })
	e := serve(t, Config{
		Control: control(t, `{"rules": [{"name": "all", "key": "path:1", "limits": "1/h"}]}`),
		Routes: []Route{
			{Match: "/static/*", To: []string{full}, Degraded: &Degraded{Status: 203, Header: http.Header{"X-Less": {"1"}}, Body: []byte("static")}},
			{Match: "/other/*", To: []string{full}, Degraded: &Degraded{To: []string{less}}, Degrade: degrade},
			{To: []string{full}},
		},
	})
	for _, c := range []struct {
		path string
		off  bool
		want string
	}{
		{"/static/", false, "200 full"},
		{"/static/", false, "203 static"},
		{"/other/", true, "200 less"},
		{"/other/", false, "200 full"},
		{"/other/", false, "200 less"},
		{"/plain", false, "200 full"},
	} {
		off.Store(c.off)
		status, body := do(t, e.request("GET", c.path, nil))
		if got := fmt.Sprint(status, " ", body); got != c.want {
			t.Errorf("%s (off %v): %q, want %q", c.path, c.off, got, c.want)
		}
	}
	if status, _ := do(t, e.request("GET", "/plain", nil)); status != 429 {
		t.Errorf("without Degraded: %d, want 429", status)
	}
}

// TestPriority: it is believed from trusted proxies only.
func TestPriority(t *testing.T) {
	for from, want := range map[string]string{"127.0.0.0/8": "critical", "10.0.0.0/8": "normal"} {
		got := make(chan string, 1)
		c := control(t, twoAnHour)
		c.OnEvent = func(e admit.Event) {
			if got <- "normal"; e.Request.Priority != 0 {
				<-got
				got <- e.Request.Priority.String()
			}
		}
		to := service(t, header("Throttle-Priority"))
		e := serve(t, Config{Routes: []Route{{To: []string{to}}}, Control: c, Priority: Believed{"Throttle-Priority", network(t, from)}})
		r := e.request("GET", "/", nil)
		r.Header.Set("Throttle-Priority", "Critical")
		_, body := do(t, r)
		if p := <-got; p != want || (body != "") != (want == "critical") {
			t.Errorf("from %s: priority %s, the service sees %q; want %s", from, p, body, want)
		}
	}
}
