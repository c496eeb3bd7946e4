//go:build darwin || linux

package gateway

import (
	"net"

	"golang.org/x/sys/unix"
)

// mostUnsent is how many bytes of answers the kernel holds that it has not sent
// yet, of each connection: enough to keep a quick caller busy. What is sent and
// not acknowledged is not among them, so that no distance makes a caller slower.
const mostUnsent = 128 << 10

// boundUnsent bounds what the kernel holds for a caller that reads slowly, which
// would be megabytes, copied at once. Not on the socket that listens: that may be
// one of Multipath TCP, and connections do not have it from there.
func boundUnsent(c net.Conn) error {
	of, ok := c.(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := of.SyscallConn()
	if err != nil {
		return err
	}
	var set error
	if err := raw.Control(func(fd uintptr) {
		set = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, mostUnsent)
	}); err != nil {
		return err
	}
	return set
}
