//go:build unix

package operate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const childEnv = "THROTTLE_OPERATE_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		if err := child(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// child is a program that serves on the socket named web until SIGTERM, and ends
// what is in flight.
func child() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	sockets, err := Inherit()
	if err != nil {
		return err
	}
	if os.Getenv("LISTEN_FDS")+os.Getenv("LISTEN_PID") != "" {
		return errors.New("the environment still names sockets")
	}
	l, err := sockets.Listen(ctx, "systemd:web")
	if err != nil {
		return err
	}
	server := &Server{Server: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(2 * time.Millisecond) // so that some are in flight whenever it ends
		_, _ = io.Copy(w, r.Body)
	})}}
	server.Begin()
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	new(Process).Run(ctx, "serving")
	return errors.Join(server.Drain(context.Background()), <-served)
}

// spawn starts a child that inherits f, as systemd does it.
func spawn(t *testing.T, f *os.File) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sh", "-c", `LISTEN_PID=$$ exec "$0"`, self)
	cmd.Env = append(os.Environ(), childEnv+"=1", "LISTEN_FDS=1", "LISTEN_FDNAMES=web")
	cmd.ExtraFiles = []*os.File{f}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// TestRestart: a program that is stopped and started again 20 times, its socket
// being the service manager's, answers every request.
func TestRestart(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m := newManager(t, filepath.Join(t.TempDir(), "notify"))

	var sent, lost atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	client := http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for range 4 {
		clients.Go(func() {
			for ctx.Err() == nil {
				sent.Add(1)
				a, err := client.Post("http://"+l.Addr().String(), "text/plain", strings.NewReader("hello"))
				if err != nil {
					lost.Add(1)
					t.Log(err)
					continue
				}
				if body, err := io.ReadAll(a.Body); err != nil || string(body) != "hello" {
					lost.Add(1)
					t.Log(string(body), err)
				}
				a.Body.Close()
			}
		})
	}
	for range 20 {
		cmd := spawn(t, f)
		if got := m.told(); !strings.HasPrefix(got, "READY=1") {
			t.Errorf("the child says %q", got)
		}
		before := sent.Load()
		for sent.Load() < before+10 {
			time.Sleep(time.Millisecond)
		}
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if got := m.told(); !strings.HasPrefix(got, "STOPPING=1") {
			t.Errorf("the child says %q", got)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("the child: %v", err)
		}
	}
	last := spawn(t, f) // for those that wait
	cancel()
	clients.Wait()
	_ = last.Process.Signal(syscall.SIGTERM)
	_ = last.Wait() // it may have ended before its signals were set up
	if lost.Load() > 0 || sent.Load() < 200 {
		t.Errorf("%d of %d requests were lost", lost.Load(), sent.Load())
	}
	t.Logf("%d requests over 20 restarts", sent.Load())
}

// TestInheritNothing: what is meant for another process, or is no number, is not
// taken.
func TestInheritNothing(t *testing.T) {
	for _, c := range []struct{ fds, pid, want string }{
		{"", "", ""}, {"3", "1", ""}, {"3", "", ""}, {"x", "own", "must be a number"}, {"-1", "own", "must be a number"}, {"65", "own", "must be a number up to 64"},
	} {
		if c.pid == "own" {
			c.pid = fmt.Sprint(os.Getpid())
		}
		t.Setenv("LISTEN_FDS", c.fds)
		t.Setenv("LISTEN_PID", c.pid)
		s, err := Inherit()
		if got := fmt.Sprint(err); c.want == "" && err != nil || !strings.Contains(got, c.want) || len(s.Left()) > 0 {
			t.Errorf("LISTEN_FDS=%s LISTEN_PID=%s: %v, %v", c.fds, c.pid, err, s.Left())
		}
		if os.Getenv("LISTEN_FDS") != "" {
			t.Error("LISTEN_FDS is still set")
		}
	}
}

// TestListen: an inherited socket is found by its name or address, given once,
// and all else is opened.
func TestListen(t *testing.T) {
	open := func(network, address string) net.Listener {
		l, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l
	}
	dir := t.TempDir()
	web, any, unix := open("tcp", "127.0.0.1:0"), open("tcp", ":0"), open("unix", filepath.Join(dir, "a.sock"))
	port := func(l net.Listener) string { _, p, _ := net.SplitHostPort(l.Addr().String()); return p }
	for _, c := range []struct {
		address string
		want    net.Listener
	}{
		{"systemd:web", web}, {"127.0.0.1:" + port(web), web}, {"localhost:" + port(web), web}, {"[::ffff:127.0.0.1]:" + port(web), web},
		{":" + port(any), any}, {"[::]:" + port(any), any}, {"unix:" + filepath.Join(dir, "a.sock"), unix},
	} {
		s := &Sockets{all: []inherited{{"web", web}, {"any", any}, {"", unix}}}
		if got, err := s.Listen(t.Context(), c.address); err != nil || got != c.want {
			t.Errorf("Listen(%s) = %v, %v; want %v", c.address, got, err, c.want)
		}
		if n := len(s.Left()); n != 2 {
			t.Errorf("%d sockets are left of 3", n)
		}
		if got := s.take(c.address); got != nil {
			t.Errorf("%s is given twice", c.address)
		}
	}
	s := new(Sockets)
	if _, err := s.Listen(t.Context(), "systemd:other"); err == nil || !strings.Contains(err.Error(), `no socket named "other" was inherited`) {
		t.Errorf("a name that is none: %v", err)
	}
	if _, err := s.Listen(t.Context(), "unix:"+filepath.Join(dir, "a.sock")); err == nil || !strings.Contains(err.Error(), "another process listens there") {
		t.Errorf("a unix socket in use: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Listen(t.Context(), "unix:"+filepath.Join(dir, "file")); err == nil || !strings.Contains(err.Error(), "something else") {
		t.Errorf("a file: %v", err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "x.sock"))
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	l, err = s.Listen(t.Context(), "unix:"+filepath.Join(dir, "x.sock"))
	if err != nil {
		t.Fatalf("a socket that nobody listens on: %v", err)
	}
	defer l.Close()
	if info, err := os.Stat(filepath.Join(dir, "x.sock")); err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("the mode of a unix socket is %v, %v", info.Mode(), err)
	}
}
