package main

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
)

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
	c := program(t, "gateway", "-to", to.URL, "-listen", addr, "-limit", "1000000/s")
	limited := exec.CommandContext(t.Context(), "sh", append([]string{"-c", `ulimit -n 64; exec "$@"`, "sh"}, c.Args...)...)
	limited.Env = c.Env
	var said strings.Builder
	limited.Stderr = &said
	if err := limited.Start(); err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); !answers(addr) && time.Since(began) < 20*time.Second; {
		time.Sleep(10 * time.Millisecond)
	}
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
	_ = limited.Process.Kill()
	_ = limited.Wait()
	if !strings.Contains(said.String(), "fewer connections are held") {
		t.Errorf("the log does not say so: %s", said.String())
	}
}
