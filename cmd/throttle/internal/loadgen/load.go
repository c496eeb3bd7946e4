package loadgen

import (
	"context"
	"sync"
	"time"
)

// A Verdict is how a request ended.
type Verdict uint8

const (
	// Good is a request that was served.
	Good Verdict = iota
	// Refused is a request that a rate limiter or load shedding refused.
	Refused
	// Failed is any other answer, or none.
	Failed
	// TimedOut is a request without an answer within Load.Timeout.
	TimedOut
	// Dropped is a request that this side could not send: too many in flight, no
	// socket left, or the schedule too far behind.
	Dropped
	verdicts
)

// Target performs one request, and ends with ctx. The error says why a request
// did not end well. It is called by many goroutines at once.
type Target interface {
	Send(ctx context.Context) (Verdict, error)
}

// Defaults and bounds of Load.
const (
	// DefaultInFlight is Load.InFlight if that is zero.
	DefaultInFlight = 4096
	// DefaultTimeout is Load.Timeout if that is zero.
	DefaultTimeout = 10 * time.Second
	// slack is how far behind its schedule a load is given up, beside half its
	// duration.
	slack = time.Second
)

// Load is what to send. It is not changed by Run.
type Load struct {
	Target Target
	// Rate is offered, in requests a second. If zero, Concurrency requests are kept
	// in flight instead: a closed loop.
	Rate        float64
	Concurrency int
	// Duration is for how long requests start.
	Duration time.Duration
	// Even and Seed are those of Schedule.
	Even bool
	Seed uint64
	// InFlight bounds the requests in flight. If zero, DefaultInFlight. A request
	// that is due beyond it is dropped, and counted.
	InFlight int
	// Timeout bounds a request, from when it is sent. If zero, DefaultTimeout.
	Timeout time.Duration
	// Requests and Failures end the load early: at so many requests, sent or
	// dropped, and at so many that did not end well (refusals left out). If zero,
	// neither does.
	Requests, Failures int64
	// Intervals is into how many parts of Duration the Result is divided. If zero,
	// 10; at most 100.
	Intervals int
}

// withDefaults is l without zeros.
func (l Load) withDefaults() Load {
	if l.InFlight <= 0 {
		l.InFlight = DefaultInFlight
	}
	if l.Timeout <= 0 {
		l.Timeout = DefaultTimeout
	}
	if l.Intervals <= 0 {
		l.Intervals = 10
	}
	l.Intervals = min(l.Intervals, 100)
	return l
}

// Run sends until the duration is over, waits for what is in flight, at most for
// Timeout, and returns what was seen. At the end of ctx requests in flight are
// cancelled and not counted, and Result.Cut is set. No goroutine outlives Run.
func (l Load) Run(ctx context.Context) Result {
	l = l.withDefaults()
	r := &run{Load: l, tally: newTally(l), places: make(chan struct{}, l.InFlight), start: time.Now()}
	if l.Rate > 0 {
		r.open(ctx)
	} else {
		r.closed(ctx)
	}
	last := time.Now()
	r.wg.Wait()
	return r.result(ctx, last)
}

// run is one Run.
type run struct {
	Load
	tally  *tally
	start  time.Time
	places chan struct{} // one for each request in flight
	wg     sync.WaitGroup
}

// result is what was seen, if the last request started at last.
func (r *run) result(ctx context.Context, last time.Time) Result {
	out := r.tally.result()
	out.Rate, out.Concurrency, out.Cut = r.Rate, r.Concurrency, ctx.Err() != nil
	out.Elapsed = min(last.Sub(r.start), r.Duration)
	if !r.tally.over(r.Requests, r.Failures) && ctx.Err() == nil {
		out.Elapsed = r.Duration
	}
	out.Drain = max(time.Since(last), 0)
	return out
}

// open starts requests by the schedule.
func (r *run) open(ctx context.Context) {
	schedule := Schedule{Rate: r.Rate, Even: r.Even, Seed: r.Seed}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		at := schedule.Next()
		if at >= r.Duration || r.tally.over(r.Requests, r.Failures) {
			return
		}
		behind := time.Since(r.start.Add(at))
		if behind < 0 && !sleep(ctx, timer, -behind) || ctx.Err() != nil {
			return
		}
		if behind > r.Duration/2+slack {
			r.tally.drop(at)
			continue
		}
		r.begin(ctx, at)
	}
}

// begin starts a request, or drops it.
func (r *run) begin(ctx context.Context, at time.Duration) {
	select {
	case r.places <- struct{}{}:
	default:
		r.tally.drop(at)
		return
	}
	r.tally.begin()
	r.wg.Go(func() {
		r.one(ctx, at)
		<-r.places
	})
}

// closed keeps Concurrency requests in flight. A place that has just been
// refused or failed is used again after a pause: it would spin otherwise.
func (r *run) closed(ctx context.Context) {
	var workers sync.WaitGroup
	for range min(r.Concurrency, r.InFlight) {
		workers.Go(func() {
			timer := time.NewTimer(0)
			defer timer.Stop()
			for ctx.Err() == nil {
				at := time.Since(r.start)
				if at >= r.Duration || r.tally.over(r.Requests, r.Failures) {
					return
				}
				r.tally.begin()
				if r.one(ctx, at) != Good && !sleep(ctx, timer, pause) {
					return
				}
			}
		})
	}
	workers.Wait()
}

// pause follows a request of a closed loop that was not served.
const pause = 10 * time.Millisecond

// one sends a request that was to start at an offset.
func (r *run) one(ctx context.Context, at time.Duration) Verdict {
	intended := r.start.Add(at)
	late := time.Since(intended)
	own, cancel := context.WithTimeout(ctx, r.Timeout)
	verdict, err := r.Target.Send(own)
	expired := own.Err() != nil
	cancel()
	latency := time.Since(intended)
	switch {
	case ctx.Err() != nil:
		r.tally.cancelled()
		return Failed
	case verdict == Failed && expired:
		verdict = TimedOut
	}
	r.tally.note(seen{at: at, latency: latency, late: max(late, 0), verdict: verdict, err: err})
	return verdict
}

// sleep waits, and reports false if ctx ends first.
func sleep(ctx context.Context, timer *time.Timer, d time.Duration) bool {
	timer.Reset(d)
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
