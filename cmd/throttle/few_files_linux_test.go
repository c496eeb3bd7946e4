package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
)

// withFiles runs the program where it may open n files, until it answers at addr. It returns
// what it logs, to be read once it has ended.
func withFiles(t *testing.T, n int, addr string, args ...string) (said *strings.Builder, end func()) {
	t.Helper()
	c := program(t, args...)
	limited := exec.CommandContext(t.Context(), "sh", append([]string{"-c", fmt.Sprintf(`ulimit -n %d; exec "$@"`, n), "sh"}, c.Args...)...)
	limited.Env, said = c.Env, new(strings.Builder)
	limited.Stderr = said
	if err := limited.Start(); err != nil {
		t.Fatal(err)
	}
	end = sync.OnceFunc(func() { _ = limited.Process.Kill(); _ = limited.Wait() })
	t.Cleanup(end)
	for began := time.Now(); !answers(addr) && time.Since(began) < 20*time.Second; {
		time.Sleep(10 * time.Millisecond)
	}
	return said, end
}

// TestFewFiles: where a process may open few files, connections that idle leave it enough
// to reach the upstream.
func TestFewFiles(t *testing.T) {
	const requests = 10 // at a time
	var came atomic.Int64
	together := make(chan struct{})
	to := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			return
		}
		if came.Add(1) == requests {
			close(together)
		}
		select {
		case <-together:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(to.Close)
	addr := clitest.Vacant(t)
	said, end := withFiles(t, 64, addr, "gateway", "-to", to.URL, "-listen", addr, "-limit", "1000000/s")
	var all []net.Conn
	for range 100 {
		one, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer one.Close()
		all = append(all, one)
	}
	for _, one := range all[:requests] {
		_ = one.SetDeadline(time.Now().Add(10 * time.Second))
		if _, err := io.WriteString(one, "GET /together HTTP/1.1\r\nHost: h\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	for i, one := range all[:requests] {
		a, err := http.ReadResponse(bufio.NewReader(one), nil)
		if err != nil || a.StatusCode != http.StatusOK {
			t.Errorf("connection %d: %+v, %v", i, a, err)
			break
		}
	}
	end()
	if !strings.Contains(said.String(), "fewer connections are held") {
		t.Errorf("the log does not say so: %s", said.String())
	}
}

// TestUpstreamHangs: an upstream that accepts requests and never answers does not take the
// connections and files of other routes, however few there are: its callers get a 503.
func TestUpstreamHangs(t *testing.T) {
	ends := make(chan struct{})
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-ends:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(hangs.Close)
	t.Cleanup(func() { close(ends) })
	quick := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(quick.Close)
	for _, files := range []int{48, 256} {
		t.Run(fmt.Sprint(files), func(t *testing.T) {
			addr, file := clitest.Vacant(t), filepath.Join(t.TempDir(), "serve.yaml")
			text := fmt.Sprintf("version: 1\ngateway: {listen: '%s', routes: [{match: '/hangs', to: '%s'}, {to: '%s'}]}\n", addr, hangs.URL, quick.URL)
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, end := withFiles(t, files, addr, "serve", file)
			defer end()
			ctx, cancel := context.WithCancel(t.Context())
			var refused atomic.Int64
			var callers sync.WaitGroup
			for range 100 { // which come again, as long as they are answered
				callers.Go(func() {
					for {
						status := statusOf(ctx, addr, "/hangs")
						if status == 0 {
							return
						}
						refused.Add(1)
						time.Sleep(10 * time.Millisecond)
					}
				})
			}
			eventually(t, "some of them are refused", func() bool { return refused.Load() > 200 })
			for range 20 {
				soon, stop := context.WithTimeout(ctx, 10*time.Second)
				if status := statusOf(soon, addr, "/"); status != http.StatusOK {
					t.Fatalf("the other route: %d, want 200", status)
				}
				stop()
			}
			cancel()
			callers.Wait()
		})
	}
}

// statusOf asks for a path on a connection of its own; zero if there is no answer.
func statusOf(ctx context.Context, addr, path string) int {
	r, err := http.NewRequestWithContext(ctx, "GET", "http://"+addr+path, nil)
	if err != nil {
		return 0
	}
	r.Close = true
	a, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return 0
	}
	a.Body.Close()
	return a.StatusCode
}
