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
	"github.com/throttle-go/throttle/pace"
)

// A few calls are refused whatever the rate, as those of a user whose own quota is used up, or of
// one hot partition. They are retried until they are given up, and hold up no others: once it has
// shown, their refusals neither slow down the rest nor make it wait for their Retry-After. Nor are
// they retried all the time.
func TestCallsRefusedForThemselves(t *testing.T) {
	bubble.Long(t)
	for _, c := range []struct {
		after       time.Duration // Retry-After of their refusals
		part        float64       // of all calls
		rate        float64       // calls a second
		gaveUp      float64       // share of the other calls, at most
		p99         time.Duration // of their waits, at most
		triesOfEach int           // of a refused call in its minute, at most
	}{
		{0, 0.0005, 1, 0, time.Second, 20},
		{0, 0.0005, 20, 0, time.Second, 20},
		{0, 0.005, 1, 0, 10 * time.Second, 20},
		{0, 0.005, 20, 0, time.Second, 20},
		{0, 0.005, 200, 0, time.Second, 20},
		{0, 0.05, 20, 0, 3 * time.Second, 20},
		{10 * time.Second, 0.0005, 20, 0, 45 * time.Second, 7},
		{10 * time.Second, 0.005, 20, 0.1, time.Minute, 7},
	} {
		bubble.Test(t, func(t *testing.T) {
			var (
				th                   throttle.Throttle
				all                  sync.WaitGroup
				mu                   sync.Mutex
				waits                []time.Duration
				gaveUp, refused, bad int
				random               = rand.New(rand.NewPCG(1, 1))
			)
			for range int(min(c.rate*1200, 20_000)) {
				time.Sleep(time.Duration(random.ExpFloat64() / c.rate * 1e9))
				own := random.Float64() < c.part
				if own {
					bad++
				}
				all.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					came := time.Now()
					err := th.DoResult(ctx, func(context.Context) throttle.Result {
						time.Sleep(100 * time.Millisecond)
						if !own {
							return throttle.Result{Report: pace.Report{Verdict: pace.Served}}
						}
						mu.Lock()
						defer mu.Unlock()
						refused++
						return throttle.Result{Report: pace.Report{Verdict: pace.Throttled, After: c.after}}
					})
					mu.Lock()
					defer mu.Unlock()
					if !own {
						waits = append(waits, time.Since(came))
					}
					if !own && err != nil {
						gaveUp++
					}
				})
			}
			all.Wait()
			slices.Sort(waits)
			p99 := waits[len(waits)*99/100]
			t.Logf("%v of calls at %v/s, Retry-After %v: of the others %d of %d gave up, p99 %v; %d refusals of %d calls", c.part, c.rate, c.after, gaveUp, len(waits), p99, refused, bad)
			if float64(gaveUp) > c.gaveUp*float64(len(waits)) || p99 > c.p99 || refused > c.triesOfEach*bad {
				t.Errorf("%v of calls at %v/s, Retry-After %v: of the others %d of %d gave up, p99 %v; %d refusals of %d calls; want at most %v, %v and %d of each",
					c.part, c.rate, c.after, gaveUp, len(waits), p99, refused, bad, c.gaveUp, c.p99, c.triesOfEach)
			}
		})
	}
}
