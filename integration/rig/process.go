package rig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// errEnded is the end of a process that should have gone on.
var errEnded = errors.New("ended")

// A Process is one process of an engine. Its methods are safe for concurrent
// use.
type Process struct {
	// Dir is the folder of the engine: its data, and its log in "log".
	Dir string

	path  string
	args  []string
	env   []string            // beside that of the test
	user  *syscall.Credential // nil: that of the test
	ready func() error        // whether it answers
	last  syscall.Signal      // ends it for good; zero: SIGKILL
	clean func()              // removes what it left outside Dir; may be nil
	herd  bool                // its children are killed, frozen and thawed with it

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{} // closed when cmd has ended
}

// running are the processes that Main ends.
var running struct {
	sync.Mutex
	all map[*Process]bool
}

func stopAll() {
	running.Lock()
	all := running.all
	running.all = nil
	running.Unlock()
	for p := range all {
		p.end()
	}
}

// starter is a thread that starts all processes and ends with this one: the
// kernel sends Pdeathsig when the thread that started a process ends, and Go
// ends threads when it likes.
var starter = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

// start starts the process and waits until it is ready. If it ends before, the
// error is errEnded and has the end of its log.
func (p *Process) start() error {
	if err := p.launch(); err != nil {
		return err
	}
	err := until(func() error {
		select {
		case <-p.done:
			return errEnded
		default:
			return p.ready()
		}
	})
	if err != nil {
		p.Kill()
		return fmt.Errorf("%s: %w; its log ends:\n%s", p.path, err, p.tail())
	}
	return nil
}

func (p *Process) launch() error {
	log, err := os.OpenFile(filepath.Join(p.Dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(p.path, p.args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.Dir, log, log
	cmd.Env = append(append(os.Environ(), "LC_ALL=C"), p.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true, Credential: p.user}
	failed := make(chan error)
	starter() <- func() { failed <- cmd.Start() }
	if err := <-failed; err != nil {
		return err
	}
	done := make(chan struct{})
	go func() { // ends with the process
		cmd.Wait()
		close(done)
	}()
	p.mu.Lock()
	p.cmd, p.done = cmd, done
	p.mu.Unlock()
	running.Lock()
	if running.all == nil {
		running.all = map[*Process]bool{}
	}
	running.all[p] = true
	running.Unlock()
	return nil
}

// tail is the end of the log.
func (p *Process) tail() []byte {
	log, _ := os.ReadFile(filepath.Join(p.Dir, "log"))
	const most = 2000
	if len(log) > most {
		log = log[len(log)-most:]
	}
	return bytes.TrimSpace(log)
}

// signal reaches the process only.
func (p *Process) signal(s syscall.Signal) (done <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		c := make(chan struct{})
		close(c)
		return c
	}
	p.cmd.Process.Signal(s) // fails where the process has ended, which is as well
	return p.done
}

// signalAll reaches the children too, if they are part of the server. The
// process is stopped before, so that it makes no more of them.
func (p *Process) signalAll(s syscall.Signal) (done <-chan struct{}) {
	if p.herd {
		p.signal(syscall.SIGSTOP)
		for _, child := range p.children() {
			syscall.Kill(child, s)
		}
	}
	return p.signal(s)
}

// children are the ids of the processes that it has started.
func (p *Process) children() (ids []int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.done: // another process may have its id
		return nil
	default:
	}
	if p.cmd == nil {
		return nil
	}
	id := p.cmd.Process.Pid
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", id, id)) // none if it has just ended
	for _, word := range strings.Fields(string(text)) {
		if child, err := strconv.Atoi(word); err == nil {
			ids = append(ids, child)
		}
	}
	return ids
}

// Kill ends the process by SIGKILL, frozen or not, and returns when it is
// gone.
func (p *Process) Kill() { <-p.signalAll(syscall.SIGKILL) }

// Running reports whether the process is there, frozen or not.
func (p *Process) Running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.done:
		return false
	default:
		return p.cmd != nil
	}
}

// Freeze stops the process by SIGSTOP: its connections stay open and nothing
// answers, until Thaw.
func (p *Process) Freeze() { p.signalAll(syscall.SIGSTOP) }

// Thaw lets a frozen process go on.
func (p *Process) Thaw() { p.signalAll(syscall.SIGCONT) }

// Restart ends the process by SIGKILL if it runs, starts it again on the same
// address and data and waits until it answers.
func (p *Process) Restart(t testing.TB) {
	t.Helper()
	p.Kill()
	check(t, p.start())
}

// end ends the process for good.
func (p *Process) end() {
	if p.last != 0 {
		p.Thaw()
		select {
		case <-p.signal(p.last):
		case <-time.After(patience):
		}
	}
	p.Kill()
	if p.clean != nil {
		p.clean()
	}
}

// remove ends the process and removes its folder.
func (p *Process) remove() {
	p.end()
	running.Lock()
	delete(running.all, p)
	running.Unlock()
	os.RemoveAll(p.Dir)
}

// again calls start until it does not fail by the early end of a process,
// which is what a port that another took in the meantime looks like.
func again[T any](start func() (T, error)) (v T, err error) {
	for range 3 {
		if v, err = start(); !errors.Is(err, errEnded) {
			return v, err
		}
	}
	return v, err
}

// run runs a program to its end. The error has what it said.
func run(ctx context.Context, as *syscall.Credential, path string, args ...string) error {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %q: %w:\n%s", path, args, err, out)
	}
	return nil
}
