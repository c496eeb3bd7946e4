package egress

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/throttlehttp"
)

// TestRepeats: what is sent again, and what reaches the caller.
func TestRepeats(t *testing.T) {
	throttled, ok := status(429, "Retry-After", "0"), status(200)
	for _, c := range []struct {
		name, method string
		body         io.Reader
		fields       []string
		answers      []http.HandlerFunc
		want         int
		sent         int
	}{
		{"a refusal", "GET", nil, nil, []http.HandlerFunc{throttled, ok}, 200, 2},
		{"a refusal of a POST, with its body", "POST", strings.NewReader("hello"), nil, []http.HandlerFunc{throttled, ok}, 200, 2},
		{"a refusal of a body without a length", "POST", chunked("hello"), nil, []http.HandlerFunc{throttled, ok}, 429, 1},
		{"a refusal of a body that is too long", "PUT", strings.NewReader(strings.Repeat("x", 2000)), nil, []http.HandlerFunc{throttled, ok}, 429, 1},
		{"a failure", "GET", nil, nil, []http.HandlerFunc{status(502), status(503), ok}, 200, 3},
		{"a failure of a POST", "POST", strings.NewReader("hello"), nil, []http.HandlerFunc{status(502), ok}, 502, 1},
		{"a failure of a POST with a key", "POST", strings.NewReader("hello"), []string{"Idempotency-Key", "1"}, []http.HandlerFunc{status(502), ok}, 200, 2},
		{"a POST that was cut", "POST", strings.NewReader("hello"), nil, []http.HandlerFunc{hangUp, ok}, 502, 1},
		{"a PUT that was cut", "PUT", strings.NewReader("hello"), nil, []http.HandlerFunc{hangUp, ok}, 200, 2},
		{"a fault of the caller", "GET", nil, nil, []http.HandlerFunc{status(400), ok}, 400, 1},
		{"a fault of the API", "GET", nil, nil, []http.HandlerFunc{status(500), ok}, 500, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			api := &turns{all: c.answers}
			s := httptest.NewServer(api)
			defer s.Close()
			e := serve(t, Config{APIs: map[string]API{"api": {URL: s.URL}}, MaxBody: 1000})
			e.bodyIn = 50 * time.Millisecond // once the body is here it bounds nothing
			a := e.send(c.method, "/api/x", c.body, c.fields...)
			asked := api.requests()
			if a.StatusCode != c.want || len(asked) != c.sent {
				t.Errorf("answered %d %s after %d requests, want %d after %d", a.StatusCode, a.body, len(asked), c.want, c.sent)
			}
			if len(slices.Compact(asked)) != 1 {
				t.Errorf("the API was asked %q: not the same each time", api.requests())
			}
			if ours := a.mark() != ""; ours != (a.body != fmt.Sprint(c.want)) {
				t.Errorf("marked %q: %s", a.mark(), a.body)
			}
		})
	}
}

// TestPassed: what the API sees, and what the caller sees.
func TestPassed(t *testing.T) {
	came := make(chan *http.Request, 1)
	e := before(t, API{URL: "/base"}, func(w http.ResponseWriter, r *http.Request) {
		came <- r
		w.Header().Set("Location", "http://"+r.Host+"/base/next?x=1")
		w.Header().Add("Link", "<http://"+r.Host+"/base/2>; rel=\"next\", <http://"+r.Host+"/other>; rel=\"x\"")
		w.Header().Set(generated, "forged")
		w.Header().Set("Keep-Alive", "timeout=1")
		w.WriteHeader(http.StatusCreated)
	})
	a := e.send("POST", "/api/a%2Fb?q=%zz;", strings.NewReader("hello"), "X-Forwarded-For", "192.0.2.1", "Connection", "X-Hop", "X-Hop", "1",
		"Proxy-Authorization", "Basic x", "Authorization", "Bearer x", waitField, "5s", priorityField, "low", tokensField, "300")
	in := <-came
	if got, want := in.RequestURI+" "+in.Host, "/base/a%2Fb?q=%zz; "+strings.TrimPrefix(e.apis[0].base.Host, "http://"); got != want {
		t.Errorf("the API got %s, want %s", got, want)
	}
	for name, want := range map[string]string{
		"X-Forwarded-For": "192.0.2.1", "Authorization": "Bearer x", "Accept-Encoding": "gzip", loopField: e.mark,
		"X-Hop": "", "Proxy-Authorization": "", waitField: "", priorityField: "", tokensField: "",
	} {
		if got := in.Header.Get(name); got != want {
			t.Errorf("the API got %s: %s, want %q", name, got, want)
		}
	}
	own := e.url + "/api"
	base := e.apis[0].base
	for name, want := range map[string]string{
		"Location": own + "/next?x=1", generated: "", "Keep-Alive": "",
		"Link": "<" + own + "/2>; rel=\"next\", <http://" + base.Host + "/other>; rel=\"x\"",
	} {
		if got := a.Header.Get(name); got != want || a.StatusCode != 201 {
			t.Errorf("the caller got %d, %s: %s, want %q", a.StatusCode, name, got, want)
		}
	}
	e.send("GET", "/api/", nil, "Connection", "Upgrade", "Upgrade", "h2c", "HTTP2-Settings", "AAMAAABkAAQ")
	if h := (<-came).Header; h.Get("Upgrade")+h.Get("Connection")+h.Get("Http2-Settings") != "" {
		t.Errorf("the API was asked for HTTP/2 without TLS: %v", h)
	}
	if a := e.send("GET", "/api/", nil, "Authorization", "AWS4-HMAC-SHA256 Credential=x, SignedHeaders=accept-encoding", "Accept-Encoding", "identity"); a.StatusCode != 201 {
		t.Errorf("a signed request was answered %d", a.StatusCode)
	}
	if got := (<-came).Header.Get("Accept-Encoding"); got != "identity" {
		t.Errorf("a signed request had its Accept-Encoding changed to %q", got)
	}
}

// TestRefused: what goes nowhere.
func TestRefused(t *testing.T) {
	e := before(t, API{}, status(200))
	e.bodyIn = 50 * time.Millisecond
	for _, c := range []struct {
		path   string
		fields []string
		want   string
	}{
		{"/nope/x", nil, "404 unknown-api"},
		{"/api/../x", nil, "400 bad-request"},
		{"/api/x", []string{loopField, "other"}, "200 "},
		{"/api/x", []string{loopField, "other", loopField, e.mark}, "508 loop"},
		{"/api/x", []string{waitField, "soon"}, "400 bad-request"},
		{"/api/x", []string{tokensField, "0"}, "400 bad-request"},
		{"/api/x", []string{tokensField, "many"}, "400 bad-request"},
		{"/api/x", []string{"Host", "localhost:1"}, "200 "},
		{"/api/x", []string{"Host", "evil.test"}, "403 browser"},
		{"/throttle/", []string{"Host", "evil.test"}, "403 browser"},
		{"/api/x", []string{"Sec-Fetch-Site", "cross-site"}, "403 browser"},
		{"/api/x", []string{"Origin", "http://evil.test"}, "403 browser"},
		{"/api/x", []string{"Origin", "null"}, "403 browser"},
		{"/api/x", []string{"Origin", e.url}, "200 "},
		{"/throttle/state.json", []string{"Sec-Fetch-Site", "cross-site"}, "403 browser"},
		{"/throttle/state.json", nil, "200 "},
	} {
		a := e.send("GET", c.path, nil, c.fields...)
		if got := fmt.Sprint(a.StatusCode, " ", a.mark()); got != c.want {
			t.Errorf("GET %s %q = %s, want %s: %s", c.path, c.fields, got, c.want, a.body)
		}
	}
	for _, c := range []struct{ text, want string }{
		{"CONNECT api.github.com:443 HTTP/1.1\r\nHost: api.github.com:443\r\n\r\n", "403 not-listed"},
		{"GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n", "403 not-listed"},
		{"GET " + e.apis[0].base.String() + "/x HTTP/1.1\r\nHost: evil.test\r\n\r\n", "200 "},
		{"GET " + e.url + "/api/x HTTP/1.1\r\nHost: x\r\n\r\n", "200 "},
		{"GET /api/x HTTP/1.0\r\n\r\n", "200 "},
		{"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", "200 final"},
		{"POST /api/x HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "400 bad-body"},
		{"POST /api/x HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: 9\r\n\r\nabc", "400 bad-body"},
	} {
		if got := e.raw(c.text); got != c.want {
			t.Errorf("%q = %s, want %s", c.text, got, c.want)
		}
	}
}

// raw sends bytes. It returns the status and the mark of the answer.
func (e *engine) raw(text string) string {
	e.t.Helper()
	a := e.exchange(text)
	return fmt.Sprint(a.StatusCode, " ", a.mark())
}

// exchange sends bytes, and reads the answer.
func (e *engine) exchange(text string) seen {
	e.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(e.url, "http://"))
	if err != nil {
		e.t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		e.t.Fatal(err)
	}
	if _, err := io.WriteString(c, text); err != nil {
		e.t.Fatal(err)
	}
	a, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		e.t.Fatalf("%q: %v", text, err)
	}
	return e.read(a)
}

// TestStreams: an event is here before the answer ends, trailers follow it, and a caller
// that goes ends it.
func TestStreams(t *testing.T) {
	gone, next := make(chan struct{}), make(chan struct{})
	e := before(t, API{}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Trailer", "X-End")
		for i := range 2 {
			fmt.Fprintf(w, "data: %d\n\n", i)
			http.NewResponseController(w).Flush()
			<-next
		}
		w.Header().Set("X-End", "done")
		if r.URL.Path == "/endless" {
			<-r.Context().Done()
			close(gone)
		}
	})
	for _, path := range []string{"/api/short", "/api/endless"} {
		r, _ := http.NewRequestWithContext(t.Context(), "GET", e.url+path, nil)
		a, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(a.Body)
		for i := range 2 {
			if lines.Scan(); lines.Text() != fmt.Sprintf("data: %d", i) {
				t.Fatalf("line %d is %q", i, lines.Text())
			}
			lines.Scan()
			next <- struct{}{}
		}
		if path == "/api/short" && (lines.Scan() || a.Trailer.Get("X-End") != "done") {
			t.Errorf("trailers are %v", a.Trailer)
		}
		a.Body.Close()
	}
	select {
	case <-gone:
	case <-time.After(10 * time.Second):
		t.Error("the API was not told that the caller has gone")
	}
}

// TestUpgrade: bytes pass both ways after 101, also where the API speaks HTTP/2.
func TestUpgrade(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "echo" || r.ProtoMajor != 1 {
			fmt.Fprint(w, r.Proto)
			return
		}
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		line, _ := rw.ReadString('\n')
		io.WriteString(c, "echo "+line)
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	e := serve(t, Config{APIs: map[string]API{"api": {URL: s.URL}}})
	trust := s.Client().Transport.(*http.Transport).TLSClientConfig
	for _, transport := range []*throttlehttp.Transport{e.apis[0].plain, e.apis[0].upgrades} {
		transport.Base.(*http.Transport).TLSClientConfig = trust.Clone()
		transport.Base.(*http.Transport).TLSClientConfig.NextProtos = nil
	}
	if a := e.send("GET", "/api/", nil); a.body != "HTTP/2.0" {
		t.Errorf("without an upgrade: %s", a.body)
	}
	c, err := net.Dial("tcp", strings.TrimPrefix(e.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "GET /api/ HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	in := bufio.NewReader(c)
	a, err := http.ReadResponse(in, nil)
	if err != nil || a.StatusCode != 101 {
		t.Fatalf("answered %v, %v", a, err)
	}
	fmt.Fprintf(c, "hello\n")
	if line, err := in.ReadString('\n'); line != "echo hello\n" {
		t.Errorf("echoed %q, %v", line, err)
	}
}

// TestZipped: where a refusal has its reason in a body that is compressed, it is read.
func TestZipped(t *testing.T) {
	api := &turns{all: []http.HandlerFunc{func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.WriteHeader(http.StatusForbidden)
		z := gzip.NewWriter(w)
		io.WriteString(z, `{"message": "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."}`)
		z.Close()
	}}}
	s := httptest.NewServer(api)
	defer s.Close()
	e := serve(t, Config{APIs: map[string]API{"api": {URL: s.URL, Dialect: "github"}}})
	a := e.send("GET", "/api/", nil, "Accept-Encoding", "gzip, deflate, br", waitField, "5s")
	if a.StatusCode != 429 || a.mark() != "wait" || len(api.requests()) != 1 {
		t.Errorf("answered %d, %q after %d requests, want 429 by the proxy after one: %s", a.StatusCode, a.mark(), len(api.requests()), a.body)
	}
}

// TestAccounts: each value of the field has a Throttle, and none of them its name.
func TestAccounts(t *testing.T) {
	e := before(t, API{Account: "authorization"}, status(200))
	for _, secret := range []string{"Bearer one", "Bearer two", "Bearer one", ""} {
		e.send("GET", "/api/", nil, "Authorization", secret)
	}
	group, counter := e.Observed("api")
	var names []string
	for name := range group.All() {
		names = append(names, name)
	}
	if len(names) != 3 || counter.Stats().Served != 4 || strings.Contains(fmt.Sprint(names), "one") {
		t.Errorf("Throttles %q, %d served", names, counter.Stats().Served)
	}
}

// TestBusy: beyond MaxRequests a request is refused at once.
func TestBusy(t *testing.T) {
	in, out := make(chan struct{}), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { in <- struct{}{}; <-out }))
	defer s.Close()
	e := serve(t, Config{APIs: map[string]API{"api": {URL: s.URL}}, MaxRequests: 1})
	var first sync.WaitGroup
	first.Go(func() { e.send("GET", "/api/", nil) })
	<-in
	if a := e.send("GET", "/api/", nil); a.StatusCode != 503 || a.mark() != "busy" || a.Header.Get("Retry-After") != "1" {
		t.Errorf("answered %d %q", a.StatusCode, a.mark())
	}
	close(out)
	first.Wait()
}

// TestDead: an API that refuses connections is 502, and was not asked.
func TestDead(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	var log bytes.Buffer
	e := serve(t, Config{APIs: map[string]API{"api": {URL: "http://" + l.Addr().String()}}, Log: slog.New(slog.NewTextHandler(&log, nil))})
	a := e.send("POST", "/api/", strings.NewReader("x"))
	if a.StatusCode != 502 || a.mark() != "unreachable" || a.Header.Get(mayHaveRun) != "false" {
		t.Errorf("answered %d %q: %s", a.StatusCode, a.mark(), a.body)
	}
	if err := e.end(); err != nil {
		t.Error(err)
	}
	if text := log.String(); strings.Count(text, "level=WARN") != 1 || !strings.Contains(text, `msg="given up" api=api reason=unreachable status=502 err="throttle: no tries left, after 1 try, not executed: `) {
		t.Errorf("the log says\n%s", text)
	}
}

// TestKnownRate: a rate that is known is kept from the first request.
func TestKnownRate(t *testing.T) {
	times := make(chan time.Time, 11)
	e := before(t, API{Rate: limit.Limit{Count: 50, Period: time.Second}}, func(http.ResponseWriter, *http.Request) { times <- time.Now() })
	var all sync.WaitGroup
	for range 11 {
		all.Go(func() { e.send("GET", "/api/", nil) })
	}
	all.Wait()
	first, last := <-times, time.Time{}
	for range 10 {
		last = <-times
	}
	if took := last.Sub(first); took < 170*time.Millisecond {
		t.Errorf("11 requests at 50 a second took %v", took)
	}
}
