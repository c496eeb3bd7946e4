package throttle_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/pace"
)

// TestUnsureRests: a plain 503 that slows nothing down is retried after a rest, as a failure
// is, and not at once: so a call outlives a short fault.
func TestUnsureRests(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		api := throttle.Throttle{Backoff: pace.Backoff{Base: time.Second, Jitter: pace.EqualJitter}}
		var at []time.Duration
		start := time.Now()
		err := api.DoResult(t.Context(), func(context.Context) throttle.Result {
			at = append(at, time.Since(start))
			if len(at) <= 3 {
				return throttle.Result{Report: pace.Report{Verdict: pace.Throttled, Unsure: true}, Err: errors.New("503")}
			}
			return throttle.Result{}
		})
		for i := 1; i < len(at); i++ {
			if rest := at[i] - at[i-1]; rest < time.Second/2<<(i-1) {
				t.Errorf("try %d came %v after the one before; want at least %v", i+1, rest, time.Second/2<<(i-1))
			}
		}
		if err != nil || len(at) != 4 {
			t.Errorf("%d tries at %v: %v; want 4", len(at), at, err)
		}
	})
}
