package gateway

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestBodiless: an answer 304 may state the length of what it does not send, and its
// trailers, and a 204 does so against the rules. They pass whole, by each protocol on each
// side, for requests with a body and without.
func TestBodiless(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		set(w.Header(), `Etag: "a"`, "Content-Length: 50000")
		w.WriteHeader(http.StatusNotModified)
	}))
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	second := new(http.Protocols)
	second.SetUnencryptedHTTP2(true)
	callers := map[string]*http.Transport{"HTTP/1": {}, "HTTP/2": {Protocols: second}}
	writes := func(header ...string) string {
		return service(t, func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body) // else the end resets the connection
			c, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				return
			}
			defer c.Close()
			io.WriteString(c, lines(append(header, `Etag: "a"`, "Connection: close")...))
		})
	}
	for name, to := range map[string]string{
		"304 by HTTP/1":     s.URL,
		"304 by HTTP/2":     strings.Replace(s.URL, "http", "h2c", 1),
		"304 with trailers": writes("HTTP/1.1 304 Not Modified", "Trailer: X-T", "Transfer-Encoding: chunked"),
		"204 with trailers": writes("HTTP/1.1 204 No Content", "Trailer: X-T", "Transfer-Encoding: chunked"),
		"204 with a length": writes("HTTP/1.1 204 No Content", "Content-Length: 5"),
	} {
		e := serve(t, Config{Routes: []Route{{To: []string{to}}}})
		for by, caller := range callers {
			defer caller.CloseIdleConnections()
			for _, r := range []*http.Request{e.request("GET", "/", nil), e.request("HEAD", "/", nil), e.request("POST", "/", strings.NewReader("x"))} {
				if got, want := outcome(caller, r), name[:3]+` "a" 0 <nil>`; got != want {
					t.Errorf("%s by %s, answered %s: %s, want %s", r.Method, by, name, got, want)
				}
			}
		}
	}
}

// outcome sends a request and returns the status, the Etag and the length of its answer.
func outcome(caller *http.Transport, r *http.Request) string {
	ctx, cancel := context.WithTimeout(r.Context(), 20*time.Second)
	defer cancel()
	a, err := caller.RoundTrip(r.WithContext(ctx))
	if err != nil {
		return err.Error()
	}
	defer a.Body.Close()
	body, err := io.ReadAll(a.Body)
	return fmt.Sprint(a.StatusCode, " ", a.Header.Get("Etag"), " ", len(body), " ", err)
}
