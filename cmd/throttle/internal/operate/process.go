package operate

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"time"
)

// Process serves the signals of a running program, and tells the service manager
// its state. The fields must not change after first use.
type Process struct {
	// Reload reads the configuration again, at SIGHUP. An error is logged; what was
	// in use stays. If nil, SIGHUP is ignored.
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

// Run tells the service manager that this process is ready, with status in a line,
// and serves signals until ctx ends; then it tells that the process stops. Begin it
// when all sockets are open; drain when ctx ends.
func (p *Process) Run(ctx context.Context, status string) {
	signals := make(chan os.Signal, 8)
	if reloadSignal != nil { // none would be all
		signal.Notify(signals, reloadSignal, snapshotSignal)
		defer signal.Stop(signals)
	}
	p.tell("READY=1", "STATUS="+line(status))
	feed, stop := ticks(watchdog())
	defer stop()
	snapshots, end := ticks(p.SnapshotEvery)
	defer end()
	for {
		select {
		case <-ctx.Done():
			p.tell("STOPPING=1", "STATUS=draining")
			return
		case s := <-signals:
			p.serve(ctx, s, status)
		case <-snapshots:
			p.snapshot(ctx)
		case <-feed:
			p.feed()
		}
	}
}

func (p *Process) serve(ctx context.Context, s os.Signal, status string) {
	if s == snapshotSignal {
		p.snapshot(ctx)
		return
	}
	if p.Reload == nil {
		return
	}
	p.tell("RELOADING=1", fmt.Sprintf("MONOTONIC_USEC=%d", monotonic()))
	err := p.Reload(ctx)
	switch {
	case p.Log == nil:
	case err != nil:
		p.Log.Error("not reloaded; what was in use stays", "err", err)
	default:
		p.Log.Info("reloaded")
	}
	if err != nil {
		status = "not reloaded: " + err.Error()
	}
	p.tell("READY=1", "STATUS="+line(status))
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
