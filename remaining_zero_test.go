package throttle_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/pace"
)

// A service states a policy of 200 a second, says with each answer that nothing remains, and
// serves all: what it says is not believed for hours.
func TestNothingRemainsForEver(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var th throttle.Throttle
		var served atomic.Int64
		began := time.Now()
		hints := pace.Hints{Limit: pace.Some(int64(200)), Window: pace.Some(time.Second), Remaining: pace.Some(int64(0))}
		for time.Since(began) < 2*time.Minute {
			time.Sleep(10 * time.Millisecond)
			go th.DoResult(t.Context(), func(context.Context) throttle.Result {
				time.Sleep(20 * time.Millisecond)
				served.Add(1)
				return throttle.Result{Report: pace.Report{Verdict: pace.Served, Hints: hints}}
			})
		}
		if n := served.Load(); n < 6000 {
			t.Errorf("%d of 12000 calls served in two minutes, want half at least", n)
		}
		time.Sleep(3 * time.Hour)
	})
}
