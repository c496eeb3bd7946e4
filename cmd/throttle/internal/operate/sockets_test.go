//go:build unix

package operate

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

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
		{"systemd:web", web},
		{"127.0.0.1:" + port(web), web},
		{"localhost:" + port(web), web},
		{"[::ffff:127.0.0.1]:" + port(web), web},
		{":" + port(any), any},
		{"[::]:" + port(any), any},
		{"unix:" + filepath.Join(dir, "a.sock"), unix},
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

// TestListenBesideDatagrams: a socket that another process reads datagrams from, as
// /dev/log, takes no connection, and stays.
func TestListenBesideDatagrams(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	other, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	l, err := new(Sockets).Listen(t.Context(), "unix:"+path)
	if err == nil {
		l.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "may be in use") {
		t.Errorf("Listen = %v, want that the socket may be in use", err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Error("it was removed:", err)
	}
}
