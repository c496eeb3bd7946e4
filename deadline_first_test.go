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

// The first callers of a service that states its policy have little time: they wait for the
// answers before them, as those come in time, and none is turned away.
func TestFirstCallersWithDeadlines(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var th throttle.Throttle
		hints := pace.Hints{Limit: pace.Some(int64(500)), Window: pace.Some(time.Second)}
		var failed atomic.Int32
		for range 20 {
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				for range 5 {
					err := th.DoResult(ctx, func(context.Context) throttle.Result {
						time.Sleep(20 * time.Millisecond)
						return throttle.Result{Report: pace.Report{Verdict: pace.Served, Hints: hints}}
					})
					if err != nil {
						failed.Add(1)
					}
				}
			}()
		}
		time.Sleep(3 * time.Second)
		if n := failed.Load(); n > 0 {
			t.Errorf("%d of 100 calls with two seconds each were turned away; want none", n)
		}
	})
}
