//go:build unix

package operate

import (
	"os"
	"os/signal"
	"syscall"
)

var (
	reloadSignal   os.Signal = syscall.SIGHUP
	snapshotSignal os.Signal = syscall.SIGUSR1
)

func closeOnExec(fd int) { syscall.CloseOnExec(fd) }

// OutliveReaders keeps the program alive when nobody reads its log or its output any more, as
// behind 2>&1 | head: a write fails then, and does not end the program by SIGPIPE.
func OutliveReaders() { signal.Ignore(syscall.SIGPIPE) }
