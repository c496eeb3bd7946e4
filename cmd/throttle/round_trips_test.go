//go:build unix

package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
)

// overheard counts the commands that reach a Redis from outside; those of its scripts it
// does not.
func overheard(t *testing.T, addr string) *atomic.Int64 {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	lines := bufio.NewScanner(c)
	lines.Buffer(nil, 1<<20)
	fmt.Fprint(c, "MONITOR\r\n")
	if !lines.Scan() || lines.Text() != "+OK" {
		t.Fatalf("MONITOR: %q", lines.Text())
	}
	var n atomic.Int64
	go func() { // ends with the connection
		for lines.Scan() {
			if !strings.Contains(lines.Text(), " lua] ") {
				n.Add(1)
			}
		}
	}()
	return &n
}

// TestRoundTrips: a request costs at most one round trip to Redis, however many limits it
// is counted in, and next to none where its keys have leases. A shadow rule would cost one
// more.
func TestRoundTrips(t *testing.T) {
	to := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer to.Close()
	const requests = 500
	for _, test := range []struct {
		lease string
		most  int64
	}{{"", requests}, {", lease: 10s", requests / 10}} {
		redis, dir, web := clitest.Vacant(t), t.TempDir(), clitest.Vacant(t)
		defer startRedis(t, redis)()
		file := filepath.Join(dir, "serve.yaml")
		for path, text := range map[string]string{
			file: fmt.Sprintf("version: 1\nstore: {url: 'redis://%s', deadline: 5s%s}\nrules: {file: rules.yaml}\ngateway: {listen: '%s', routes: {to: '%s'}}\nlog: {level: error}\n", redis, test.lease, web, to.URL),
			filepath.Join(dir, "rules.yaml"): `rules:
  - {name: each, key: address, limits: [1000000/s, 100000000/h]}
  - {name: path, key: path, limits: 1000000/s}
`,
		} {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		c := program(t, "serve", file)
		c.Stderr = t.Output()
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Process.Kill(); _ = c.Wait() }()
		var last string
		ask := func() bool {
			a, err := http.Get("http://" + web + "/")
			if err != nil {
				return false
			}
			a.Body.Close()
			last = a.Header.Get("RateLimit")
			return a.StatusCode == 200
		}
		eventually(t, "it serves", ask)
		for range 100 { // the lease is there
			ask()
		}
		n := overheard(t, redis)
		for range requests {
			if !ask() {
				t.Fatal("a request failed")
			}
		}
		if got := n.Load(); got > test.most || got == 0 && test.lease == "" || last == "" {
			t.Errorf("%d requests with %q cost %d commands, want at most %d", requests, test.lease, got, test.most)
		}
	}
}
