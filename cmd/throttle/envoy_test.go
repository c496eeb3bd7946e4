//go:build unix

package main

import (
	"bytes"
	"cmp"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

const envoyRules = `deny: 203.0.113.0/24
rules:
  - {name: requests, limits: 0/s}
  - {name: user, match: {domains: edge, descriptor: user}, key: entry:user, limits: 2/h}
  - {name: all, match: {domains: edge, descriptor: which=all}, limits: 3/h}
  - {name: tried, match: {domains: edge, descriptor: which=shadow}, shadow: true, limits: 0/s}
  - {name: bytes, match: {domains: edge, descriptor: which=bytes}, debt: true, limits: 100/h}
  - {name: cost, match: {domains: edge, descriptor: which=cost}, limits: 6/h}
  - {name: back, match: {domains: edge, descriptor: which=back}, limits: 4/h}
`

// fronted is a service behind a real Envoy, which asks 'throttle serve'.
type fronted struct {
	t                           *testing.T
	open, closed, limits, admin string // addresses
	file                        string
	mu                          sync.Mutex
	log                         bytes.Buffer
}

// Write adds to the log of the program.
func (f *fronted) Write(text []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.log.Write(text)
}

func (f *fronted) said(text string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Contains(f.log.String(), text)
}

// freePorts are addresses of this machine that nothing listens on.
func freePorts(t *testing.T, n int) (all []string) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		all = append(all, l.Addr().String())
	}
	return all
}

// envoyProgram is the path of Envoy.
func envoyProgram(t *testing.T) string {
	t.Helper()
	self, err := filepath.Abs("../../.bin/envoy")
	if err != nil {
		t.Fatal(err)
	}
	envoy, err := exec.LookPath(cmp.Or(os.Getenv("ENVOY"), self))
	if err != nil {
		if os.Getenv("THROTTLE_REQUIRE") != "" {
			t.Fatal("there is no envoy: scripts/need.sh installs it, or set $ENVOY to its path")
		}
		t.Skip("NO ENVOY: the rate limit service is NOT tested with it; scripts/need.sh installs it")
	}
	return envoy
}

func front(t *testing.T) *fronted {
	t.Helper()
	return frontBy(t, "testdata/envoy.yaml", "file: rules.yaml, overlay: overlay.json")
}

// frontBy is front with another file of Envoy and other sources of rules.
func frontBy(t *testing.T, file, sources string) *fronted {
	t.Helper()
	envoy := envoyProgram(t)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 70)) }))
	t.Cleanup(service.Close)
	ports, dir := freePorts(t, 4), t.TempDir()
	f := &fronted{t: t, open: ports[0], closed: ports[1], limits: ports[2], admin: ports[3], file: filepath.Join(dir, "serve.yaml")}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	port := func(address string) string { _, p, _ := net.SplitHostPort(address); return p }
	config := strings.NewReplacer("port_value: OPEN", "port_value: "+port(f.open), "port_value: CLOSED", "port_value: "+port(f.closed),
		"port_value: LIMITS", "port_value: "+port(f.limits), "port_value: SERVICE", "port_value: "+port(service.Listener.Addr().String())).Replace(string(text))
	for name, text := range map[string]string{
		"envoy.yaml": config, "rules.yaml": envoyRules,
		"serve.yaml": fmt.Sprintf("version: 1\nrules: {%s}\nenvoy: {listen: %q, refunds: true}\nadmin: {listen: %q}\ndrain: {delay: 0s}\n", sources, f.limits, f.admin),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.CommandContext(t.Context(), envoy, "-c", filepath.Join(dir, "envoy.yaml"), "--use-dynamic-base-id", "--concurrency", "1", "-l", "error")
	c.Stderr = os.Stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Process.Kill()
		_ = c.Wait() // it was killed
	})
	return f
}

// serve starts 'throttle serve', and returns what kills it.
func (f *fronted) serve() (kill func()) {
	f.t.Helper()
	c := program(f.t, "serve", f.file)
	c.Stderr = f
	if err := c.Start(); err != nil {
		f.t.Fatal(err)
	}
	return sync.OnceFunc(func() {
		c.Process.Kill()
		_ = c.Wait() // it was killed
	})
}

// get sends a request by Envoy; zero if there is no answer yet.
func (f *fronted) get(at, path string, fields ...string) (status int, header http.Header) {
	f.t.Helper()
	q, err := http.NewRequestWithContext(f.t.Context(), http.MethodGet, "http://"+at+path, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	for i := 0; i < len(fields); i += 2 {
		q.Header.Set(fields[i], fields[i+1])
	}
	a, err := http.DefaultTransport.RoundTrip(q)
	if err != nil {
		return 0, nil
	}
	a.Body.Close()
	return a.StatusCode, a.Header
}

// statuses are those of several requests.
func (f *fronted) statuses(n int, path string, fields ...string) (all string) {
	f.t.Helper()
	for range n {
		status, _ := f.get(f.open, path, fields...)
		all += fmt.Sprint(" ", status)
	}
	return strings.TrimSpace(all)
}

// answers reports whether the service decides what Envoy asks.
func (f *fronted) answers(user string) bool {
	_, header := f.get(f.open, "/user", "x-user", user)
	return header.Get("RateLimit") != ""
}

// TestEnvoy: a real Envoy asks the program: what its callers are told, lists, shadow
// rules, costs and changes by hand; and what happens while the program is away.
func TestEnvoy(t *testing.T) {
	t.Parallel()
	f := front(t)
	kill := f.serve()
	defer func() { kill() }()
	eventually(t, "Envoy asks the service", func() bool { return f.answers("first") })
	f.tells()
	f.decides()
	f.raises()
	for range 2 {
		if got := f.statuses(1, "/bytes"); got != "200" {
			t.Errorf("an answer whose bytes fit, or are charged afterwards: %s", got)
		}
	}
	for range 4 {
		eventually(t, "what the answer before gave back is there", func() bool { return f.statuses(1, "/back") == "200" })
	}
	eventually(t, "two answers of 70 bytes use up 100", func() bool { return f.statuses(1, "/bytes") == "429" })

	kill()
	if status, header := f.get(f.open, "/user", "x-user", "jane"); status != 200 || header.Get("RateLimit") != "" {
		t.Errorf("without the service, failing open: %d %v", status, header)
	}
	if status, _ := f.get(f.closed, "/user", "x-user", "jane"); status != 500 {
		t.Errorf("without the service, failing closed: %d", status)
	}
	kill = f.serve()
	eventually(t, "Envoy asks the service again", func() bool { return f.answers("second") })
	if got := f.statuses(3, "/user", "x-user", "john"); got != "200 200 429" {
		t.Errorf("after the service has come back: %s", got)
	}
}

// tells checks what callers are told.
func (f *fronted) tells() {
	f.t.Helper()
	for i, want := range []struct {
		status int
		fields map[string]string // patterns
	}{
		{200, map[string]string{"RateLimit": `^"user";r=1;t=\d+$`, "RateLimit-Policy": `^"user";q=2;w=3600$`, "X-RateLimit-Limit": `^2, 2;w=3600;name="user"$`, "X-RateLimit-Remaining": `^1$`, "X-RateLimit-Reset": `^\d+$`, "Retry-After": `^$`}},
		{200, map[string]string{"RateLimit": `^"user";r=0;t=\d+$`, "X-RateLimit-Remaining": `^0$`, "Retry-After": `^$`}},
		{429, map[string]string{"RateLimit": `^"user";r=0;t=\d+$`, "RateLimit-Policy": `^"user";q=2;w=3600$`, "X-RateLimit-Remaining": `^0$`, "Retry-After": `^1[78]\d\d$`, "X-Envoy-RateLimited": `^true$`}},
	} {
		status, header := f.get(f.open, "/user", "x-user", "jane")
		if status != want.status {
			f.t.Errorf("request %d of a user: %d, want %d", i, status, want.status)
		}
		for name, pattern := range want.fields {
			if got := strings.Join(header.Values(name), ", "); !regexp.MustCompile(pattern).MatchString(got) {
				f.t.Errorf("request %d of a user: %s: %s, want %s", i, name, got, pattern)
			}
		}
	}
}

// decides checks which requests pass.
func (f *fronted) decides() {
	f.t.Helper()
	for _, x := range []struct {
		n      int
		path   string
		fields []string
		want   string
	}{
		{2, "/", nil, "200 200"},                                   // no descriptor, and no rule for requests
		{4, "/two", []string{"x-user", "jane"}, "429 429 429 429"}, // which charges nothing of the other limit
		{3, "/two", []string{"x-user", "ann"}, "200 200 429"},
		{2, "/two", []string{"x-user", "bob"}, "200 429"}, // as the other limit has room for three
		{1, "/user", []string{"x-user", "bob"}, "200"},
		{2, "/address", []string{"x-forwarded-for", "203.0.113.7"}, "429 429"},
		{2, "/address", []string{"x-forwarded-for", "198.51.100.7"}, "200 200"},
		{2, "/shadow", nil, "200 200"},
		{3, "/cost", nil, "200 200 429"},
	} {
		if got := f.statuses(x.n, x.path, x.fields...); got != x.want {
			f.t.Errorf("%d requests for %s %q: %s, want %s", x.n, x.path, x.fields, got, x.want)
		}
	}
	if _, header := f.get(f.open, "/address", "x-forwarded-for", "203.0.113.7"); header.Get("Retry-After") != "" {
		f.t.Errorf("who is denied is told to come again: %v", header)
	}
	if !f.said(`"msg":"would refuse","rule":"tried"`) {
		f.t.Errorf("the log says nothing of the shadow rule:\n%s", f.log.String())
	}
}

// raises raises the limit of a user by hand.
func (f *fronted) raises() {
	f.t.Helper()
	q, err := http.NewRequestWithContext(f.t.Context(), http.MethodPut, "http://"+f.admin+"/api/v1/raise",
		strings.NewReader(`{"rule": "user", "key": ["jane"], "times": 2, "for": "1h", "why": "test"}`))
	if err != nil {
		f.t.Fatal(err)
	}
	q.Header.Set("Content-Type", "application/json")
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		f.t.Fatal(err)
	}
	a.Body.Close()
	if got := f.statuses(3, "/user", "x-user", "jane"); a.StatusCode != 200 || got != "200 200 429" {
		f.t.Errorf("raised twice (%s), a user that has used all has %s, want two more", a.Status, got)
	}
}
