package loadgen

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
)

// service is a Target that begins to answer at a time, each request after some
// time, and ends with its context.
type service struct {
	start   time.Time
	takes   time.Duration
	stalled [2]time.Duration // nothing is answered in between
	verdict Verdict
	deaf    bool // does not answer at all
}

func (v *service) Send(ctx context.Context) (Verdict, error) {
	wait := v.takes
	if at := time.Since(v.start); at >= v.stalled[0] && at < v.stalled[1] {
		wait += v.stalled[1] - at
	}
	if v.deaf {
		wait = time.Hour
	}
	select {
	case <-time.After(wait):
	case <-ctx.Done():
		return Failed, ctx.Err()
	}
	if v.verdict != Good {
		return v.verdict, errors.New("no")
	}
	return Good, nil
}

const ms = time.Millisecond

// near reports whether an HDR figure of three digits is a duration.
func near(got, want time.Duration) bool { return (got - want).Abs() <= want/500+time.Microsecond }

// TestStallIsSeen: in 10 s of 100/s all that are due in a stall of 2 s wait for its
// end: a fifth of the requests. A generator that waits for answers would see a
// single slow one.
func TestStallIsSeen(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		v := &service{start: time.Now(), takes: 5 * ms, stalled: [2]time.Duration{3 * time.Second, 5 * time.Second}}
		g := &Generator{Target: v}
		r := g.Run(t.Context(), Load{Rate: 100, Even: true, Duration: 10 * time.Second, Within: 250 * ms, Parts: 10})
		if took := time.Since(v.start); took != 10*time.Second || r.Took != took || r.Elapsed != took {
			t.Errorf("takes %v, sending %v, in all %v, want 10s", took, r.Took, r.Elapsed)
		}
		// Due at 3.00 s to 4.75 s: later than 250 ms.
		want := Counts{Good: 1000 - 176, Slow: 176}
		if r.Counts != want || r.Cut || r.First != nil {
			t.Errorf("counts are %+v, cut %t, first %v, want %+v", r.Counts, r.Cut, r.First, want)
		}
		if !near(r.Latency.P50, 5*ms) || !near(r.Latency.P99, 1905*ms) || !near(r.Latency.Max, 2005*ms) || r.Late.Max != 0 {
			t.Errorf("latency %+v, late %v, want p50 5ms, p99 1.905s, max 2.005s, never late", r.Latency, r.Late.Max)
		}
		if got := r.Parts[3]; got.Slow != 100 || !near(got.Mean, 1510*ms) { // 1.005 s to 2.005 s
			t.Errorf("the fourth second is %+v, want 100 slow, 1.51s", got)
		}
		if got := r.Parts[5]; got.Good != 100 || got.Mean != 5*ms {
			t.Errorf("the sixth second is %+v, want 100 good, 5ms", got)
		}
	})
}

func TestBounds(t *testing.T) {
	second := Load{Rate: 100, Even: true, Duration: time.Second}
	with := func(change func(*Load)) Load {
		l := second
		change(&l)
		return l
	}
	for _, test := range []struct {
		name     string
		service  service
		inFlight int
		load     Load
		want     Counts
		took     time.Duration // of the sending
	}{
		{"all good", service{takes: ms}, 0, second, Counts{Good: 100}, time.Second},
		{"as many in flight as may be", service{takes: 100*ms - 1}, 10, second, Counts{Good: 100}, time.Second},
		{"more than may be in flight", service{takes: 200*ms - 1}, 10, second, Counts{Good: 50, Dropped: 50}, time.Second},
		{"refused", service{verdict: Refused}, 0, second, Counts{Refused: 100}, time.Second},
		{"failed", service{verdict: Failed}, 0, second, Counts{Failed: 100}, time.Second},
		{"timed out", service{deaf: true}, 0, second, Counts{Failed: 100, TimedOut: 100}, time.Second},
		{"slow", service{takes: 20 * ms}, 0, with(func(l *Load) { l.Within = 10 * ms }), Counts{Slow: 100}, time.Second},
		{"as slow as may be", service{takes: 10 * ms}, 0, with(func(l *Load) { l.Within = 10 * ms }), Counts{Good: 100}, time.Second},
		{"so many requests", service{}, 0, with(func(l *Load) { l.Requests = 30 }), Counts{Good: 30}, 300 * ms},
		{"so many bad ones", service{verdict: Refused, takes: 5 * ms}, 0, with(func(l *Load) { l.Bad = 7 }), Counts{Refused: 7}, 70 * ms},
		{"so many failures", service{verdict: Refused, takes: 5 * ms}, 0, with(func(l *Load) { l.Failures = 7 }), Counts{Refused: 7}, 70 * ms},
		{"slow ones are no failures", service{takes: 5 * ms}, 0, with(func(l *Load) { l.Failures, l.Within = 7, ms }), Counts{Slow: 100}, time.Second},
		{"nothing", service{}, 0, Load{Duration: time.Second}, Counts{}, time.Second},
		{"closed loop", service{takes: 100 * ms}, 0, Load{Concurrency: 4, Duration: time.Second}, Counts{Good: 40}, time.Second},
		{"closed loop, bounded", service{takes: 100 * ms}, 2, Load{Concurrency: 4, Duration: time.Second}, Counts{Good: 20}, time.Second},
		{"closed loop of refusals", service{verdict: Refused}, 0, Load{Concurrency: 1, Duration: time.Second}, Counts{Refused: 100}, time.Second},
		{"closed loop of time-outs", service{deaf: true}, 0, Load{Concurrency: 3, Duration: time.Second}, Counts{Failed: 3, TimedOut: 3}, time.Second},
		{"closed loop of so many", service{takes: 100 * ms}, 0, Load{Concurrency: 4, Duration: time.Second, Requests: 12}, Counts{Good: 12}, 300 * ms},
		{"another rate then", service{}, 0, with(func(l *Load) { l.Then, l.ThenFor = 10, 2*time.Second }), Counts{Good: 120}, 3 * time.Second},
		{"then, ended by calm", service{}, 0, with(func(l *Load) { l.Then, l.ThenFor, l.Calm = 10, time.Hour, 500*ms }), Counts{Good: 105}, 1500 * ms},
		{"then, never calm", service{verdict: Refused}, 0, with(func(l *Load) { l.Then, l.ThenFor, l.Calm = 10, 10*time.Second, 500*ms }), Counts{Refused: 200}, 11 * time.Second},
		{
			"then, not calm while answers are out",
			service{takes: 300 * ms, stalled: [2]time.Duration{0, 5 * time.Second}},
			0,
			with(func(l *Load) {
				l.Then, l.ThenFor, l.Calm, l.Within, l.Requests = 10, time.Minute, 300*ms, time.Second, 120
			}),
			Counts{Failed: 120, TimedOut: 120},
			3 * time.Second,
		},
		{"a closed loop, then less", service{takes: 100 * ms}, 0, Load{Concurrency: 4, Duration: time.Second, Then: 1, ThenFor: time.Second}, Counts{Good: 50}, 2 * time.Second},
		{"a closed loop, then more", service{takes: 100 * ms}, 0, Load{Concurrency: 1, Duration: time.Second, Then: 3, ThenFor: time.Second}, Counts{Good: 40}, 2 * time.Second},
	} {
		bubble.Test(t, func(t *testing.T) {
			test.service.start = time.Now()
			g := &Generator{Target: &test.service, InFlight: test.inFlight, Timeout: 2 * time.Second}
			r := g.Run(t.Context(), test.load)
			if r.TimedOut > 0 && r.First.Error() != "no answer within 2s" {
				t.Errorf("%s: the first error is %v", test.name, r.First)
			}
			if r.Counts != test.want || r.Took != test.took || r.Elapsed != time.Since(test.service.start) {
				t.Errorf("%s: %+v in %v, %v in all, want %+v in %v", test.name, r.Counts, r.Took, r.Elapsed, test.want, test.took)
			}
		})
	}
}

// TestRequestsOfClosedLoop: a bound on requests holds for any number of goroutines.
func TestRequestsOfClosedLoop(t *testing.T) {
	tally := newTally(Load{Parts: 1}, time.Second)
	var wg sync.WaitGroup
	var sent atomic.Int64
	for range 50 {
		wg.Go(func() {
			if tally.place(10) {
				sent.Add(1)
			}
		})
	}
	wg.Wait()
	if n := sent.Load(); n != 10 {
		t.Errorf("%d of 50 have a place, want 10", n)
	}
	for range 50 {
		g := &Generator{Target: &service{}}
		if r := g.Run(t.Context(), Load{Concurrency: 50, Duration: time.Hour, Requests: 10}); r.Sent() != 10 {
			t.Fatalf("%d sent, want 10", r.Sent())
		}
	}
}

// TestCancel: Send and Drain end at once, and leave no goroutine (synctest would
// find it). What was cancelled is not counted.
func TestCancel(t *testing.T) {
	for _, load := range []Load{{Rate: 100, Even: true}, {Concurrency: 50}} {
		bubble.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			start := time.Now()
			time.AfterFunc(500*ms+1, cancel)
			g := &Generator{Target: &service{takes: 300 * ms}}
			load.Duration = time.Hour
			r := g.Run(ctx, load)
			if took := time.Since(start); took != 500*ms+1 || !r.Cut || r.First != nil || r.Failed+r.Dropped != 0 {
				t.Errorf("%+v: ends after %v with %+v, want at once, cut, without failures", load, took, r)
			}
			if want := map[bool]int64{true: 21, false: 50}[load.Rate > 0]; r.Good != want {
				t.Errorf("%+v: %d good, want %d", load, r.Good, want)
			}
		})
	}
}

// TestLatenessCounts: latency runs from when a request was due, so what this machine
// delays is in it, and is told apart.
func TestLatenessCounts(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		load := Load{Duration: time.Second, Parts: 1, Within: 500 * ms}
		r := &run{Load: load, target: &service{takes: 5 * ms}, timeout: time.Second, tally: newTally(load, time.Second), start: time.Now()}
		time.Sleep(time.Second)
		if v := r.one(t.Context(), r.tally.begin(400*ms), 400*ms); v != Slow {
			t.Errorf("verdict %v, want slow", v)
		}
		got := r.tally.result(time.Second)
		if !near(got.Latency.Max, 605*ms) || !near(got.Late.Max, 600*ms) || got.Slow != 1 || got.Excused != 1 {
			t.Errorf("latency %v, late %v, %+v, want 605ms, 600ms, one slow", got.Latency.Max, got.Late.Max, got.Counts)
		}
		if v := r.one(t.Context(), r.tally.begin(405*ms), 405*ms); v != Slow {
			t.Errorf("verdict %v, want slow", v)
		}
		r.target = &service{takes: 501 * ms}
		r.one(t.Context(), r.tally.begin(900*ms), 900*ms) // slow by itself
		if got := r.tally.result(time.Second); got.Slow != 3 || got.Excused != 2 {
			t.Errorf("%d slow, %d excused, want 3 and 2", got.Slow, got.Excused)
		}
	})
}

// TestEarlyEnd: parts after an early end are left out.
func TestEarlyEnd(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		g := &Generator{Target: &service{verdict: Failed}}
		r := g.Run(t.Context(), Load{Rate: 100, Even: true, Duration: time.Second, Bad: 25, Parts: 10})
		if len(r.Parts) != 3 || r.Parts[2].Failed != 5 || r.First == nil {
			t.Errorf("%d parts, %+v, want 3, the last with 5 failed", len(r.Parts), r.Parts)
		}
	})
}
