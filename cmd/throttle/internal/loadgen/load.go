package loadgen

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"
)

// A Verdict is how a request ended.
type Verdict uint8

const (
	// Good is a request that was served.
	Good Verdict = iota
	// Slow is one that was served later than Load.Within. Targets do not tell
	// it from Good.
	Slow
	// Refused is a request that a rate limiter or load shedding refused.
	Refused
	// Failed is any other answer, or none.
	Failed
	// TimedOut is a request without an answer within Generator.Timeout.
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

const (
	// DefaultInFlight is Generator.InFlight if that is zero.
	DefaultInFlight = 10_000
	// DefaultTimeout is Generator.Timeout if that is zero.
	DefaultTimeout = 10 * time.Second
	// slack is how far behind its schedule a load is given up, beside half its
	// duration.
	slack = time.Second
	// glance is how often it is looked whether a load is calm.
	glance = 20 * time.Millisecond
	// pause follows a request of a closed loop that was not served: it would spin
	// otherwise.
	pause = 10 * time.Millisecond
)

// Generator sends loads to a target, one after the other. Its fields must not
// change after the first Run. Run must not be called by two goroutines at once.
type Generator struct {
	Target Target
	// InFlight bounds the requests in flight. If zero, DefaultInFlight. A request
	// that is due beyond it is dropped, and counted.
	InFlight int
	// Timeout bounds a request, from when it is sent. If zero, DefaultTimeout.
	Timeout time.Duration
}

// Load says at which rate, or with how many in flight, to send for how long.
type Load struct {
	// Rate is offered, in requests a second. If zero, Concurrency requests are kept
	// in flight instead: a closed loop.
	Rate        float64
	Concurrency int
	// Duration is for how long requests start.
	Duration time.Duration
	// Then, if above zero, is the rate or concurrency to offer after Duration, for
	// ThenFor more, without a pause.
	Then    float64
	ThenFor time.Duration
	// Even and Seed are those of Schedule.
	Even bool
	Seed uint64
	// Within is the latency beyond which a served request is Slow. If zero, none
	// is.
	Within time.Duration
	// Requests, Bad and Failures end the load early: at so many requests, sent or
	// dropped, at so many that are not Good, and at so many that failed or were
	// refused. If zero, none does.
	Requests, Bad, Failures int64
	// Calm ends the load early, in the time of Then, once for so long no request
	// was bad, and none is out for longer than Within. If zero, nothing does.
	Calm time.Duration
	// Parts is into how many equal parts of Duration and ThenFor together the
	// Result is divided. If zero, 1; at most 1,000.
	Parts int
}

// Run offers a load until it is over, waits for the requests in flight, at most
// for Timeout, and returns what was seen. At the end of ctx, requests in flight are
// cancelled, and not counted. No goroutine outlives Run.
func (g *Generator) Run(ctx context.Context, l Load) Result {
	if l.Then <= 0 || l.ThenFor <= 0 {
		l.Then, l.ThenFor = 0, 0
	}
	l.Parts = min(max(l.Parts, 1), 1000)
	r := &run{Load: l, target: g.Target, timeout: g.Timeout, start: time.Now()}
	if r.timeout <= 0 {
		r.timeout = DefaultTimeout
	}
	inFlight := g.InFlight
	if inFlight <= 0 {
		inFlight = DefaultInFlight
	}
	r.tally = newTally(l, r.timeout)
	if l.Rate > 0 {
		r.places = make(chan struct{}, inFlight)
		r.open(ctx)
	} else {
		r.closed(ctx, inFlight)
	}
	took := r.tally.took()
	r.wg.Wait()
	out := r.tally.result(took)
	out.Elapsed, out.Cut = time.Since(r.start), ctx.Err() != nil
	return out
}

// threads is how many goroutines may run at once for each processor.
const threads = 4

// RaiseThreads lets more threads run than there are processors, for the whole
// program, until the function that it returns is called: the kernel wakes a thread
// sooner than the runtime finds a place for its goroutine, so that requests start
// in time beside answers that are read.
func RaiseThreads() (undo func()) {
	before := runtime.GOMAXPROCS(threads * runtime.NumCPU())
	return func() { runtime.GOMAXPROCS(before) }
}

// run is one Run.
type run struct {
	Load
	target  Target
	timeout time.Duration
	tally   *tally
	start   time.Time
	places  chan struct{} // of an open loop: one for each request in flight
	wg      sync.WaitGroup
}

// over reports whether the load has to end before its time.
func (r *run) over(ctx context.Context) bool {
	now := time.Since(r.start)
	early := ctx.Err() != nil || r.tally.over(r.Load) ||
		r.Calm > 0 && now >= r.Duration+r.Calm && r.tally.calm(now, r.Calm, r.Within)
	if early {
		r.tally.end(now)
	}
	return early
}

// open starts requests by the schedule.
func (r *run) open(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	whole := r.Duration + r.ThenFor
	if r.offer(ctx, timer, Schedule{Rate: r.Rate, Even: r.Even, Seed: r.Seed}, 0, r.Duration) &&
		r.offer(ctx, timer, Schedule{Rate: r.Then, Even: r.Even, Seed: r.Seed + 1}, r.Duration, whole) &&
		!sleep(ctx, timer, time.Until(r.start.Add(whole))) {
		r.over(ctx)
	}
}

// offer starts requests from an offset to another, and reports false if the load
// ends early.
func (r *run) offer(ctx context.Context, timer *time.Timer, s Schedule, from, to time.Duration) bool {
	for {
		at := s.Next()
		if at >= to-from {
			return true
		}
		at += from
		behind := time.Since(r.start.Add(at))
		if behind < 0 {
			sleep(ctx, timer, -behind)
		}
		if r.over(ctx) {
			return false
		}
		if behind > to/2+slack {
			r.tally.drop(at, errBehind)
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
		r.tally.drop(at, errFull)
		return
	}
	r.tally.place(0) // one goroutine alone starts them, and has asked over
	id := r.tally.begin(at)
	r.wg.Go(func() {
		r.one(ctx, id, at)
		<-r.places
	})
}

// closed keeps so many requests in flight as Concurrency and Then say, at most as
// many as may be.
func (r *run) closed(ctx context.Context, most int) {
	first, then := min(r.Concurrency, most), min(int(r.Then), most)
	for i := range max(first, then) {
		r.wg.Go(func() { r.loop(ctx, i < first, i < then) })
	}
	r.wg.Wait()
}

// loop keeps a request in flight, in the time of Duration and in that of ThenFor.
func (r *run) loop(ctx context.Context, first, then bool) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	if !first {
		sleep(ctx, timer, r.Duration)
	}
	end := r.Duration
	if then {
		end += r.ThenFor
	}
	for !r.over(ctx) {
		at := time.Since(r.start)
		if at >= end {
			return
		}
		if !r.tally.place(r.Requests) {
			r.tally.end(at)
			return
		}
		if verdict := r.one(ctx, r.tally.begin(at), at); verdict > Slow {
			sleep(ctx, timer, pause)
		}
	}
}

// one sends a request that was due at an offset.
func (r *run) one(ctx context.Context, id uint64, at time.Duration) Verdict {
	due := r.start.Add(at)
	late := time.Since(due)
	own, cancel := context.WithTimeout(ctx, r.timeout)
	verdict, err := r.target.Send(own)
	expired := own.Err() != nil
	cancel()
	latency := time.Since(due)
	switch {
	case ctx.Err() != nil:
		r.tally.forget(id)
		return Failed
	case verdict == Failed && expired:
		verdict, err = TimedOut, fmt.Errorf("no answer within %v", r.timeout)
	case verdict == Good && r.Within > 0 && latency > r.Within:
		verdict = Slow
	}
	r.tally.note(id, seen{at: at, latency: latency, late: max(late, 0), verdict: verdict, err: err})
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
