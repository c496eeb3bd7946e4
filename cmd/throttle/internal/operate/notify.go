// Package operate connects 'throttle serve' to its machine: systemd's sockets,
// readiness and watchdog, signals, and the state of a memory.Store over restarts.
package operate

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// notifyWithin bounds the wait for a service manager that does not read what it is told:
// signals, and the end of the program, wait for that.
const notifyWithin = 250 * time.Millisecond

// Notify sends lines such as READY=1 to the service manager, as sd_notify does.
// Without one, NOTIFY_SOCKET not being set, it does nothing.
func Notify(lines ...string) error {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return nil
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"}) // @ is of the abstract ones
	if err != nil {
		return fmt.Errorf("NOTIFY_SOCKET: %w", err)
	}
	defer c.Close()                                      // what was sent is sent
	_ = c.SetWriteDeadline(time.Now().Add(notifyWithin)) // else the Write fails
	if _, err := c.Write([]byte(strings.Join(lines, "\n"))); err != nil {
		return fmt.Errorf("NOTIFY_SOCKET: %w", err)
	}
	return nil
}

// watchdog returns how often the service manager wants to hear from this process:
// twice in its WatchdogSec. Zero if it does not.
func watchdog() time.Duration {
	n, err := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64)
	if pid := os.Getenv("WATCHDOG_PID"); err != nil || n <= 0 || pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return 0
	}
	return time.Duration(min(n, int64(time.Hour/time.Microsecond))) * time.Microsecond / 2
}
