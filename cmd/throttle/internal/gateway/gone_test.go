package gateway

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestUpstreamGone: where the connection to an upstream by HTTP/2 ends while the caller is
// still to send, as in a stream of gRPC, its answer ends with it, or is 502.
func TestUpstreamGone(t *testing.T) {
	type own struct{}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.ReadFull(r.Body, make([]byte, 1))
		if r.URL.Path == "/answer" {
			http.NewResponseController(w).Flush()
			io.ReadFull(r.Body, make([]byte, 1))
		}
		r.Context().Value(own{}).(net.Conn).Close()
	}))
	s.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, own{}, c) }
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	second := new(http.Protocols)
	second.SetUnencryptedHTTP2(true)
	for name, caller := range map[string]*http.Transport{"HTTP/1": {}, "HTTP/2": {Protocols: second}} {
		e := serve(t, Config{Routes: []Route{{To: []string{strings.Replace(s.URL, "http", "h2c", 1)}}}})
		for path, want := range map[string]int{"/": 502, "/answer": 200} {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			body, sends := io.Pipe()
			go sends.Write([]byte("x"))
			a, err := caller.RoundTrip(e.request("POST", path, body).WithContext(ctx))
			if err != nil || a.StatusCode != want {
				t.Errorf("%s by %s: %v, %v, want %d", path, name, a, err, want)
				continue
			}
			if want == 200 {
				go sends.Write([]byte("x"))
				_, err = io.Copy(io.Discard, a.Body)
			}
			if (err != nil) != (want == 200) || ctx.Err() != nil {
				t.Errorf("%s by %s: %v, %v: want the answer to be cut: %t", path, name, err, ctx.Err(), want == 200)
			}
			a.Body.Close()
			sends.Close()
		}
	}
}
