//go:build unix

package main

import (
	"bytes"
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
	"syscall"
	"testing"
	"time"
)

// served is 'throttle serve' as a process whose socket, named gateway, is that of
// the service manager, which is told when it is ready.
type served struct {
	*exec.Cmd
	log *bytes.Buffer
}

func startServe(t *testing.T, file string, socket *os.File, manager *net.UnixConn) served {
	t.Helper()
	c := program(t, "serve", file)
	c.Args = append([]string{"/bin/sh", "-c", `LISTEN_PID=$$ exec "$0" "$@"`, c.Path}, c.Args[1:]...)
	c.Path = "/bin/sh"
	c.Env = append(c.Env, "LISTEN_FDS=1", "LISTEN_FDNAMES=gateway", "NOTIFY_SOCKET="+manager.LocalAddr().String())
	c.ExtraFiles = []*os.File{socket}
	log := new(bytes.Buffer)
	c.Stderr = log
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if err := manager.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	for {
		told := make([]byte, 4096)
		n, err := manager.Read(told)
		if err != nil {
			c.Process.Kill()
			t.Fatalf("it does not get ready: %v: %s", err, log)
		}
		if strings.HasPrefix(string(told[:n]), "READY=1") {
			return served{c, log}
		}
	}
}

// load sends requests, each on a connection of its own, and counts the answers.
type load struct {
	t                           *testing.T
	url                         string
	sent, lost, passed, refused atomic.Int64
}

func (x *load) run(ctx context.Context) {
	client := http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for ctx.Err() == nil {
		x.sent.Add(1)
		a, err := client.Post(x.url, "text/plain", strings.NewReader("hello"))
		if err != nil {
			x.t.Log(err)
			x.lost.Add(1)
			continue
		}
		body, err := io.ReadAll(a.Body)
		a.Body.Close()
		switch {
		case err == nil && a.StatusCode == 200 && string(body) == "hello":
			x.passed.Add(1)
		case err == nil && a.StatusCode == 429:
			x.refused.Add(1)
		default:
			x.t.Log(a.StatusCode, string(body), err)
			x.lost.Add(1)
		}
	}
}

// TestServeRestart: the program is stopped by SIGTERM and started again 10 times
// under load; its socket is the service manager's. No request is lost, and the
// memory store's snapshot keeps the limit: over all restarts as much passes as it
// says.
func TestServeRestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(time.Millisecond) // so that some are in flight whenever it ends
		_, _ = io.Copy(w, r.Body)
	}))
	defer upstream.Close()
	rules := write("rules.yaml", "rules: {name: all, limits: 300/day fixed-window}\n")
	file := write("serve.yaml", fmt.Sprintf(`version: 1
store: {url: "memory:", snapshot: %s}
rules: {file: %s}
gateway: {listen: "systemd:gateway", routes: {to: %s}}
drain: {delay: 0s, timeout: 20s}
`, filepath.Join(dir, "counts"), rules, upstream.URL))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	socket, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()

	load := &load{t: t, url: "http://" + l.Addr().String()}
	ctx, cancel := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() { load.run(ctx) })
	}
	for range 10 {
		c := startServe(t, file, socket, manager)
		for before := load.sent.Load(); load.sent.Load() < before+50; {
			time.Sleep(time.Millisecond)
		}
		if err := c.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := c.Wait(); err != nil {
			t.Errorf("it ended by %v: %s", err, c.log)
		}
	}
	last := startServe(t, file, socket, manager) // for those that wait
	cancel()
	clients.Wait()
	_ = last.Process.Signal(syscall.SIGTERM)
	if err := last.Wait(); err != nil {
		t.Errorf("it ended by %v: %s", err, last.log)
	}
	if load.lost.Load() > 0 || load.passed.Load() != 300 || load.refused.Load() < 100 {
		t.Errorf("of %d requests %d were lost, %d passed and %d were refused; want 0 lost and 300 passed", load.sent.Load(), load.lost.Load(), load.passed.Load(), load.refused.Load())
	}
}
