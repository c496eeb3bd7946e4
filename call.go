package throttle

import (
	"context"
	"errors"
	"time"

	"github.com/throttle-go/throttle/pace"
)

// Call runs f as [Throttle.Do] does, for a function that returns a value. It
// returns the value of the last try, even with an error; the zero value if f was
// never called.
func Call[T any](ctx context.Context, t *Throttle, f func(context.Context) (T, error)) (T, error) {
	mustCall(ctx, f != nil)
	var v T
	err := t.Do(ctx, func(ctx context.Context) (err error) {
		v, err = f(ctx)
		return err
	})
	return v, err
}

// mustCall panics with what is missing of a call, if its context or function is nil.
func mustCall(ctx context.Context, function bool) {
	switch {
	case ctx == nil:
		panic("throttle: the context of a call is nil")
	case !function:
		panic("throttle: the function of a call is nil")
	}
}

// do is DoResult; if once is set, without a wait and without a retry, as in
// Try.
func (t *Throttle) do(ctx context.Context, f func(context.Context) Result, once bool) error {
	w := t.waiter()
	w.once = once
	opts := OptionsOf(ctx)
	w.ticket.Once, w.ticket.Key, w.ticket.Cost = opts.Once, opts.Key, opts.Cost
	w.patience = t.patience(&opts)
	defer t.release(w) // also when f panics or ends its goroutine
	if ctx.Err() != nil {
		return t.ended(ctx, w)
	}
	started, err := t.enter(ctx, w, &opts)
	if err != nil {
		return err
	}
	for {
		// A start that came together with the end of the wait is given back.
		if !started && !t.await(ctx, w) || ctx.Err() != nil {
			return t.ended(ctx, w)
		}
		t.try(ctx, w, f)
		var retry bool
		if started, retry, err = t.answered(ctx, w); !retry {
			return err
		}
	}
}

// try calls f. It is apart from do, whose frame is there while a call waits: a Result is large.
func (t *Throttle) try(ctx context.Context, w *waiter, f func(context.Context) Result) {
	w.calling = true // also when OnEvent panics: what starts, ends
	if t.OnEvent != nil {
		t.starts(w)
	}
	w.last = f(ctx)
	w.last.Err = inner(w.last.Err)
	w.last.Report.TimedOut = w.timedOut(ctx)
}

// timedOut reports whether the last try of w lasted until the deadline of ctx. It
// is decided here alone, for all that make calls, and however they say so.
func (w *waiter) timedOut(ctx context.Context) bool {
	r := w.last.Report
	if w.last.Err == nil || r.Verdict != pace.Ignored && r.Verdict != pace.Failed {
		return false
	}
	if err := ctx.Err(); err != nil {
		return err == context.DeadlineExceeded
	}
	end, ok := ctx.Deadline() // which may be about to end it
	return r.TimedOut || ok && !time.Now().Before(end)
}

// enter puts w in line. started reports that it need not wait; err is why it
// must not.
func (t *Throttle) enter(ctx context.Context, w *waiter, opts *CallOptions) (started bool, err error) {
	if !w.once {
		w.ticket.Deadline, _ = ctx.Deadline()
		w.ticket.End = w.ticket.Deadline
	}
	started, ok := t.lineUp(w, opts.Priority, opts.Needs)
	if ok {
		if !started && t.OnEvent != nil {
			t.waits(w, w.since, 1)
		}
		return started, nil
	}
	e := &Error{Reason: ErrQueueFull, Wait: w.ticket.Forecast, Scope: w.blocker(), Why: w.why}
	switch {
	case w.once:
		e.Reason = ErrWouldWait
	case w.late(w.since):
		e.Reason = context.DeadlineExceeded
	case w.ticket.TooLate:
		e.Reason, e.ended = ErrTooLate, context.DeadlineExceeded
	}
	return false, t.giveUp(w, w.since, e)
}

// starts tells OnEvent of a try. It is apart, as an Event is large.
func (t *Throttle) starts(w *waiter) {
	t.OnEvent(Event{Kind: Starts, At: w.sent, Wait: w.sent.Sub(w.since), Try: w.ticket.Tries()})
}

// waits tells OnEvent that w waits before a try. It is apart, as an Event is large.
func (t *Throttle) waits(w *waiter, at time.Time, try int) {
	t.OnEvent(Event{Kind: Waits, At: at, Wait: w.ticket.Forecast, Try: try, Scope: w.blocker(), Why: w.why})
}

// answered ends a try, whose Result is w.last. If retry is false, the call has
// ended and err is what it returns.
func (t *Throttle) answered(ctx context.Context, w *waiter) (started, retry bool, err error) {
	verdict, tries := w.last.Report.Verdict, w.ticket.Tries()
	ran := w.mayHaveRun // in earlier tries
	w.mayHaveRun = w.mayHaveRun || verdict != pace.Throttled
	started, retry, now := t.end(w)
	if retry && !started && t.OnEvent != nil {
		t.waits(w, now, tries+1)
	}
	switch {
	case retry:
		return started, true, nil
	case verdict == pace.Served || verdict == pace.Ignored:
		return false, false, mayHaveRun(ctx, w.last.Err, ran, tries)
	}
	e := &Error{Reason: ErrTries}
	if e.Wait = w.ticket.Forecast; e.Wait > 0 {
		e.Scope, e.Why = w.blocker(), w.why
	}
	switch {
	case w.ticket.TooLarge:
		e = &Error{Reason: ErrTooLarge, Scope: w.blocker(), Why: w.why}
	case w.ticket.Broke && !w.once: // which has no other try anyway
		e = &Error{Reason: ErrBudget}
	case w.late(now):
		e.Reason = context.DeadlineExceeded
	case w.ticket.TooLate:
		e.Reason, e.ended = ErrTooLate, context.DeadlineExceeded
	}
	return false, false, t.giveUp(w, now, e)
}

// end ends a try as done does, and tells so: also when a Controller panics.
func (t *Throttle) end(w *waiter) (started, retry bool, now time.Time) {
	if t.OnEvent != nil {
		sent, tries := w.sent, w.ticket.Tries() // not ours once a retry is in line
		defer func() {
			if w.calling { // NewScope has panicked: release ends the try
				return
			}
			if now.IsZero() {
				now = time.Now()
			}
			t.OnEvent(Event{Kind: Ends, At: now, Wait: now.Sub(sent), Try: tries, Report: w.last.Report, Err: w.last.Err})
		}()
	}
	return t.done(w)
}

// mayHaveRun returns the error of a call that ends without a retry. If err is the
// Error of a Throttle further down, which does not know that earlier tries ran,
// it returns one that says so. Also if it is the Cause of ctx, as that is the Error
// of another call: one in an errgroup, which cancelled this one in flight.
func mayHaveRun(ctx context.Context, err error, ran bool, tries int) error {
	if !ran && ctx.Err() == nil {
		return err
	}
	var e, cause *Error
	if !errors.As(err, &e) {
		return err
	}
	if errors.As(context.Cause(ctx), &cause) && cause == e {
		return &Error{Reason: context.Cause(ctx), Err: err, Tries: tries, MayHaveRun: true, ended: ctx.Err()}
	}
	if !ran || e.MayHaveRun {
		return err
	}
	return &Error{Reason: e.Reason, Err: err, Tries: tries, Wait: e.Wait, MayHaveRun: true}
}

// blocker returns the scope that w waits for; empty: the Throttle's own limit.
func (w *waiter) blocker() string {
	if w.ticket.Blocker == nil {
		return ""
	}
	return w.ticket.Blocker.Name
}

// late reports whether the forecast of the gate for w is after its deadline.
func (w *waiter) late(now time.Time) bool {
	d, wait := w.ticket.Deadline, w.ticket.Forecast
	return !d.IsZero() && wait != pace.Never && wait > d.Sub(now)
}

// ended gives up a call whose context has ended, or its time to wait.
func (t *Throttle) ended(ctx context.Context, w *waiter) error {
	e := &Error{ended: ctx.Err()}
	if e.ended != nil { // asked first, as ctx may end at any time
		e.Reason = context.Cause(ctx)
	}
	now := t.leave(w)
	switch {
	case w.tooLate && e.ended == nil:
		e.Reason, e.ended = ErrTooLate, context.DeadlineExceeded
	case e.ended == nil:
		e.Reason = context.DeadlineExceeded
	}
	if w.fault != nil {
		panic(w.fault)
	}
	e.Scope, e.Why = w.blocker(), w.why
	return t.giveUp(w, now, e)
}

// giveUp completes e with the tries of w and their outcome.
func (t *Throttle) giveUp(w *waiter, now time.Time, e *Error) error {
	e.Tries, e.MayHaveRun = w.ticket.Tries(), w.mayHaveRun
	if e.ended == nil && e.Reason == context.DeadlineExceeded && w.ticket.Deadline.Equal(w.until) {
		e.patience = w.patience
	}
	last := w.last.Report
	if e.Err = w.last.Err; e.Err == nil && (last.Verdict == pace.Throttled || last.Verdict == pace.Failed) {
		e.Err = &verdictError{report: last} // so that the text says why
	}
	if t.OnEvent != nil {
		t.OnEvent(Event{Kind: GivesUp, At: now, Wait: e.Wait, Try: e.Tries, Scope: e.Scope, Why: e.Why, Err: e})
	}
	return e
}

// waiter returns a new waiter, or a reused one that is as new.
func (t *Throttle) waiter() *waiter {
	if w, ok := t.waiters.Get().(*waiter); ok {
		return w
	}
	w := &waiter{ready: make(chan struct{}, 1)}
	w.ticket.Owner = w
	return w
}

// release ends a try that a panic or runtime.Goexit left open, which teaches
// nothing, and keeps w for reuse.
func (t *Throttle) release(w *waiter) {
	if w.calling && t.OnEvent != nil {
		sent, tries := w.sent, w.ticket.Tries()
		defer func() { // last, as it may panic too
			now := time.Now()
			t.OnEvent(Event{Kind: Ends, At: now, Wait: now.Sub(sent), Try: tries})
		}()
	}
	if w.calling || w.inside {
		t.leave(w)
	}
	if len(w.scopes) > 0 {
		t.mu.Lock()
		w.leaveScopes(t)
		t.mu.Unlock()
	}
	*w = waiter{ready: w.ready, timer: w.timer, ticket: pace.Ticket{Owner: w}, scopes: w.scopes, needs: w.needs}
	t.waiters.Put(w)
}
