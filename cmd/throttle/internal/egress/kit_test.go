package egress

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// engine is a Proxy that serves on loopback.
type engine struct {
	*Proxy
	t   *testing.T
	url string // without a slash at its end
	// end ends its context and returns what Serve returned.
	end func() error
}

// serve has a Proxy serve.
func serve(t *testing.T, c Config) *engine {
	t.Helper()
	p, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return run(t, p)
}

// run has a Proxy serve.
func run(t *testing.T, p *Proxy) *engine {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Serve(ctx, l) }()
	e := &engine{Proxy: p, t: t, url: "http://" + l.Addr().String()}
	e.end = sync.OnceValue(func() error {
		cancel()
		select {
		case err := <-ended:
			return err
		case <-time.After(20 * time.Second):
			return fmt.Errorf("Serve does not end")
		}
	})
	t.Cleanup(func() { e.end() })
	return e
}

// before serves a Proxy in front of h, under the name api.
func before(t *testing.T, a API, h http.HandlerFunc) *engine {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	a.URL = s.URL + a.URL
	return serve(t, Config{APIs: map[string]API{"api": a}})
}

// seen is an answer as its caller sees it.
type seen struct {
	*http.Response
	body string
}

// mark is the reason of an answer of the proxy.
func (s seen) mark() string { return s.Header.Get(generated) }

// send sends a request; fields are names and values.
func (e *engine) send(method, path string, body io.Reader, fields ...string) seen {
	e.t.Helper()
	r, err := http.NewRequestWithContext(e.t.Context(), method, e.url+path, body)
	if err != nil {
		e.t.Fatal(err)
	}
	for i := 0; i < len(fields); i += 2 {
		r.Header.Add(fields[i], fields[i+1])
		if fields[i] == "Host" {
			r.Host = fields[i+1]
		}
	}
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		e.t.Fatalf("%s %s: %v", method, path, err)
	}
	return e.read(answer)
}

func (e *engine) read(answer *http.Response) seen {
	e.t.Helper()
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		e.t.Fatal(err)
	}
	return seen{answer, string(text)}
}

// chunked is a body whose length nobody knows.
func chunked(text string) io.Reader { return io.MultiReader(strings.NewReader(text)) }

// turns are answers that are given one after the other; the last goes on.
type turns struct {
	mu    sync.Mutex
	all   []http.HandlerFunc
	asked []string // method, path and body of each request
}

func (s *turns) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	s.asked = append(s.asked, strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Method, r.RequestURI, body)))
	h := s.all[min(len(s.asked), len(s.all))-1]
	s.mu.Unlock()
	h(w, r)
}

// status answers with a status, and fields.
func status(code int, fields ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(fields); i += 2 {
			w.Header().Set(fields[i], fields[i+1])
		}
		w.WriteHeader(code)
		fmt.Fprint(w, code)
	}
}

// hangUp closes the connection without an answer.
func hangUp(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) }

// requests are those that came so far.
func (s *turns) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}
