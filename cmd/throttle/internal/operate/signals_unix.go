//go:build unix

package operate

import (
	"os"
	"syscall"
)

var (
	reloadSignal   os.Signal = syscall.SIGHUP
	snapshotSignal os.Signal = syscall.SIGUSR1
)

func closeOnExec(fd int) { syscall.CloseOnExec(fd) }
