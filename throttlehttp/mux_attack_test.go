package throttlehttp_test

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/rules"
	"github.com/throttle-go/throttle/throttlehttp"
)

// pathPieces are what a path may be written with, to look like another one.
var pathPieces = []string{
	"/", "/", "/", "api", "login", "files", "healthz", "x", "..", ".", "%2e%2e", "%2E.", "%2f", "%2F", "%5c", "//", ";a=1", "%00", "%61pi", "l%6fgin",
	"é", "%C3%A9", "%ff", "*", "?q=/../login", "%25%32%66", "/api/", "/login", "/files/", "/healthz", "/api/%2e%2e/healthz", "/files/..%2f",
}

// request reads a request as a server does; nil if it would refuse it.
func requestOf(target string) *http.Request {
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader("POST " + target + " HTTP/1.1\r\nHost: example.org\r\n\r\n")))
	if err != nil {
		return nil
	}
	r.RemoteAddr = "192.0.2.1:1"
	return r
}

// However a path is written, an http.ServeMux does not serve it by what a rule lets
// nobody have, nor does a path that is allowed lead to anything else.
func TestPathsHaveNoWayAround(t *testing.T) {
	set, err := rules.Parse([]byte(`{"allow": "path=/healthz", "rules": [
		{"name": "api", "match": {"paths": ["/api/*", "/files/*", "/login"]}, "limits": "0/s"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	var live rules.Live
	if err := live.Swap(set); err != nil {
		t.Fatal(err)
	}
	var served string
	mux := http.NewServeMux()
	for _, pattern := range []string{"/api/", "/files/{id}", "/login", "/healthz"} {
		mux.HandleFunc(pattern, func(http.ResponseWriter, *http.Request) { served = pattern })
	}
	h := &throttlehttp.Handler{Control: &admit.Control{Rules: &live}, Next: mux}
	chance, tried, found := rand.New(rand.NewPCG(1, 6)), map[string]int{}, map[string]bool{}
	for range 20_000 {
		target := "/"
		for range 1 + chance.IntN(7) {
			target += pathPieces[chance.IntN(len(pathPieces))]
		}
		r := requestOf(target)
		if r == nil {
			continue
		}
		served = ""
		h.ServeHTTP(httptest.NewRecorder(), r)
		if tried[served]++; served != "" && served != "/healthz" && !found[served] {
			found[served] = true
			t.Errorf("%s is served by %s, which the rules let nobody have", target, served)
		}
	}
	if tried["/healthz"] == 0 {
		t.Error(fmt.Sprint("what is allowed was never served: ", tried))
	}
}
