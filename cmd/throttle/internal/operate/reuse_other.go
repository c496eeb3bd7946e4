//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package operate

import (
	"errors"
	"syscall"
)

// reusePort fails: this system has no SO_REUSEPORT.
func reusePort(_, _ string, _ syscall.RawConn) error {
	return errors.New("SO_REUSEPORT is not there on this system")
}
