package loadgen

import (
	"context"
	"errors"
	"os/exec"
	"syscall"
	"time"
)

// TempFail is the exit code of a command that was refused for now: EX_TEMPFAIL of
// sysexits.h.
const TempFail = 75

// Command runs a program for each request: with exit code 0 it is good, with
// TempFail refused, else failed. Its first element is the program. It reads
// nothing, and what it writes is discarded.
type Command []string

// Send runs the program, and kills it at the end of ctx; on Unix with all its
// children that have not left its process group.
func (c Command) Send(ctx context.Context) (Verdict, error) {
	if len(c) == 0 {
		return Failed, errors.New("no command")
	}
	run := exec.CommandContext(ctx, c[0], c[1:]...)
	together(run)
	run.WaitDelay = time.Second // for children of its own that keep the pipes
	err := run.Run()
	var code *exec.ExitError
	switch {
	case err == nil:
		return Good, nil
	case errors.As(err, &code) && code.ExitCode() == TempFail:
		return Refused, err
	case run.Process == nil && unstarted(err):
		return Dropped, err
	}
	return Failed, err
}

// unstarted reports whether this machine has no process, memory or descriptor left
// to start a program.
func unstarted(err error) bool {
	return exhausted(err) || errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.ENOMEM)
}
