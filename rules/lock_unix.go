//go:build unix

package rules

import (
	"os"
	"syscall"
)

// lock locks a file for this process; not ok if another has it.
func lock(f *os.File) (ok bool, err error) {
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == syscall.EWOULDBLOCK || err == syscall.EINTR {
		return false, nil
	}
	return err == nil, err
}
