package runner

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/exit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
)

// received are the signals of this process from catch on. They end it no more.
type received chan os.Signal

// catch catches the signals that a child gets, but those that are ignored, as SIGHUP by
// nohup: an ignored signal stays so for the child. A pipe that is not read ends nothing.
func catch() received {
	c := make(received, 16)
	for _, s := range append(passed, unread...) {
		if !signal.Ignored(s) {
			signal.Notify(c, s)
		}
	}
	return c
}

func (c received) release() { signal.Stop(c) }

// child is the program that is run.
type child struct {
	args, env      []string
	stdin          io.Reader
	stdout, stderr io.Writer
}

const (
	// oneSignal is the time in which signals of a kind count as one: timeout(1) sends its own
	// to the process and again to the group of the process.
	oneSignal = 200 * time.Millisecond
	// pipeDelay is how long output is waited for that is no file, after the end of the child.
	pipeDelay = time.Second
)

// run runs the program to its end, and returns nil or an exit.Status. Its Text is empty if the program was run.
func (c *child) run(ctx context.Context, signals received) error {
	cmd := exec.Command(c.args[0], c.args[1:]...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = c.env, c.stdin, c.stdout, c.stderr, pipeDelay
	if in, ok := c.stdin.(interface{ File() *os.File }); ok {
		cmd.Stdin = in.File() // itself, not a pipe: it may be a terminal
	}
	if ctx.Err() != nil {
		return exit.Status{Code: 1, Text: "run: interrupted before " + words.Quote(c.args[0]) + " was run"}
	}
	if err := cmd.Start(); err != nil {
		return unstarted(c.args[0], err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // ProcessState says how it ended
		close(ended)
	}()
	pass(ctx, cmd.Process, signals, ended)
	return statusOf(cmd.ProcessState)
}

// pass passes signals to a process until it has ended. An end of ctx that no signal explains
// terminates it.
func pass(ctx context.Context, p *os.Process, signals received, ended <-chan struct{}) {
	done, heard, latest := ctx.Done(), false, map[os.Signal]time.Time{}
	var explained <-chan time.Time
	for {
		select {
		case <-ended:
			return
		case s := <-signals:
			now := time.Now()
			heard = heard || s == os.Interrupt || s == syscall.SIGTERM
			if !passes(s) || now.Sub(latest[s]) < oneSignal {
				continue
			}
			latest[s] = now
			_ = p.Signal(s) // fails if it has ended
		case <-done:
			done, explained = nil, time.After(oneSignal)
		case <-explained:
			if !heard {
				terminate(p)
			}
		}
	}
}

// unstarted is the exit.Status of a program that cannot be run, as of shells and env(1).
func unstarted(name string, err error) error {
	s := exit.Status{Code: 126, Text: "run: " + words.Quote(name) + ": " + reason(err)}
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		s.Code = 127
	}
	return s
}

// reason is the last of the errors in err, which does not name the program again.
func reason(err error) string {
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		err = inner
	}
	return err.Error()
}

// statusOf is the exit.Status of a process that has ended; nil for zero.
func statusOf(state *os.ProcessState) error {
	code := state.ExitCode()
	if w, ok := state.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		code = 128 + int(w.Signal())
	}
	if code == 0 {
		return nil
	}
	return exit.Status{Code: code}
}
