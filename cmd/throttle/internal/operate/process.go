package operate

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"
)

// Process serves the signals of a running program, and tells the service manager
// its state. The fields must not change after first use.
type Process struct {
	// Reload reads the configuration again, at SIGHUP. An error is logged; in
	// place of what is bad, what was in use stays. If nil, SIGHUP is ignored.
	Reload func(context.Context) error
	// Snapshot keeps the state of the store, at SIGUSR1. Keep it once more when the
	// last request has ended. If nil, SIGUSR1 is ignored.
	Snapshot func(context.Context) error
	// SnapshotEvery is the time from one Snapshot to the next without a signal. If
	// zero, there are none.
	SnapshotEvery time.Duration
	// Healthy returns why this process should be restarted, in time: the watchdog
	// of the service manager is fed only while it returns nil. If nil, it is
	// healthy while it runs.
	Healthy func() error
	// Log is where reloads and failures are logged. If nil, they are not.
	Log *slog.Logger
}

// Signals are those that a Process serves.
type Signals chan os.Signal

// Catch catches the signals of a Process from now on: those that come before its
// Run wait for it. They end the program no more, also when Run has ended.
func Catch() Signals {
	s := make(Signals, 8)
	if reloadSignal != nil { // none would be all
		signal.Notify(s, reloadSignal, snapshotSignal)
	}
	return s
}

// release ignores the signals: their default is to end the program, which drains.
func (s Signals) release() {
	if reloadSignal != nil {
		signal.Ignore(reloadSignal, snapshotSignal)
	}
}

// Run tells the service manager that this process is ready, with status in a line,
// and serves signals until ctx ends; then it tells that the process stops. Begin it
// when all sockets are open; drain when ctx ends. A Reload or Snapshot in flight
// should end soon after ctx; Run waits for it.
func (p *Process) Run(ctx context.Context, signals Signals, status string) {
	defer signals.release()
	p.tell("READY=1", "STATUS="+line(status))
	feed, stop := ticks(watchdog())
	defer stop()
	var worker sync.WaitGroup // what takes long does not starve the watchdog
	defer worker.Wait()
	reloads, snapshots := make(chan os.Signal, 1), make(chan os.Signal, 1)
	worker.Go(func() { p.work(ctx, reloads, snapshots, status) })
	for {
		select {
		case <-ctx.Done():
			p.tell("STOPPING=1", "STATUS=draining")
			return
		case s := <-signals:
			to := reloads
			if s == snapshotSignal {
				to = snapshots
			}
			select {
			case to <- s:
			default: // one waits, which will see what this one would
			}
		case <-feed:
			p.feed()
		}
	}
}

// work carries out what signals ask for, one after the other, until ctx ends.
func (p *Process) work(ctx context.Context, reloads, snapshots <-chan os.Signal, status string) {
	timed, end := ticks(p.SnapshotEvery)
	defer end()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-reloads:
			p.reload(ctx, status)
		case <-snapshots:
			p.snapshot(ctx)
		case <-timed:
			p.snapshot(ctx)
		}
	}
}

func (p *Process) reload(ctx context.Context, status string) {
	if p.Reload == nil {
		return
	}
	p.tell("RELOADING=1", fmt.Sprintf("MONOTONIC_USEC=%d", monotonic()))
	err := p.Reload(ctx)
	switch {
	case p.Log == nil:
	case err != nil:
		p.Log.Error("not all reloaded; in place of what is bad, what was in use stays", "err", err)
	default:
		p.Log.Info("reloaded")
	}
	if err != nil {
		status = "not all reloaded: " + err.Error()
	}
	if ctx.Err() == nil { // else it has said that it stops
		p.tell("READY=1", "STATUS="+line(status))
	}
}

func (p *Process) snapshot(ctx context.Context) {
	if p.Snapshot == nil {
		return
	}
	if err := p.Snapshot(ctx); err != nil && p.Log != nil {
		p.Log.Error("the state of the store was not kept", "err", err)
	}
}

// feed feeds the watchdog.
func (p *Process) feed() {
	if p.Healthy != nil {
		if err := p.Healthy(); err != nil {
			if p.Log != nil {
				p.Log.Error("unhealthy: the watchdog is not fed", "err", err)
			}
			return
		}
	}
	p.tell("WATCHDOG=1")
}

func (p *Process) tell(lines ...string) {
	if err := Notify(lines...); err != nil && p.Log != nil {
		p.Log.Warn("the service manager was not told", "what", lines[0], "err", err)
	}
}

// ticks returns a channel that has the time every d; nil, which never has, if d is
// not above zero.
func ticks(d time.Duration) (<-chan time.Time, func()) {
	if d <= 0 {
		return nil, func() {}
	}
	t := time.NewTicker(d)
	return t.C, t.Stop
}

// line returns text as one line: a line break would end the field.
func line(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, text)
}
