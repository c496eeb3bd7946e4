package throttle_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/pace"
)

// absurd are reports that no server means.
type absurd struct {
	*rand.Rand
	hints bool
}

func (a absurd) number() int64 {
	all := []int64{0, 1, -1, 2, 100, 5000, math.MaxInt64, math.MaxInt64 - 1, math.MinInt64, math.MinInt64 + 1, 1 << 53, 1 << 62, -1 << 62}
	return all[a.IntN(len(all))]
}

func (a absurd) duration() time.Duration {
	all := []time.Duration{0, 1, -1, time.Second, time.Hour, 24 * time.Hour, 100 * 365 * 24 * time.Hour, math.MaxInt64, math.MaxInt64 - 1, math.MinInt64, -time.Hour}
	return all[a.IntN(len(all))]
}

func (a absurd) share() float64 {
	all := []float64{0, -1, math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, math.SmallestNonzeroFloat64, 1e-9, 3, 1e18, math.Copysign(0, -1)}
	return all[a.IntN(len(all))]
}

// maybe is v, or nothing.
func maybe[T any](a absurd, v T) (o pace.Opt[T]) {
	if a.IntN(3) == 0 {
		o = pace.Some(v)
	}
	return o
}

func (a absurd) report() pace.Report {
	r := pace.Report{Verdict: pace.Verdict(a.IntN(4)), After: a.duration(), Crowded: a.IntN(6) == 0, Cost: a.number(), Final: a.IntN(9) == 0}
	if a.hints {
		r.Hints = pace.Hints{
			Limit: maybe(a, a.number()), Window: maybe(a, a.duration()), Remaining: maybe(a, a.number()),
			Reset: maybe(a, a.duration()), Burst: maybe(a, a.number()), Share: maybe(a, a.share()),
		}
	}
	return r
}

func (a absurd) result() (r throttle.Result) {
	r.Report = a.report()
	for range a.IntN(3) {
		r.Scopes = append(r.Scopes, throttle.ScopeResult{Need: throttle.Need{Scope: fmt.Sprint(a.IntN(30)), Cost: a.number()}, Report: a.report()})
	}
	return r
}

// absurdly makes calls whose costs and answers are absurd, for some hours.
func absurdly(t *testing.T, th *throttle.Throttle, seed uint64) (calls *atomic.Int64) {
	calls = new(atomic.Int64)
	var all sync.WaitGroup
	for i := range 8 {
		a := absurd{rand.New(rand.NewPCG(seed, uint64(i))), seed%2 == 0}
		all.Go(func() {
			for range 40 {
				patience := time.Duration(1+a.IntN(3600)) * time.Second
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				o := throttle.CallOptions{Cost: a.number(), MaxWait: a.duration()}
				if a.IntN(2) == 0 {
					o.Needs = []throttle.Need{{Scope: fmt.Sprint(a.IntN(30)), Cost: a.number()}}
				}
				began := time.Now()
				_ = th.DoResult(throttle.WithOptions(ctx, o), func(context.Context) throttle.Result {
					calls.Add(1)
					time.Sleep(time.Duration(a.IntN(1000)) * time.Millisecond)
					return a.result()
				})
				if took := time.Since(began); took > patience+time.Second {
					t.Errorf("took %v, longer than its context of %v", took, patience)
				}
				cancel()
				time.Sleep(time.Second)
			}
		})
	}
	all.Wait()
	return calls
}

// Whatever costs and answers say, calls end with their contexts, and an hour and
// five minutes after the last nonsense, a day if it was about a window, calls are
// made again: at the worst as seldom as the law goes, one in two hours, at first.
func TestSoakAbsurdReports(t *testing.T) {
	seeds := uint64(40)
	if os.Getenv("THROTTLE_SOAK") != "" {
		seeds = 2000
	}
	for seed := range seeds {
		bubble.Test(t, func(t *testing.T) {
			th := &throttle.Throttle{MaxWait: 3 * time.Hour, OnEvent: func(throttle.Event) {}}
			calls := absurdly(t, th, seed)
			if n := calls.Load(); n > 8*40*200 {
				t.Errorf("seed %d: %d calls of 320", seed, n)
			}
			after := time.Hour + 5*time.Minute
			if seed%2 == 0 { // what is left of a window is spread over it, as long as a day
				after = 25 * time.Hour
			}
			time.Sleep(after)
			began := time.Now()
			for i := range 200 {
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour+10*time.Minute)
				if err := th.Do(ctx, func(context.Context) error { return nil }); err != nil {
					t.Fatalf("seed %d: call %d after %v: %v", seed, i, after, err)
				}
				cancel()
			}
			if took := time.Since(began); took > 24*time.Hour { // from the slowest rate, which grows by the hour
				t.Errorf("seed %d: 200 calls took %v afterwards", seed, took)
			}
			if th.InFlight() != 0 || th.Waiting() != 0 {
				t.Errorf("seed %d: %d in flight, %d waiting, want none", seed, th.InFlight(), th.Waiting())
			}
		})
	}
}
