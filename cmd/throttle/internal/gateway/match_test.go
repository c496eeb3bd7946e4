package gateway

import (
	"strings"
	"testing"
)

// TestMatches: a Match that no request would meet, as hosts and paths are compared, is a
// mistake; all others are met.
func TestMatches(t *testing.T) {
	for _, c := range []struct{ match, host, path, want string }{
		{"API.Example.org/v1/*", "api.example.org:8443", "/v1/x", ""},
		{"*.example.org/*", "a.example.org.", "/", ""},
		{"::1/*", "[::1]:80", "/x", ""},
		{"[::1]/*", "[::1]", "/x", ""},
		{"/.well-known/*", "a", "/.well-known/x", ""},
		{"/a/", "a", "/a//", ""},
		{"*.json", "a", "/a/b.json", ""},
		{"api.example.org:8443/*", "", "", "without scheme, port and final dot"},
		{"https://api.example.org/*", "", "", "without scheme, port and final dot"},
		{"api.example.org./*", "", "", "without scheme, port and final dot"},
		{"münchen.example/*", "", "", "must have a host as requests have it, in ASCII: xn--"},
		{"[::1]:80/*", "", "", "without scheme, port and final dot"},
		{"/a//b", "", "", `paths are compared without // and dot segments; write "/a/b"`},
		{"a.org/x/../y/*", "", "", `paths are compared without // and dot segments; write "a.org/y/*"`},
		{"/a/.", "", "", `paths are compared without // and dot segments; write "/a"`},
	} {
		r := &route{Route: Route{Match: c.match}}
		switch err := r.readMatch(); {
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("Match %q: %v, want %s", c.match, err, c.want)
		case c.want == "" && err != nil:
			t.Errorf("Match %q: %v, want none", c.match, err)
		case c.want == "" && !r.matches(hostOf(c.host), cleaned(c.path)):
			t.Errorf("Match %q is not met by %s%s", c.match, c.host, c.path)
		}
	}
}
