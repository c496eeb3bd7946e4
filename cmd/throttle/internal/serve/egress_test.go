//go:build unix

package serve

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
)

// TestEgress: callers reach an API through the program, and operators see how.
func TestEgress(t *testing.T) {
	dir := folder(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.URL.Path) }), "egress.yaml", `
version: 1
egress:
  listen: 127.0.0.1:0
  apis:
    one: TO/base
    two: {url: TO, account: header:Authorization, rate: 100/s, max_in_flight: 2, wait: 5s}
admin: {listen: 127.0.0.1:0}
drain: {delay: 0s}
`)
	p := start(t, dir, "egress.yaml")
	for path, want := range map[string]string{"/one/x": "/base/x", "/two/x": "/x", "/three/x": ""} {
		if status, body := get(t, p.egress+path); (status == 200) != (want != "") || want != "" && body != want {
			t.Errorf("GET %s: %d %s, want %q", path, status, body, want)
		}
	}
	for url, want := range map[string][]string{
		p.admin + "/metrics":    {`throttle_client_tries_total{`, `throttle_name="one"`, `throttle_name="two"`},
		p.admin + "/callers/":   {"<h1", "one", "two none", `<a href="../">Back</a>`},
		p.admin + "/":           {`<a href="/callers/">Callers</a>`},
		p.egress + "/throttle/": {"<h1", "one", "two none"},
		p.admin + "/readyz":     {"ready"},
	} {
		status, body := get(t, url)
		for _, text := range want {
			if status != 200 || !strings.Contains(body, text) {
				t.Errorf("GET %s: %d, and no %q in\n%s", url, status, text, body)
			}
		}
	}
	if code := p.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestBadEgress: a mistake that only the proxy knows has its place in the file.
func TestBadEgress(t *testing.T) {
	for text, want := range map[string]string{
		"{a: {url: 'http://h', dialect: gitub}}": "4:40: egress.apis.a.dialect: gitub: is not known; did you mean github?",
		"{throttle: 'http://h'}":                 "4:20: egress.apis.throttle: is the path of the page; write another name",
		"{a/b: 'http://h'}":                      "4:15: egress.apis.a/b: a name is up to 100 letters",
		"{a: 'http://h/?x'}":                     "4:13: egress.apis.a: (not shown): must have no user, no query and no #",
		"{a: 'http://h', b: 'http://h/'}":        "4:28: egress.apis.b: is that of a too; a request by URL could mean either",
	} {
		dir := folder(t, http.NotFoundHandler(), "e.yaml", "version: 1\negress:\n  listen: ':0'\n  apis: "+text+"\n")
		name := filepath.Join(dir, "e.yaml")
		if _, errs, code := clitest.Play(t.Context(), Run, name); code != 2 || !strings.HasPrefix(errs, "throttle: "+name+":"+want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: code %d\ngot  %swant throttle: %s:%s", text, code, errs, name, want)
		}
	}
}
