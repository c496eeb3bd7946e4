package throttle_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/pace"
)

// The reset that a token bucket states is when it would be full, and moves on with every request.
// Where nothing remains, and the server asks for no delay, there is something long before: callers
// do not stop until then.
func TestResetOfABucketIsNoRetryAfter(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const rate, burst = 10, 6000
		var (
			mu              sync.Mutex
			all             sync.WaitGroup
			state           limit.State
			began           = time.Now()
			served, refused int
		)
		answer := func(context.Context) throttle.Result {
			time.Sleep(5 * time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			var d limit.Decision
			state, d = limit.Take(state, time.Now(), limit.Ask{Limit: limit.Limit{Count: rate, Period: time.Second, Burst: burst}, N: 1})
			r := pace.Report{Verdict: pace.Served, Hints: pace.Hints{Remaining: pace.Some(d.Remaining), Reset: pace.Some(d.ResetAfter)}}
			if !d.OK {
				r.Verdict = pace.Throttled
				refused++
			}
			if since := time.Since(began); d.OK && since > 2*time.Minute && since < 10*time.Minute {
				served++
			}
			return throttle.Result{Report: r}
		}
		for range 3 {
			th := new(throttle.Throttle)
			for range 4 {
				all.Go(func() {
					for time.Since(began) < 10*time.Minute {
						if err := th.DoResult(t.Context(), answer); err != nil {
							t.Error(err)
						}
					}
				})
			}
		}
		all.Wait()
		if most := 8 * 60 * rate; served < most*8/10 || refused > most/20 {
			t.Errorf("%d of %d served in eight minutes, %d refused in ten; want %d at least, and %d at most", served, most, refused, most*8/10, most/20)
		} else {
			t.Logf("%d of %d served, %d refused", served, most, refused)
		}
	})
}
