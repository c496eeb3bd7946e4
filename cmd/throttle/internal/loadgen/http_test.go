package loadgen

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// target is an HTTP target of a server.
func target(t *testing.T, r Request, at string) *HTTP {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	r.URL = u
	h, err := NewHTTP(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

func answer(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func TestHTTPVerdicts(t *testing.T) {
	endless := func(w http.ResponseWriter, _ *http.Request) {
		for chunk := make([]byte, 1<<20); ; {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}
	torn := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "10")
		io.WriteString(w, "short")
	}
	for _, test := range []struct {
		name    string
		handler http.HandlerFunc
		want    Verdict
		err     string // is in it
	}{
		{"200", answer(200), Good, ""},
		{"204", answer(204), Good, ""},
		{"429", answer(429), Refused, "answer 429 Too Many Requests"},
		{"503", answer(503), Refused, "answer 503 Service Unavailable"},
		{"500", answer(500), Failed, "answer 500 Internal Server Error"},
		{"404", answer(404), Failed, "answer 404"},
		{"302", answer(302), Failed, "answer 302"},
		{"torn", torn, Failed, "read the answer: unexpected EOF"},
		{"endless", endless, Failed, "longer than 64 MiB"},
	} {
		server := httptest.NewServer(test.handler)
		defer server.Close()
		got, err := target(t, Request{}, server.URL).Send(t.Context())
		if got != test.want || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%s: got %v, %v, want %v, ...%s...", test.name, got, err, test.want, test.err)
		}
	}
}

// TestHTTPRequest: method, header, Host and body arrive, and a connection serves
// one request after the other.
func TestHTTPRequest(t *testing.T) {
	var connections atomic.Int64
	var got []string
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = append(got, r.Method+" "+r.Host+r.URL.RequestURI()+" "+r.Header.Get("X-Key")+" "+string(body))
	}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	header := http.Header{"X-Key": {"7"}, "Host": {"example.com"}}
	h := target(t, Request{Header: header, Body: []byte("hello")}, server.URL+"/a?b=c")
	for range 3 {
		if v, err := h.Send(t.Context()); v != Good || err != nil {
			t.Fatal(v, err)
		}
	}
	if want := "POST example.com/a?b=c 7 hello"; len(got) != 3 || got[0] != want || got[2] != want {
		t.Errorf("got %q, want 3 times %q", got, want)
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
	if v, _ := target(t, Request{Method: "DELETE"}, server.URL).Send(t.Context()); v != Good || !strings.HasPrefix(got[3], "DELETE ") {
		t.Errorf("got %v, %q, want a DELETE", v, got[3])
	}
}

// TestHTTP2: over TLS, and in plain text where the URL says so.
func TestHTTP2(t *testing.T) {
	var proto atomic.Value
	handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { proto.Store(r.Proto) })
	tls := httptest.NewUnstartedServer(handler)
	tls.EnableHTTP2 = true
	tls.StartTLS()
	defer tls.Close()
	plain := httptest.NewUnstartedServer(handler)
	plain.Config.Protocols = new(http.Protocols)
	plain.Config.Protocols.SetUnencryptedHTTP2(true)
	plain.Start()
	defer plain.Close()
	for _, h := range []*HTTP{
		target(t, Request{Insecure: true}, tls.URL),
		target(t, Request{}, strings.Replace(plain.URL, "http", "h2c", 1)),
	} {
		if v, err := h.Send(t.Context()); v != Good || err != nil || proto.Load() != "HTTP/2.0" {
			t.Errorf("%s: got %v, %v over %v, want good over HTTP/2.0", h.request.URL, v, err, proto.Load())
		}
	}
}

// TestProbe: each thing that is wrong is said in one clear line.
func TestProbe(t *testing.T) {
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/moved":
			http.Redirect(w, r, "https://elsewhere.example/x", http.StatusFound)
		case "/slash":
			http.Redirect(w, r, "/slash/", http.StatusMovedPermanently)
		case "/refused":
			w.WriteHeader(429)
		case "/slow":
			<-r.Context().Done()
		case "/none":
			w.WriteHeader(404)
		case "/closed":
			panic(http.ErrAbortHandler)
		}
	}))
	defer plain.Close()
	tls := httptest.NewUnstartedServer(answer(200))
	tls.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that fail on purpose
	tls.StartTLS()
	defer tls.Close()
	gone := httptest.NewServer(answer(200))
	gone.Close()
	for _, test := range []struct{ url, want string }{
		{plain.URL + "/", ""},
		{plain.URL + "/refused", ""},
		{plain.URL + "/moved", "answers 302 Found to https://elsewhere.example/x; redirects are not followed: give the URL that is meant"},
		{plain.URL + "/slash", "answers 301 Moved Permanently to " + plain.URL + "/slash/; redirects are not followed"},
		{plain.URL + "/none", "answers 404 Not Found; only 2xx counts as served"},
		{plain.URL + "/slow", "no answer in time; -timeout D waits longer"},
		{plain.URL + "/closed", "the connection was closed before an answer"},
		{gone.URL, "connection refused; is the service running?"},
		{tls.URL, "TLS: x509: certificate signed by unknown authority; -insecure accepts any certificate"},
		{strings.Replace(plain.URL, "http", "https", 1), "TLS: the first bytes are no TLS; is it http:// ?"},
		{strings.Replace(tls.URL, "https", "http", 1), "answers 400 Bad Request"},
		{"http://192.0.2.1/", "192.0.2.1:80: not an address of this machine"},
	} {
		patience := time.Minute
		if strings.HasSuffix(test.url, "/slow") {
			patience = 200 * time.Millisecond
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		err := target(t, Request{}, test.url).Probe(ctx)
		cancel()
		got := ""
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, test.want) || (got == "") != (test.want == "") || strings.Contains(got, "\n") {
			t.Errorf("%s: got %q, want ...%q...", test.url, got, test.want)
		}
	}
}

// TestHTTPCancel: a load of a server that never answers ends with its context, and
// no goroutine is left.
func TestHTTPCancel(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer server.Close()
	before := runtime.NumGoroutine()
	h := target(t, Request{}, server.URL)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	g := &Generator{Target: h, Timeout: time.Hour}
	if r := g.Run(ctx, Load{Rate: 200, Even: true, Duration: time.Hour}); !r.Cut || r.Sent() != 0 {
		t.Errorf("got %+v, want cut and nothing counted", r)
	}
	h.Close()
	server.CloseClientConnections()
	for wait := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before+4; runtime.Gosched() {
		if time.Now().After(wait) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
	}
}

// TestUserOfURL: a user and password of the URL are sent, unless a header field is
// in their place.
func TestUserOfURL(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != r.Header.Get("X-Want") {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	defer server.Close()
	address := strings.Replace(server.URL, "http://", "http://me:secret@", 1)
	for want, header := range map[string]http.Header{
		"Basic bWU6c2VjcmV0": {}, "Bearer x": {"Authorization": {"Bearer x"}},
	} {
		header.Set("X-Want", want)
		if v, err := target(t, Request{Header: header}, address).Send(t.Context()); v != Good {
			t.Errorf("want %q: %v, %v", want, v, err)
		}
	}
}

func TestCommand(t *testing.T) {
	for _, test := range []struct {
		command Command
		want    Verdict
		err     string
	}{
		{Command{"true"}, Good, ""},
		{Command{"false"}, Failed, "exit status 1"},
		{Command{"sh", "-c", "exit 75"}, Refused, "exit status 75"},
		{Command{"/nowhere/at/all"}, Failed, "no such file"},
		{nil, Failed, "no command"},
	} {
		got, err := test.command.Send(t.Context())
		if got != test.want || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%q: got %v, %v, want %v, %q", test.command, got, err, test.want, test.err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	if v, err := (Command{"sleep", "60"}).Send(ctx); v != Failed || err == nil || time.Since(start) > 30*time.Second {
		t.Errorf("killed: got %v, %v after %v, want failed at once", v, err, time.Since(start))
	}
}
