package throttle

import (
	"context"
	"log/slog"
	"time"

	"github.com/throttle-go/throttle/pace"
)

const (
	defaultMaxWait  = time.Hour
	defaultMaxAfter = time.Hour

	longWait = time.Minute      // above which a wait is logged
	logEvery = 10 * time.Minute // at most
)

// patience returns how long a call may wait, zero if there is no bound.
func (t *Throttle) patience(o *CallOptions) time.Duration {
	d := o.MaxWait
	if d == 0 {
		d = t.MaxWait
	}
	if d == 0 {
		d = defaultMaxWait
	}
	return max(d, 0)
}

// backoffOf returns what a call that failed rests by. Without jitter calls that
// failed together would be retried together.
func backoffOf(b pace.Backoff) *pace.Backoff {
	switch {
	case b == pace.Backoff{}:
		b = pace.AWS2026Backoff
	case b.Jitter == pace.NoJitter:
		b.Jitter = pace.FullJitter
	}
	return &b
}

// believe returns r with no more of the server's wait than is believed.
func (t *Throttle) believe(r pace.Report) pace.Report {
	switch {
	case t.MaxAfter > 0:
		r.After = min(r.After, t.MaxAfter)
	case t.MaxAfter == 0:
		r.After = min(r.After, defaultMaxAfter)
	}
	return r
}

// bound settles until when w may wait. Caller holds mu.
func (w *waiter) bound() {
	if w.once || w.patience == 0 {
		return
	}
	w.until = w.since.Add(w.patience)
	if d := &w.ticket.Deadline; d.IsZero() || d.After(w.until) {
		*d = w.until
	}
}

// await waits for the start of w. It returns false if the wait ended first, by
// ctx or by the patience of w.
func (t *Throttle) await(ctx context.Context, w *waiter) (started bool) {
	begun := time.Now()
	quiet := t.OnEvent == nil // nothing is said of this wait yet
	if quiet && w.ticket.Forecast > longWait && w.ticket.Forecast != pace.Never {
		quiet = false
		t.log(w, w.ticket.Forecast)
	}
	for {
		var next time.Time // when to look up
		if next = w.until; quiet && (next.IsZero() || begun.Add(longWait).Before(next)) {
			next = begun.Add(longWait)
		}
		select {
		case <-w.ready:
			if w.fault != nil {
				w.inside = false // it has left the gate
				panic(w.fault)
			}
			return !w.tooLate && (w.until.IsZero() || w.sent.Before(w.until))
		case <-ctx.Done():
			return false
		case <-w.alarm(next):
		}
		if !quiet || !w.until.IsZero() && !time.Now().Before(w.until) {
			return false
		}
		quiet = false
		t.log(w, longWait)
	}
}

// alarm returns a channel that receives at the time at; nil if that is zero.
func (w *waiter) alarm(at time.Time) <-chan time.Time {
	switch {
	case at.IsZero():
		return nil
	case w.timer == nil:
		w.timer = time.NewTimer(time.Until(at))
	default:
		w.timer.Reset(time.Until(at))
	}
	return w.timer.C
}

// call gives t a name for logs, unless it has one.
func (t *Throttle) call(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.name == "" {
		t.name = name
	}
}

// log reports a long wait, unless one was reported lately.
func (t *Throttle) log(w *waiter, wait time.Duration) {
	t.mu.Lock()
	now := time.Now()
	if !t.logged.IsZero() && now.Sub(t.logged) < logEvery {
		t.mu.Unlock()
		return
	}
	t.logged = now
	why := because(w.blocker(), t.gate.Why(now, &w.ticket))
	name, tries, waiting := t.name, w.ticket.Tries(), t.gate.Waiting()
	t.mu.Unlock()
	slog.Warn("throttle: a call waits for a minute or more; set OnEvent to hear of all", "name", name, "wait", wait, "why", why, "tries", tries, "waiting", waiting)
}
