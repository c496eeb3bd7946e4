//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package operate

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// reusePort lets another process listen on the same port.
func reusePort(_, _ string, c syscall.RawConn) error {
	var set error
	if err := c.Control(func(fd uintptr) { set = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) }); err != nil {
		return err
	}
	return set
}
