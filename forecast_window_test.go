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

// A window of 100 in ten minutes is used up, and opens again as its reset says. All who wait
// for it are forecast to wait until then and a little more, not for hours.
func TestForecastAcrossAWindow(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const quota, window = 100, 10 * time.Minute
		var (
			th    throttle.Throttle
			mu    sync.Mutex
			all   sync.WaitGroup
			began = time.Now()
			used  int
			at    time.Duration
		)
		call := func(context.Context) throttle.Result {
			time.Sleep(50 * time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			el := time.Since(began)
			if n := el / window; n*window > at {
				at, used = n*window, 0
			}
			r := pace.Report{Verdict: pace.Throttled}
			if used < quota {
				used, r.Verdict = used+1, pace.Served
			}
			r.Hints = pace.Hints{Limit: pace.Some(int64(quota)), Window: pace.Some(window), Remaining: pace.Some(int64(quota - used)), Reset: pace.Some(at + window - el)}
			return throttle.Result{Report: r}
		}
		for range 150 {
			all.Go(func() { _ = th.DoResult(t.Context(), call) })
		}
		time.Sleep(3 * time.Minute) // 100 are served, 50 wait
		if f := th.Forecast(51); f < 7*time.Minute || f > 17*time.Minute {
			t.Errorf("the 51st in line is forecast to wait %v, want 7 to 17 min", f)
		}
		err := th.DoResult(t.Context(), call) // MaxWait is an hour
		var e *throttle.Error
		if errors.As(err, &e) {
			t.Errorf("a call that 7 minutes would do for: %v", err)
		}
		all.Wait()
	})
}
