//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package stores

import (
	"errors"
	"os"
	"syscall"
)

// tryLock locks f until it is closed, or reports that another process has done so.
func tryLock(f *os.File) (busy bool, err error) {
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR) {
		return true, nil
	}
	return false, err
}
