package gateway

import (
	"net/http/httptest"
	"testing"
)

// TestMethodsAndHosts: a method that is no token, or a query with a space, would be a request
// line of its own, and neither they nor a host that no upstream can be sent counts against it.
func TestMethodsAndHosts(t *testing.T) {
	for _, c := range []struct {
		method, host, query string
		bad                 bool
	}{
		{"GET", "a.example", "a=b+c&d", false},
		{"M-SEARCH", "a.example:80", "", false},
		{"GET /admin HTTP/1.1", "a.example", "", true},
		{"GET /admin?", "a.example", "", true},
		{"a b", "a.example", "", true},
		{"GÉT", "a.example", "", true},
		{"GET\x00", "a.example", "", true},
		{"", "a.example", "", true},
		{"GET", "xn--0ü", "", true},
		{"GET", "a.example", "a HTTP/1.0", true},
		{"GET", "a.example", " ", true},
	} {
		r := httptest.NewRequest("GET", "/public", nil)
		r.Method, r.Host, r.URL.RawQuery = c.method, c.host, c.query
		x := exchange{g: new(Gateway)}
		if got := x.clean(r); (got == 400) != c.bad {
			t.Errorf("%q of %q with %q: %d, want 400: %v", c.method, c.host, c.query, got, c.bad)
		}
	}
}
