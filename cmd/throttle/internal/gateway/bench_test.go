package gateway

import (
	"context"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/throttle-go/throttle/cmd/throttle/internal/gateway/upstream"
)

// stub answers as an upstream does, without a network.
type stub struct{}

func (stub) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: 200, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, ContentLength: 13, Request: r,
		Header: http.Header{"Content-Type": {"text/plain; charset=utf-8"}, "Content-Length": {"13"}, "Date": {"Sun, 22 Nov 2026 19:14:18 GMT"}},
		Body:   io.NopCloser(strings.NewReader("hello, world\n")),
	}, nil
}

// sink is a ResponseWriter that is used again.
type sink struct{ header http.Header }

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) Write(p []byte) (int, error) { return len(p), nil }
func (s *sink) WriteHeader(int)             {}

// inProcess are the gateway of TestSoakSpeed and a bare ReverseProxy, both with a
// transport that answers at once.
func inProcess(b testing.TB) map[string]http.Handler {
	to := "http://127.0.0.1:1"
	u, err := url.Parse(to)
	if err != nil {
		b.Fatal(err)
	}
	g, err := New(Config{
		Listen: []Listen{{Addr: ":0"}}, Routes: []Route{{To: []string{to}}},
		Control: control(b, `{"rules": [{"name": "each", "key": "address", "limits": "100000000/s"}]}`),
	})
	if err != nil {
		b.Fatal(err)
	}
	if (*g.routes.Load())[0].pool, err = upstream.New([]string{to}, upstream.Options{Transport: stub{}}); err != nil {
		b.Fatal(err)
	}
	return map[string]http.Handler{"gateway": g, "bare": &httputil.ReverseProxy{
		Rewrite:   func(p *httputil.ProxyRequest) { p.SetURL(u); p.SetXForwarded() },
		Transport: stub{}, BufferPool: new(buffers),
	}}
}

// request is one as a client of Go sends it, as net/http passes it to a handler.
func request(ctx context.Context) *http.Request {
	r := httptest.NewRequestWithContext(ctx, "GET", "http://127.0.0.1:80/some/path?q=1", nil)
	r.Body, r.RemoteAddr = http.NoBody, "192.0.2.1:1234"
	r.Header = http.Header{"User-Agent": {"Go-http-client/1.1"}, "Accept-Encoding": {"gzip"}}
	return r
}

// BenchmarkRequest is one request through all of the gateway but the network, and
// through a bare ReverseProxy.
func BenchmarkRequest(b *testing.B) {
	for _, name := range []string{"bare", "gateway"} {
		h := inProcess(b)[name]
		b.Run(name, func(b *testing.B) {
			ctx, cancel := context.WithCancel(b.Context()) // as that of a connection
			defer cancel()
			r, w := request(ctx), &sink{http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				clear(w.header)
				h.ServeHTTP(w, r)
			}
		})
	}
}

// TestRequestAllocates: a request allocates no more than in a bare ReverseProxy, although
// there are the exchange, and what the rules and the fields need.
func TestRequestAllocates(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	allocs := map[string]float64{}
	for name, h := range inProcess(t) {
		r, w := request(ctx), &sink{http.Header{}}
		allocs[name] = math.Inf(1)
		for range 50 { // under the race detector pools forget at random
			allocs[name] = min(allocs[name], testing.AllocsPerRun(1, func() {
				clear(w.header)
				h.ServeHTTP(w, r)
			}))
		}
	}
	if allocs["gateway"] > allocs["bare"] {
		t.Errorf("%v allocations of a request, want no more than a bare ReverseProxy has", allocs)
	}
}

// TestEventStream: answers that ReverseProxy flushes at once are known by their type.
func TestEventStream(t *testing.T) {
	for text, want := range map[string]bool{
		"text/event-stream": true, "Text/Event-Stream; charset=utf-8": true, " text/event-stream": true,
		"": false, "text/html": false, "text/event": false,
	} {
		if got := isEventStream(text); got != want {
			t.Errorf("isEventStream(%q) = %v", text, got)
		}
	}
}
