//go:build unix

package runner

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

var (
	// passed are the signals that the child gets.
	passed = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2}
	// unread is the signal of a write to a pipe that is not read. It is caught, not ignored: an
	// ignored one would be ignored by the child.
	unread = []os.Signal{syscall.SIGPIPE}
)

// passes reports whether a signal is passed to the child. A terminal sends those of its keys
// (Ctrl-C) to the child too, as to all of its foreground.
func passes(s os.Signal) bool {
	switch s {
	case syscall.SIGPIPE:
		return false
	case syscall.SIGINT, syscall.SIGQUIT:
		return !foreground()
	}
	return true
}

// foreground reports whether this process, and its child, are in the foreground of a terminal.
func foreground() bool {
	tty, err := os.OpenFile("/dev/tty", os.O_RDONLY|syscall.O_NOCTTY, 0)
	if err != nil {
		return false
	}
	defer tty.Close() // only read from
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

func terminate(p *os.Process) { _ = p.Signal(syscall.SIGTERM) } // fails if it has ended
