package throttle

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/throttle-go/throttle/load"
	"github.com/throttle-go/throttle/pace"
)

// Throttle is a client-side rate limiter with retries, for all calls that share
// one limit of a service. It paces the calls, first come, first served; it
// retries those that were throttled or failed; and it learns the limit from the
// answers.
//
// The zero value is ready; docs/client.md lists the defaults. A Throttle is safe
// for concurrent use, by thousands of goroutines; it must not be copied, nor its
// fields changed, after first use. It needs no closing, and starts no goroutine
// but those of a Fleet.
//
// Timers fire late, by a millisecond or so. Calls that should have started in
// the last 20 ms then start together, so that high rates are kept on average.
type Throttle struct {
	// Control decides when the next request may start. It belongs to this
	// Throttle alone and is called under its lock. If it panics, so does a call,
	// in its own goroutine. If nil, a new [pace.Adaptive].
	Control pace.Controller
	// MaxInFlight bounds the calls in flight (concurrency limit, semaphore);
	// [Throttle.SetMaxInFlight] changes it later. For a semaphore alone set
	// Control to new(pace.Fixed), as a [pace.Adaptive] holds back calls before
	// the first answers. If zero or below, there is no fixed bound, only one that is
	// learnt from refusals for too many at once, see [pace.Report.Crowded].
	MaxInFlight int
	// Concurrency learns from latency, time-outs and refusals how many calls may
	// be in flight, besides MaxInFlight: new(load.Adaptive), for a database or
	// service that only gets slower when it has too much to do. It belongs to
	// this Throttle alone and is called under its lock. If nil, nothing does.
	Concurrency load.Law
	// NewScope makes the Control of a scope, a limit that only some calls are
	// subject to, when it is first named: see [CallOptions.Needs]. It is called
	// under the lock and must not use the Throttle. If nil, or if it returns
	// nil, a new [pace.Adaptive].
	NewScope func(scope string) pace.Controller
	// MaxScopes bounds the scopes remembered. If zero or below, 1000. Beyond
	// it, scopes that no call needs are forgotten, longest unused first; they
	// are new when they are named again.
	MaxScopes int
	// Fleet is a limit shared with other processes. If its Store is nil, there
	// is none. Otherwise a goroutine runs while the Store is asked.
	Fleet Fleet
	// Tries bounds the tries of a call that is throttled each time. If zero,
	// the call is retried until MaxWait is over or its context ends; below zero,
	// it is not retried.
	Tries int
	// Retries bounds the retries of a call that [Failed], not counting
	// throttled tries. If zero, 3; below zero, there are none.
	Retries int
	// Backoff is the shortest rest before each retry of a call that [Failed], or
	// was refused in a way that may be a failure ([pace.Report.Unsure]); the
	// field Tries of it is not used. If zero, [pace.AWS2026Backoff]: 50 ms, 100
	// ms, 200 ms and so on up to 20 s, each times a random number between 0 and
	// 1. If some of its fields are set, the others are as in a [pace.Backoff],
	// but for the Jitter: there is always one, FullJitter if it is zero.
	Backoff pace.Backoff
	// CountResting counts calls that rest before a retry as in flight by
	// MaxInFlight, so that a call keeps its slot from try to try, as a job that
	// holds locks or memory should. If false, other calls use the slot
	// meanwhile.
	CountResting bool
	// MaxWait bounds the time that a call spends in line and between tries, from
	// when Do is called, unless [CallOptions.MaxWait] does. If zero, an hour;
	// below zero, only the context does.
	MaxWait time.Duration
	// MaxAfter caps the Retry-After of a server: a longer one counts as this. If
	// zero, an hour; below zero, there is no bound.
	MaxAfter time.Duration
	// Budget is the retry budget: it bounds the retries of failed calls to a
	// share of all calls, so that retries do not multiply the load on a service
	// in trouble: beyond it calls are given up with [ErrBudget]. If zero, there may
	// be one retry for every ten calls, and ten more at first. If its Max is below
	// zero, there is no bound.
	Budget pace.Budget
	// MaxWaiting bounds the calls in line and between tries; further calls are
	// refused with [ErrQueueFull], which is backpressure on their callers. It
	// refuses no retry, and no Try, which does not wait. If zero, 100,000. Below
	// zero, 1: a call is refused while another waits.
	MaxWaiting int
	// Weights divide the limit between waiting calls, by their
	// [CallOptions.Priority] (weighted fair queueing): while all wait, the
	// costs of the calls that start are in the ratio of the weights. A priority
	// without a weight counts as Normal; Normal has weight 1 unless it is
	// given. A weight of zero or below is 1; weights are kept within 10^-6 and
	// 10^6. If empty, all calls wait in one line. For tenants, see also
	// [CallOptions.Key].
	Weights map[load.Priority]float64
	// Classify reports how a try ended, by the error, which may be nil, of the
	// function given to Do or Try. If nil, the function [Classify]. DoResult
	// does not call it, so neither do transports and interceptors.
	Classify func(error) pace.Report
	// OnEvent is called with each [Event] of a call. It runs in the goroutine
	// of the call, outside the lock, so it may be called concurrently, and
	// delays only its own call. If nil, events are dropped, but for one line to
	// [slog.Default], at most every ten minutes, about a call that waits for
	// longer than a minute. See [Log] and [Counter].
	OnEvent func(Event)

	mu       sync.Mutex // guards all below but the pool
	gate     pace.Gate
	began    bool
	adaptive *pace.Adaptive       // its Control, if it is one
	lanes    [load.Priorities]int // of the gate, by priority
	scopes   names[pace.Scope]
	fleet    fleet
	timer    *time.Timer // fires when the gate wants to be asked again
	wake     time.Time   // when it is set to fire; zero: it is not
	logged   time.Time   // when a long wait last was
	name     string      // the first in a Group; empty: none
	said     pace.Report // the last that refused or told something
	saidAt   time.Time

	waiters sync.Pool // of *waiter; here as channels must not leave a bubble
}

// waiter is one call of a Throttle.
type waiter struct {
	ticket  pace.Ticket
	ready   chan struct{} // receives one for each start of a try; holds one
	sent    time.Time     // start of the try; written under the lock before ready
	since   time.Time     // when it began to wait
	why     pace.Why      // it waits, or would have waited; written under the lock
	fault   *fault        // to panic with; written under the lock before ready
	tooLate bool          // it would not be answered in time; written under the lock before ready

	// Under the lock:
	scopes []*named[pace.Scope] // that it named or an answer named
	needs  []pace.Need          // those that it named

	// Of the calling goroutine alone:
	once       bool          // by Try
	patience   time.Duration // how long it may wait; zero: no bound
	until      time.Time     // when that is over
	timer      *time.Timer   // for one wait, and then for the next
	inside     bool          // the gate knows it
	calling    bool          // the function runs
	last       Result        // of the last try
	mayHaveRun bool
}

// Do waits until the limit admits the call, runs f, and retries it while it is
// throttled or fails transiently. It returns when f succeeds, fails
// permanently, exhausts its retries or its time to wait, or ctx is done.
//
// The error returned by f classifies the try, see [Classify]. Nil and errors
// that ask for no retry are returned unchanged, those made by [Permanent] and
// [Ignore] as the error inside. When Do gives up, it returns an [*Error]. No
// wait outlives ctx or MaxWait; one that is forecast to do so is refused at
// once, by an Error that holds the forecast. f is not called with a ctx that is done.
// A call with too little time left for an answer before the deadline of ctx is passed
// over as soon as another call with more time waits, and refused at once if its wait
// would leave it too little, see [ErrTooLate].
//
// f must not call Do on the same Throttle: it might wait for itself.
func (t *Throttle) Do(ctx context.Context, f func(context.Context) error) error {
	mustCall(ctx, f != nil)
	return t.do(ctx, func(ctx context.Context) Result { return t.classified(f(ctx)) }, false)
}

// Try runs f once if it may start at once. Otherwise it returns an [*Error]
// with the Reason [ErrWouldWait] and the forecast in Wait. A call that was
// throttled or failed returns an Error with the Reason [ErrTries].
func (t *Throttle) Try(ctx context.Context, f func(context.Context) error) error {
	mustCall(ctx, f != nil)
	return t.do(ctx, func(ctx context.Context) Result { return t.classified(f(ctx)) }, true)
}

// Waiting returns the number of calls that wait for their turn or for a retry.
func (t *Throttle) Waiting() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.gate.Waiting()
}

// InFlight returns the number of calls in flight.
func (t *Throttle) InFlight() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.gate.InFlight()
}

// Limit returns how many calls may be in flight now, by MaxInFlight, Concurrency
// and refusals for too many at once; zero if there is no bound.
func (t *Throttle) Limit() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.begin()
	return t.gate.Limit()
}

// SetMaxInFlight changes [Throttle.MaxInFlight], at any time: for a program
// that watches a service and adapts its load. A higher bound starts waiting
// calls at once. Under a lower one no call starts until fewer are in flight;
// calls in flight continue. An n of zero or below is no bound.
func (t *Throttle) SetMaxInFlight(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.begin()
	now := t.now()
	t.gate.MaxInFlight = n
	t.pump(now, nil)
}

// Forecast returns the time until the n-th call in line may start, if nothing
// changes: zero if at once, [pace.Never] if a call in flight has to end first, as
// that may take any time. If the call has to wait for the rate as well,
// Forecast is the wait for the rate alone. So while MaxInFlight calls are in flight
// and the rate would admit one call now, Forecast(1) is Never and Forecast(2) is a
// time. A new call would be number Waiting()+1, or less if some calls rest before a retry for
// longer than that: [Throttle.Status] has its forecast, as Next. An n below 1 counts as 1.
func (t *Throttle) Forecast(n int) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.begin()
	return t.gate.Forecast(time.Now(), n)
}

// Learnt returns what the Control has learnt of the limit, to be kept across a
// restart. It is zero if nothing was learnt, or if the Control is not a
// [pace.Adaptive].
func (t *Throttle) Learnt() pace.Learnt {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.begin()
	if t.adaptive != nil {
		return t.adaptive.Learnt(time.Now())
	}
	return pace.Learnt{}
}

// Restore makes the Control start from what an earlier Throttle had learnt of
// the same limit, see [pace.Adaptive.Restore]. It must be called before the
// first call.
func (t *Throttle) Restore(l pace.Learnt) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.begin()
	if t.adaptive != nil {
		t.adaptive.Restore(time.Now(), l)
	}
}

// begin makes the gate from the fields, once. Caller holds mu.
func (t *Throttle) begin() {
	if t.began {
		return
	}
	t.began = true
	t.gate.Control = t.Control
	if t.gate.Control == nil {
		t.gate.Control = new(pace.Adaptive)
	}
	t.adaptive, _ = t.gate.Control.(*pace.Adaptive)
	if t.Fleet.Store != nil {
		t.gate.Control = pace.All{t.gate.Control, &t.fleet.credit}
	}
	t.gate.Tries, t.gate.Retries = t.Tries, t.Retries
	t.gate.Lanes, t.lanes = lanesOf(t.Weights)
	t.gate.Budget, t.gate.MaxInFlight, t.gate.CountResting = t.Budget, t.MaxInFlight, t.CountResting
	t.gate.Concurrency = t.Concurrency
	t.gate.Backoff = backoffOf(t.Backoff)
	if t.gate.Seed == 0 {
		t.gate.Seed = rand.Uint64()
	}
}

// lanesOf returns the weights of the lanes of a gate, and the lane of each
// priority. Normal has lane 0, which priorities without a weight share.
func lanesOf(weights map[load.Priority]float64) (lanes []float64, of [load.Priorities]int) {
	lanes = []float64{1}
	if w, ok := weights[load.Normal]; ok {
		lanes[0] = w
	}
	for p := load.Low; p <= load.Critical; p++ {
		if w, ok := weights[p]; ok && p != load.Normal {
			of[p.Index()] = len(lanes)
			lanes = append(lanes, w)
		}
	}
	return lanes, of
}

// lineUp lets w enter the gate; started reports whether it may start at once.
// If not ok, it was refused.
func (t *Throttle) lineUp(w *waiter, p load.Priority, needs []Need) (started, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.begin()
	w.ticket.Lane = t.lanes[p.Index()]
	t.need(w, needs)
	w.since = t.now()
	w.bound()
	t.gate.MaxWaiting = t.MaxWaiting
	if w.once { // it does not wait, so it needs no room in line
		t.gate.MaxWaiting = math.MaxInt
	}
	if _, ok = t.gate.Enter(w.since, &w.ticket); ok {
		w.inside = true
		started = t.pump(w.since, w)
	}
	if started {
		return true, true
	}
	w.why = t.gate.Why(w.since, &w.ticket)
	if ok && w.once {
		t.remove(w.since, w)
		return false, false
	}
	return false, ok
}

// done ends the try of w by its last Result. retry reports whether w waits
// again or, if started, has begun the next try; now is when.
func (t *Throttle) done(w *waiter) (started, retry bool, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now = t.now()
	r := t.believe(w.last.Report)
	t.note(now, w.last.Report)
	if len(w.last.Scopes) > 0 {
		r = t.learnScopes(now, w, r)
	}
	w.calling = false
	retry = t.gate.Done(now, &w.ticket, r)
	if r.Verdict == pace.Throttled || r.Verdict == pace.Failed {
		w.why = t.gate.Why(now, &w.ticket)
	}
	if w.inside = retry; retry && w.once {
		t.remove(now, w)
		return false, false, now
	}
	w.since = now
	return t.pump(now, w), retry, now
}

// leave takes w out of the gate, wherever it is: in line, at rest, started but
// not called, or, when its function panicked, in flight.
func (t *Throttle) leave(w *waiter) (now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer w.leaveScopes(t) // also when a Controller panics
	now = t.now()
	if w.calling {
		w.calling = false
		t.gate.Done(now, &w.ticket, pace.Report{})
	}
	if w.inside {
		defer t.remove(now, w) // also when a Controller panics
		t.gate.Foresee(now, &w.ticket)
		w.why = t.gate.Why(now, &w.ticket)
	}
	return now
}

// remove takes w out of the gate. Caller holds mu.
func (t *Throttle) remove(now time.Time, w *waiter) {
	w.inside = false
	t.gate.Leave(now, &w.ticket)
	select {
	case <-w.ready: // the start came too late
	default:
	}
	t.pump(now, nil)
}
