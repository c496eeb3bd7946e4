package throttle_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/pace"
)

// rarelyTold calls an API of quota requests in ten seconds by eight workers, whose answers tell
// of the limit only once so much of the quota is used, and returns what was served from the
// fourth minute to the twelfth, as a share of what could be.
func rarelyTold(t *testing.T, quota int, from float64) float64 {
	var mu sync.Mutex
	var end time.Time
	used, served := 0, 0
	api := &throttle.Throttle{}
	begun := time.Now()
	call := func(context.Context) throttle.Result {
		time.Sleep(20 * time.Millisecond)
		mu.Lock()
		defer mu.Unlock()
		now := time.Now()
		if !now.Before(end) {
			end, used = now.Truncate(10*time.Second).Add(10*time.Second), 0
		}
		if used++; used > quota {
			return throttle.Result{Report: pace.Report{Verdict: pace.Throttled, After: end.Sub(now)}, Err: errors.New("refused")}
		}
		if now.Sub(begun) > 4*time.Minute {
			served++
		}
		r := pace.Report{Verdict: pace.Served}
		if float64(used) > from*float64(quota) {
			r.Hints = pace.Hints{Limit: pace.Some(int64(quota)), Remaining: pace.Some(int64(quota - used)), Reset: pace.Some(end.Sub(now))}
		}
		return throttle.Result{Report: r}
	}
	ctx, stop := context.WithCancel(t.Context()) // without a deadline, which would refuse the last at once
	time.AfterFunc(12*time.Minute, stop)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for ctx.Err() == nil {
				_ = api.DoResult(ctx, call)
			}
		})
	}
	all.Wait()
	return float64(served) / float64(48*quota)
}

// TestToldWhenLittleRemains: some servers tell of a limit only once most of it is used. A window
// that answers do not show is not waited for, at five calls a second for good.
func TestToldWhenLittleRemains(t *testing.T) {
	bubble.Long(t)
	for _, quota := range []int{100, 200, 500} {
		for _, from := range []float64{0, 0.5, 0.8, 0.95} {
			bubble.Test(t, func(t *testing.T) {
				if share := rarelyTold(t, quota, from); share < 0.85 {
					t.Errorf("%d in ten seconds, told from %.2f on: %.2f of it served; want at least 0.85", quota, from, share)
				}
			})
		}
	}
}
