package gateway

import (
	"net/http/httptest"
	"testing"
)

// TestMethodsAndHosts: a method that is no token would be a request line of its own, and
// neither it nor a host that no upstream can be sent counts against the upstream.
func TestMethodsAndHosts(t *testing.T) {
	for _, c := range []struct {
		method, host string
		bad          bool
	}{
		{"GET", "a.example", false},
		{"M-SEARCH", "a.example:80", false},
		{"GET /admin HTTP/1.1", "a.example", true},
		{"GET /admin?", "a.example", true},
		{"a b", "a.example", true},
		{"GÉT", "a.example", true},
		{"GET\x00", "a.example", true},
		{"", "a.example", true},
		{"GET", "xn--0ü", true},
	} {
		r := httptest.NewRequest("GET", "/public", nil)
		r.Method, r.Host = c.method, c.host
		x := exchange{g: new(Gateway)}
		if got := x.clean(r); (got == 400) != c.bad {
			t.Errorf("%q of %q: %d, want 400: %v", c.method, c.host, got, c.bad)
		}
	}
}
