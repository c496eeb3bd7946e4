//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
)

// startRedis starts a redis-server that keeps nothing, and returns how to kill it.
func startRedis(t *testing.T, addr string) (kill func()) {
	t.Helper()
	c := redisServer(t, addr, t.TempDir(), "--appendonly", "no")
	return func() {
		c.Process.Kill()
		_ = c.Wait() // it was killed
	}
}

// redisServer starts a redis-server that works in a directory.
func redisServer(t *testing.T, addr, dir string, args ...string) *exec.Cmd {
	t.Helper()
	_, port, _ := net.SplitHostPort(addr)
	path, err := exec.LookPath("redis-server")
	if err != nil {
		if os.Getenv("THROTTLE_REQUIRE") != "" {
			t.Fatal("there is no redis-server: scripts/need.sh installs it")
		}
		t.Skip("NO REDIS: two instances on one store are NOT tested; scripts/need.sh installs redis-server")
	}
	c := exec.CommandContext(t.Context(), path, append([]string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", dir}, args...)...)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "redis answers", func() bool {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	return c
}

// eventually waits until something is so.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	eventuallyIn(t, 20*time.Second, what, is)
}

// eventuallyIn is eventually with a limit of its own.
func eventuallyIn(t *testing.T, most time.Duration, what string, is func() bool) {
	t.Helper()
	for until := time.Now().Add(most); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("it does not come about that %s", what)
		}
	}
}

// gatewayProcess is an instance of the example in deploy/two-instances.
type gatewayProcess struct {
	t          *testing.T
	web, admin string
	log        *bytes.Buffer
	pid        int // where the test needs it
	end        func() error
}

const exampleToken = "0123456789abcdef-example"

// patientExample is the example with time for its store, as on a busy machine one
// that is late would count as away.
func patientExample(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../../deploy/two-instances")); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "serve.yaml")
	text, err := os.ReadFile(path)
	if err != nil || !bytes.Contains(text, []byte("deadline: 50ms")) {
		t.Fatalf("%v: %s", err, text)
	}
	if err := os.WriteFile(path, bytes.Replace(text, []byte("deadline: 50ms"), []byte("deadline: 5s"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func startInstance(t *testing.T, file, redis, upstream string) *gatewayProcess {
	t.Helper()
	g := &gatewayProcess{t: t, web: clitest.Vacant(t), admin: clitest.Vacant(t), log: new(bytes.Buffer)}
	c := program(t, "serve", file)
	c.Env = append(c.Env, "REDIS="+redis, "UPSTREAM="+upstream, "LISTEN="+g.web, "ADMIN="+g.admin, "TOKEN="+exampleToken)
	c.Stderr = g.log
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	g.end = func() error {
		if err := c.Process.Signal(os.Interrupt); err != nil {
			return err
		}
		return c.Wait()
	}
	eventually(t, "the instance is ready", func() bool {
		a, err := http.Get("http://" + g.admin + "/readyz")
		if err != nil {
			return false
		}
		a.Body.Close()
		return a.StatusCode == 200
	})
	return g
}

// passes sends n requests of a client and returns how many passed.
func (g *gatewayProcess) passes(n int, client string) (passed int) {
	g.t.Helper()
	for range n {
		q, _ := http.NewRequest("GET", "http://"+g.web+"/", nil)
		q.Header.Set("X-Client", client)
		a, err := http.DefaultClient.Do(q)
		if err != nil {
			g.t.Fatal(err)
		}
		a.Body.Close()
		switch a.StatusCode {
		case 200:
			passed++
		case 429:
		default:
			g.t.Errorf("the status is %d", a.StatusCode)
		}
	}
	return passed
}

// api calls the API of operators.
func (g *gatewayProcess) api(method, path, body string) string {
	g.t.Helper()
	q, _ := http.NewRequest(method, "http://"+g.admin+path, strings.NewReader(body))
	q.Header.Set("Authorization", "Bearer "+exampleToken)
	q.Header.Set("Content-Type", "application/json")
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		g.t.Fatal(err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil || a.StatusCode != 200 {
		g.t.Fatalf("%s %s: %d %s %v", method, path, a.StatusCode, text, err)
	}
	return string(text)
}

// store is what an instance says of the store.
func (g *gatewayProcess) store() (s struct {
	State   string
	Without int64 `json:"decided_without_store"`
},
) {
	g.t.Helper()
	status := struct{ Store any }{&s}
	if err := json.Unmarshal([]byte(g.api("GET", "/api/v1/status", "")), &status); err != nil {
		g.t.Fatal(err)
	}
	return s
}

// refusals is what an instance says of the refusals of a rule.
func (g *gatewayProcess) refusals() string {
	g.t.Helper()
	var top struct{ Instances, Total int }
	if err := json.Unmarshal([]byte(g.api("GET", "/api/v1/top?by=refused&rule=per-client", "")), &top); err != nil {
		g.t.Fatal(err)
	}
	return fmt.Sprintf("%d instances, %d, at least 50: %t", top.Instances, top.Total, top.Total >= 50)
}

// TestTwoInstances runs the example of deploy: two processes on one Redis. A limit
// holds over both; what operators change in one counts in the other; while Redis is
// away each grants its part, is ready, and says so.
func TestTwoInstances(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer upstream.Close()
	redis := clitest.Vacant(t)
	kill := startRedis(t, redis)
	example := patientExample(t)
	a, b := startInstance(t, example, redis, upstream.Listener.Addr().String()), startInstance(t, example, redis, upstream.Listener.Addr().String())
	passed := 0
	for range 15 {
		passed += a.passes(1, "acme") + b.passes(1, "acme")
	}
	if passed != 20 {
		t.Errorf("%d of 30 requests to two instances passed, want 20", passed)
	}
	a.api("PUT", "/api/v1/raise", `{"rule": "per-client", "key": ["acme"], "times": 2, "for": "1h", "why": "test"}`)
	eventually(t, "the raise counts in the other instance", func() bool {
		return strings.Contains(b.api("GET", "/api/v1/key?rule=per-client&key=acme", ""), `"max":40`)
	})
	if n := b.passes(50, "acme"); n != 20 {
		t.Errorf("after a raise to 40, 20 used, %d passed", n)
	}
	a.api("POST", "/api/v1/forgive", `{"rule": "per-client", "key": ["acme"], "why": "test"}`)
	if n := b.passes(50, "acme"); n != 40 {
		t.Errorf("after it was forgiven, %d passed", n)
	}
	b.api("PUT", "/api/v1/kill", `{"for": "10m", "why": "test"}`)
	eventually(t, "the kill switch counts in the other instance", func() bool { return a.passes(1, "acme") == 1 })
	a.api("DELETE", "/api/v1/kill", `{"why": "test"}`)
	eventually(t, "the end of the kill switch counts in the other instance", func() bool { return b.passes(1, "acme") == 0 })
	eventually(t, "each has the refusals of both", func() bool {
		x, y := a.refusals(), b.refusals()
		return x == y && strings.HasPrefix(x, "2 instances") && strings.HasSuffix(x, " at least 50: true")
	})

	kill()
	if n := a.passes(30, "away"); n != 10 {
		t.Errorf("without the store one of two instances let %d of 20 pass, want its half", n)
	}
	if s := a.store(); s.State != "away" || s.Without == 0 {
		t.Errorf("the store is away, and the API says %+v", s)
	}
	if r, err := http.Get("http://" + a.admin + "/readyz"); err != nil || r.StatusCode != 200 {
		t.Errorf("without the store it is not ready: %v %v", r, err)
	}
	defer startRedis(t, redis)()
	eventually(t, "the store is back", func() bool { a.passes(1, fmt.Sprint(time.Now())); return a.store().State == "closed" })
	for _, g := range []*gatewayProcess{a, b} {
		if err := g.end(); err != nil {
			t.Errorf("it ended by %v: %s", err, g.log)
		}
	}
}
