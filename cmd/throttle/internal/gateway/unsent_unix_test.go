//go:build darwin || linux

package gateway

import (
	"log/slog"
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// TestUnsentIsBounded: the kernel holds little of what a caller does not read, whatever the
// socket that listens is.
func TestUnsentIsBounded(t *testing.T) {
	for _, multipath := range []bool{false, true} {
		var config net.ListenConfig
		config.SetMultipathTCP(multipath)
		s, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l := (&Gateway{cfg: Config{Listen: make([]Listen, 1)}, log: slog.New(slog.DiscardHandler)}).bounded(s, nil)
		defer l.Close()
		to, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer to.Close()
		if err := boundUnsent(to); err != nil {
			t.Skipf("THIS SYSTEM DOES NOT BOUND what is unsent: %v", err)
		}
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		raw, err := c.(*conn).Conn.(*net.TCPConn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		var got int
		if err := raw.Control(func(fd uintptr) {
			got, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT)
		}); err != nil {
			t.Fatal(err)
		}
		if err != nil || got != mostUnsent {
			t.Errorf("multipath %v: %d bytes, %v, want %d", multipath, got, err, mostUnsent)
		}
	}
}
