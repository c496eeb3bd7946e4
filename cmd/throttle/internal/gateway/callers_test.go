package gateway

import (
	"io"
	"net/http"
	"strings"
	"testing"
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
