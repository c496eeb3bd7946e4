package worker

import (
	"context"
	"errors"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/pace"
)

var (
	errTimeout = errors.New("worker: the Timeout of a try is over")
	errGoexit  = errors.New("worker: runtime.Goexit was called")
)

// refusedRest is how long no try starts after the Throttle has refused one, as
// its queue was full, say.
const refusedRest = 100 * time.Millisecond

// next lines up what is due, and returns the record that waits in the Throttle
// next; nil: none may. Its caller passes it to work. Caller holds mu.
func (w *Worker[R]) next(now time.Time) *item[R] {
	w.awake(now)
	w.dismiss()
	defer w.ring(now)
	if w.waiter != nil || w.full() || now.Before(w.pause) || w.breaker.wait(now) > 0 {
		return nil
	}
	for len(w.turns) > 0 {
		a := w.turns[0]
		w.turns[0] = nil
		w.turns = w.turns[1:]
		if a.turning = a.ready.len() > 0; !a.turning {
			continue
		}
		it := a.ready.pop(lower)
		w.turns = append(w.turns, a)
		it.probe = w.breaker.probe()
		it.wait, it.stop = context.WithCancel(a.ctx)
		w.waiter = it
		return it
	}
	return nil
}

// full reports whether no try may start before another, or Dead, has ended.
// Caller holds mu.
func (w *Worker[R]) full() bool {
	return w.count[running] >= above(w.MaxInFlight, defaultMaxInFlight) || w.burying+len(w.graves) >= maxDying
}

// awake ends the rests that are over, and calls Dead. Caller holds mu.
func (w *Worker[R]) awake(now time.Time) {
	for w.rests.len() > 0 && !w.rests.first().due.After(now) {
		it := w.rests.pop(sooner)
		if it.dead == nil {
			w.ready(it)
			continue
		}
		w.to(it, dying)
		w.graves = append(w.graves, it)
	}
	for len(w.graves) > 0 && w.burying < maxDying {
		it := w.graves[0]
		w.graves[0] = nil
		w.graves = w.graves[1:]
		w.burying++
		go w.bury(it, it.record)
	}
}

// ring sets the timer for the next thing that time alone brings. Caller holds mu.
func (w *Worker[R]) ring(now time.Time) {
	var at time.Time
	if w.rests.len() > 0 {
		at = w.rests.first().due
	}
	if w.waiter == nil && w.count[ready] > 0 && !w.full() {
		soon := w.pause
		if d := w.breaker.wait(now); d == pace.Never {
			soon = time.Time{} // the end of the probe does it
		} else if until := now.Add(d); until.After(soon) {
			soon = until
		}
		if soon.After(now) && (at.IsZero() || soon.Before(at)) {
			at = soon
		}
	}
	switch {
	case at.IsZero() || at.Equal(w.wake): // a ring too many does no harm
	case w.timer == nil:
		w.wake, w.timer = at, time.AfterFunc(at.Sub(now), w.tick)
	default:
		w.wake = at
		w.timer.Reset(at.Sub(now))
	}
}

// tick is called by the timer.
func (w *Worker[R]) tick() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wake = time.Time{}
	w.start(w.next(time.Now()))
}

// outcome is how a try ended.
type outcome struct {
	began    bool // it was not refused by the Throttle, or cancelled before
	at       time.Time
	report   pace.Report
	err      error
	timedOut bool
}

// try makes one try of it, as a call of the Throttle, and returns the record to
// go on with.
func (w *Worker[R]) try(it *item[R]) (next *item[R]) {
	o := outcome{err: errGoexit}
	ended := false
	defer func() {
		if !ended { // a panic, or Goexit: the goroutine ends
			o.report = pace.Report{}
			next := w.ended(it, &o)
			w.mu.Lock()
			w.start(next)
			w.mu.Unlock()
		}
	}()
	t := w.throttle()
	err := t.DoResult(w.options(it), func(context.Context) throttle.Result {
		// Not that context: its options are not meant for calls in Handle.
		if o.at = time.Now(); !w.begins(it, o.at) {
			return throttle.Result{}
		}
		o.began = true
		ctx, cancel := w.timeout(it.of.ctx)
		defer cancel()
		o.err = w.Handle(ctx, it.record)
		o.report, o.timedOut = judge(ctx, t, o.err)
		return throttle.Result{Report: o.report, Err: o.err}
	})
	if !o.began || err != nil { // nil also for throttle.Ignore(nil), after which nothing is done
		o.err = err
	}
	var given *throttle.Error
	if v := o.report.Verdict; (v == pace.Throttled || v == pace.Failed) && errors.As(err, &given) && given.Err != nil {
		o.err = given.Err // without the words of a Throttle that was asked for one try
	}
	ended = true
	return w.ended(it, &o)
}

// options returns the context of the wait of it in the Throttle.
func (w *Worker[R]) options(it *item[R]) context.Context {
	var o throttle.CallOptions
	if w.Options != nil {
		o = w.Options(it.record)
	} else {
		o = throttle.OptionsOf(it.wait)
	}
	o.Once, o.MaxWait = true, -1
	return throttle.WithOptions(it.wait, o)
}

// timeout returns the context of one call.
func (w *Worker[R]) timeout(ctx context.Context) (context.Context, context.CancelFunc) {
	d := or(w.Timeout, defaultTimeout)
	if d < 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, d, errTimeout)
}

// begins lets another record wait, as it starts. It reports whether it is still
// wanted.
func (w *Worker[R]) begins(it *item[R], now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if it.state == gone {
		return false
	}
	w.waiter = nil
	it.tries++
	it.of.window.started(it.number)
	w.to(it, running)
	w.start(w.next(now))
	return true
}

// judge classifies the error of a try that was made with ctx.
func judge(ctx context.Context, t *throttle.Throttle, err error) (r pace.Report, timedOut bool) {
	classify := t.Classify
	if classify == nil {
		classify = throttle.Classify
	}
	r = classify(err)
	if err == nil {
		return r, false
	}
	var e interface{ Timeout() bool }
	timedOut = errors.As(err, &e) && e.Timeout()
	if ctx.Err() != nil && r.Verdict != pace.Throttled {
		r = pace.Report{}
		if errors.Is(context.Cause(ctx), errTimeout) {
			r.Verdict, timedOut = pace.Failed, true
		}
	}
	return r, timedOut
}
