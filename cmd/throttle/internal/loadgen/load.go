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
	// pause follows a request of a closed loop that was not served: it would spin
	// otherwise.
	pause = 10 * time.Millisecond
)

// Generator sends loads to a target, one after the other. Its fields must not
// change after the first Send. Send must not be called by two goroutines at once.
type Generator struct {
	Target Target
	// InFlight bounds the requests in flight, of all loads. If zero,
	// DefaultInFlight. A request that is due beyond it is dropped, and counted.
	InFlight int
	// Timeout bounds a request, from when it is sent. If zero, DefaultTimeout.
	Timeout time.Duration

	places chan struct{} // one for each request in flight
	wg     sync.WaitGroup
}

// Load is what to send.
type Load struct {
	// Rate is offered, in requests a second. If zero, Concurrency requests are kept
	// in flight instead: a closed loop.
	Rate        float64
	Concurrency int
	// Duration is for how long requests start.
	Duration time.Duration
	// Even and Seed are those of Schedule.
	Even bool
	Seed uint64
	// Within is the latency beyond which a served request is Slow. If zero, none
	// is.
	Within time.Duration
	// Requests and Bad end the load early: at so many requests, sent or dropped,
	// and at so many that are not Good. If zero, neither does.
	Requests, Bad int64
	// Parts is into how many parts of Duration the Result is divided. If zero, 1;
	// at most 1,000.
	Parts int
}

// Send offers a load until its duration is over, and returns while the last
// requests are in flight: Drain waits for them. At the end of ctx, requests in
// flight are cancelled.
func (g *Generator) Send(ctx context.Context, l Load) *Sent {
	if g.places == nil {
		if g.InFlight <= 0 {
			g.InFlight = DefaultInFlight
		}
		if g.Timeout <= 0 {
			g.Timeout = DefaultTimeout
		}
		g.places = make(chan struct{}, g.InFlight)
	}
	l.Parts = min(max(l.Parts, 1), 1000)
	s := &Sent{Load: l, g: g, tally: newTally(l, g.Timeout), start: time.Now()}
	if l.Rate > 0 {
		s.open(ctx)
	} else {
		s.closed(ctx)
	}
	s.end, s.cut = time.Now(), ctx.Err() != nil
	return s
}

// Drain waits for all requests in flight, at most for Timeout. No goroutine of g is
// left then.
func (g *Generator) Drain() { g.wg.Wait() }

// Sent is a load that was sent.
type Sent struct {
	Load
	g          *Generator
	tally      *tally
	start, end time.Time
	cut        bool
}

// open starts requests by the schedule.
func (s *Sent) open(ctx context.Context) {
	schedule := Schedule{Rate: s.Rate, Even: s.Even, Seed: s.Seed}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		at := schedule.Next()
		if at >= s.Duration {
			sleep(ctx, timer, time.Until(s.start.Add(s.Duration)))
			return
		}
		behind := time.Since(s.start.Add(at))
		if behind < 0 && !sleep(ctx, timer, -behind) || ctx.Err() != nil || s.tally.over(s.Requests, s.Bad) {
			return
		}
		if behind > s.Duration/2+slack {
			s.tally.drop(at, errBehind)
			continue
		}
		s.begin(ctx, at)
	}
}

// begin starts a request, or drops it.
func (s *Sent) begin(ctx context.Context, at time.Duration) {
	select {
	case s.g.places <- struct{}{}:
	default:
		s.tally.drop(at, errFull)
		return
	}
	id := s.tally.begin(at)
	s.g.wg.Go(func() {
		s.one(ctx, id, at)
		<-s.g.places
	})
}

// closed keeps Concurrency requests in flight, at most InFlight. The last of them
// stay in flight when it returns.
func (s *Sent) closed(ctx context.Context) {
	var last sync.WaitGroup // of the starts
	for range min(s.Concurrency, cap(s.g.places)) {
		last.Add(1)
		s.g.wg.Go(func() { s.loop(ctx, last.Done) })
	}
	last.Wait()
}

// loop keeps one request in flight, and calls done after it has started the last.
func (s *Sent) loop(ctx context.Context, done func()) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	over := time.AfterFunc(time.Until(s.start.Add(s.Duration)), done)
	for ctx.Err() == nil {
		select {
		case s.g.places <- struct{}{}: // those of the load before may still have them
		case <-ctx.Done():
			continue
		}
		at := time.Since(s.start)
		if at >= s.Duration || s.tally.over(s.Requests, s.Bad) {
			<-s.g.places
			break
		}
		verdict := s.one(ctx, s.tally.begin(at), at)
		<-s.g.places
		if verdict > Slow && !sleep(ctx, timer, pause) {
			break
		}
	}
	if over.Stop() {
		done()
	}
}

// one sends a request that was due at an offset.
func (s *Sent) one(ctx context.Context, id uint64, at time.Duration) Verdict {
	due := s.start.Add(at)
	late := time.Since(due)
	own, cancel := context.WithTimeout(ctx, s.g.Timeout)
	verdict, err := s.g.Target.Send(own)
	expired := own.Err() != nil
	cancel()
	latency := time.Since(due)
	switch {
	case ctx.Err() != nil:
		s.tally.forget(id)
		return Failed
	case verdict == Failed && expired:
		verdict = TimedOut
	case verdict == Good && s.Within > 0 && latency > s.Within:
		verdict = Slow
	}
	s.tally.note(id, seen{at: at, latency: latency, late: max(late, 0), verdict: verdict, err: err})
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
