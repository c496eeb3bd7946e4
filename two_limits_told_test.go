package throttle_test

import (
	"context"
	"math/rand/v2"
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
			server := &twoLimits{stated: stated, limits: [2]limit.Limit{
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

// twoLimits is a server with two limits, which tells of the one that binds, and whether stated its
// policy too.
type twoLimits struct {
	limits [2]limit.Limit
	stated bool

	mu      sync.Mutex
	states  [2]limit.State
	refused int
}

func (s *twoLimits) answer(context.Context) throttle.Result {
	time.Sleep(50 * time.Millisecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	var d [2]limit.Decision
	asks := [2]limit.Ask{{Limit: s.limits[0], N: 1}, {Limit: s.limits[1], N: 1}}
	r := pace.Report{Verdict: pace.Served}
	if !limit.TakeAll(s.states[:], time.Now(), asks[:], d[:]) {
		s.refused++
		r.Verdict = pace.Throttled
	}
	i := limit.Binding(d[:])
	r.Hints.Remaining = pace.Some(d[i].Remaining)
	if s.stated {
		r.Hints.Limit, r.Hints.Window = pace.Some(s.limits[i].Count), pace.Some(s.limits[i].Period)
	}
	return throttle.Result{Report: r}
}
