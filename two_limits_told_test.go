package throttle_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/pace"
)

// A server with two limits tells what remains of the one that binds, now the one and now the
// other, so that it leaps between thousands and a few. That is no swing of one level: three
// callers at half of the tighter limit, none of whom is refused, do not wait.
func TestTwoLimitsToldInTurn(t *testing.T) {
	for _, stated := range []bool{true, false} {
		bubble.Test(t, func(t *testing.T) {
			server := &twoLimits{number: stated, window: stated, limits: [2]limit.Limit{
				{Kind: limit.SlidingWindow, Count: 40, Period: 10 * time.Second},
				{Kind: limit.FixedWindow, Count: 10_800, Period: time.Hour},
			}}
			var (
				all     sync.WaitGroup
				mu      sync.Mutex
				longest time.Duration
				began   = time.Now()
			)
			for i := range 3 {
				th, random := new(throttle.Throttle), rand.New(rand.NewPCG(1, uint64(i)))
				all.Go(func() {
					for time.Since(began) < 50*time.Minute {
						time.Sleep(time.Duration(random.ExpFloat64() * 2e9))
						all.Go(func() {
							came := time.Now()
							if err := th.DoResult(t.Context(), server.answer); err != nil {
								t.Error(err)
							}
							mu.Lock()
							defer mu.Unlock()
							longest = max(longest, time.Since(came))
						})
					}
				})
			}
			all.Wait()
			t.Logf("policy stated: %v: %d refused, the longest call %v", stated, server.refused, longest)
			if server.refused > 5 || longest > 10*time.Second {
				t.Errorf("policy stated: %v: %d refused, the longest call took %v; want 5 at most, and 10s", stated, server.refused, longest)
			}
		})
	}
}

// A server with two limits states that of which the smallest part remains: a few a second, and then
// an hour's quota, again and again. Taken for one limit that changes, nine calls of ten were refused,
// or a job took thirty times as long. A job is as fast as both limits let it be.
func TestJobOnTwoLimitsStatedInTurn(t *testing.T) {
	fixed := func(n int64, of time.Duration) limit.Limit {
		return limit.Limit{Kind: limit.FixedWindow, Count: n, Period: of}
	}
	for _, c := range []struct {
		limits         [2]limit.Limit
		window, reset  bool
		calls          int
		least          time.Duration // by both limits
		factor, refuse float64       // times that, and parts of the calls
	}{
		{[2]limit.Limit{fixed(10, time.Second), fixed(500, time.Minute)}, true, false, 900, 99 * time.Second, 1.3, 0.05},
		{[2]limit.Limit{fixed(10, time.Second), fixed(500, time.Minute)}, false, true, 900, 99 * time.Second, 1.3, 0.02},
		{[2]limit.Limit{fixed(3, time.Second), fixed(100, time.Minute)}, false, true, 400, 213 * time.Second, 1.5, 0.05},
		{[2]limit.Limit{fixed(20, time.Second), fixed(100, 2*time.Minute)}, true, true, 100, 4 * time.Second, 4, 0.05},
		{[2]limit.Limit{fixed(10, time.Second), fixed(1000, time.Hour)}, true, true, 600, 59 * time.Second, 1.5, 0.02},
		{[2]limit.Limit{fixed(100, time.Minute), fixed(1000, time.Hour)}, true, true, 400, 3 * time.Minute, 1.5, 0.02},
		{[2]limit.Limit{fixed(100, time.Minute), fixed(1000, time.Hour)}, true, false, 900, 8 * time.Minute, 1.5, 0.02},
	} {
		bubble.Test(t, func(t *testing.T) {
			server := &twoLimits{limits: c.limits, number: true, window: c.window, reset: c.reset}
			th := throttle.Throttle{OnEvent: func(throttle.Event) {}}
			took := job(t, c.calls, func() error { return th.DoResult(t.Context(), server.answer) })
			t.Logf("%v and %v: %v for %v, %d refused", c.limits[0], c.limits[1], took, c.least, server.refused)
			if took.Seconds() > c.factor*c.least.Seconds() || float64(server.refused) > c.refuse*float64(c.calls) {
				t.Errorf("%v and %v, window stated: %v: a job of %d took %v and %d were refused; want %v times %v, and %v of them at most",
					c.limits[0], c.limits[1], c.window, c.calls, took, server.refused, c.factor, c.least, c.refuse)
			}
		})
	}
}

// A server states its first limit until the other refuses. That one is then known by refusals alone,
// and an answer that states the first says nothing of it: a job keeps to its rate between them.
func TestJobOnALimitStatedByRefusalsAlone(t *testing.T) {
	bucket := func(n int64, of time.Duration) limit.Limit { return limit.Limit{Count: n, Period: of} }
	for _, c := range []struct {
		limits [2]limit.Limit
		window bool
		calls  int
		least  time.Duration // by both limits
	}{
		{[2]limit.Limit{bucket(42, time.Minute), bucket(361, time.Hour)}, true, 481, 20 * time.Minute},
		{[2]limit.Limit{bucket(26, time.Second), bucket(160, time.Minute)}, false, 339, 67 * time.Second},
		{[2]limit.Limit{bucket(20, time.Second), {Kind: limit.SlidingWindow, Count: 300, Period: time.Minute}}, true, 900, 4 * time.Minute},
	} {
		bubble.Test(t, func(t *testing.T) {
			server := &twoLimits{limits: c.limits, number: true, window: c.window, reset: true, after: true, first: true}
			th := throttle.Throttle{OnEvent: func(throttle.Event) {}}
			took := job(t, c.calls, func() error { return th.DoResult(t.Context(), server.answer) })
			t.Logf("%v and %v: %v for %v, %d refused", c.limits[0], c.limits[1], took, c.least, server.refused)
			if took > c.least*3/2 || server.refused > c.calls/10 {
				t.Errorf("%v and %v: a job of %d took %v and %d were refused; want half more than %v at most, and a tenth",
					c.limits[0], c.limits[1], c.calls, took, server.refused, c.least)
			}
		})
	}
}

// Three clients that together ask for 70 % of the tighter of two limits hardly wait, and where
// they ask for more than all of it they use all of it.
func TestClientsOfTwoLimitsStatedInTurn(t *testing.T) {
	limits := [2]limit.Limit{
		{Kind: limit.FixedWindow, Count: 10, Period: time.Second},
		{Kind: limit.FixedWindow, Count: 500, Period: time.Minute},
	}
	const clients, rate, long = 3, 500.0 / 60, 20 * time.Minute
	for _, window := range []bool{true, false} {
		for _, load := range []float64{0.7, 1.5} {
			bubble.Test(t, func(t *testing.T) {
				server := &twoLimits{limits: limits, number: true, window: window, reset: !window}
				var (
					all  sync.WaitGroup
					mu   sync.Mutex
					took []time.Duration
				)
				ctx := t.Context()
				if load > 1 { // the line grows
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, long)
					defer cancel()
				}
				for range clients {
					th := throttle.Throttle{OnEvent: func(throttle.Event) {}}
					all.Go(func() {
						of := service(t, load*rate/clients, long, func(*rand.Rand) error {
							if err := th.DoResult(ctx, server.answer); load < 1 {
								return err
							}
							return nil
						})
						mu.Lock()
						defer mu.Unlock()
						took = append(took, of...)
					})
				}
				all.Wait()
				slices.Sort(took)
				p99, used := took[len(took)*99/100], float64(server.served)/rate/long.Seconds()
				t.Logf("window stated: %v, load %v: %d refused of %d, %.2f used, p99 %v", window, load, server.refused, server.served, used, p99)
				switch {
				case server.refused > server.served/12:
					t.Errorf("load %v: %d were refused and %d served, want a twelfth at most", load, server.refused, server.served)
				case load < 1 && window && p99 > 15*time.Second:
					t.Errorf("load %v: the 99th percentile of waits is %v, want 15s at most", load, p99)
				case load > 1 && used < 0.85:
					t.Errorf("load %v: %.2f of the limit was used, want 0.85 at least", load, used)
				}
			})
		}
	}
}

// twoLimits is a server with two limits, which tells what remains of the one that binds, its number,
// its window, its reset and a Retry-After, both in whole seconds. If first, it tells of the first limit
// until the other refuses.
type twoLimits struct {
	limits                       [2]limit.Limit
	number, window, reset, after bool
	first                        bool

	mu              sync.Mutex
	states          [2]limit.State
	served, refused int
}

func (s *twoLimits) answer(context.Context) throttle.Result {
	time.Sleep(50 * time.Millisecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	var d [2]limit.Decision
	asks := [2]limit.Ask{{Limit: s.limits[0], N: 1}, {Limit: s.limits[1], N: 1}}
	r := pace.Report{Verdict: pace.Served}
	if limit.TakeAll(s.states[:], time.Now(), asks[:], d[:]) {
		s.served++
	} else {
		s.refused++
		r.Verdict = pace.Throttled
	}
	i := limit.Binding(d[:])
	if s.first && r.Verdict == pace.Served {
		i = 0
	}
	r.Hints.Remaining = pace.Some(d[i].Remaining)
	if s.number {
		r.Hints.Limit = pace.Some(s.limits[i].Count)
	}
	if s.window {
		r.Hints.Window = pace.Some(s.limits[i].Period)
	}
	whole := func(d time.Duration) time.Duration { return (d + time.Second - 1).Truncate(time.Second) }
	if s.reset {
		r.Hints.Reset = pace.Some(whole(d[i].ResetAfter))
	}
	if s.after && r.Verdict == pace.Throttled {
		r.After = whole(d[i].RetryAfter)
	}
	return throttle.Result{Report: r}
}
