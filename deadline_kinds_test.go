package throttle_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/load"
	"github.com/throttle-go/throttle/pace"
)

// caller is a kind of callers: so many, who wait for so long each.
type caller struct {
	n        int
	patience time.Duration
}

// part has callers of several kinds call one kitchen, and returns of the calls of each
// kind that end in the second half of 20 s, which part was answered in time, and how many were
// answered a second.
func part(t *testing.T, th *throttle.Throttle, kinds ...caller) (inTime []float64, rate float64) {
	k, began := newKitchen(), time.Now()
	var all sync.WaitGroup
	answered, made := make([]atomic.Int64, len(kinds)), make([]atomic.Int64, len(kinds))
	for i, kind := range kinds {
		for range kind.n {
			all.Go(func() {
				for time.Since(began) < 20*time.Second {
					ctx, cancel := context.WithTimeout(t.Context(), kind.patience)
					err := th.Do(ctx, func(ctx context.Context) error { return k.call(ctx, 10*time.Millisecond) })
					cancel()
					if d := time.Since(began); d > 10*time.Second && d <= 20*time.Second {
						made[i].Add(1)
						if err == nil {
							answered[i].Add(1)
						}
					}
					time.Sleep(20 * time.Millisecond)
				}
			})
		}
	}
	all.Wait()
	time.Sleep(time.Minute) // what was abandoned ends
	for i := range kinds {
		inTime = append(inTime, float64(answered[i].Load())/float64(made[i].Load()))
		rate += float64(answered[i].Load()) / 10
	}
	return inTime, rate
}

// Where callers of 100 ms and of 2 s wait in one line that is longer than 100 ms, and
// a server of 500 a second can serve all of them in time, it does. Where it cannot,
// neither kind is left with next to nothing.
func TestShortBesideLong(t *testing.T) {
	bubble.Long(t)
	for _, c := range []struct {
		long, short           int
		leastLong, leastShort float64
	}{
		{512, 20, 0.98, 0.8},
		{900, 5, 0.95, 0.8},
		{900, 20, 0.6, 0.5},
		{1500, 20, 0.35, 0.5},
		{512, 60, 0.95, 0.3},
	} {
		for _, name := range []string{"8", "load.Adaptive"} {
			bubble.Test(t, func(t *testing.T) {
				th := &throttle.Throttle{Control: new(pace.Fixed), MaxInFlight: 8}
				if name != "8" {
					th = &throttle.Throttle{Control: new(pace.Fixed), Concurrency: new(load.Adaptive)}
				}
				got, rate := part(t, th, caller{c.long, 2 * time.Second}, caller{c.short, 100 * time.Millisecond})
				t.Logf("| %d of 2 s, %d of 100 ms | %s | %.0f %% | %.0f %% | %.0f |", c.long, c.short, name, 100*got[0], 100*got[1], rate)
				if got[0] < c.leastLong || got[1] < c.leastShort || rate < 450 {
					t.Errorf("%d callers of 2 s and %d of 100 ms, %s in flight: %.2f and %.2f in time, %.0f/s; want %.2f, %.2f and 450/s", c.long, c.short, name, got[0], got[1], rate, c.leastLong, c.leastShort)
				}
			})
		}
	}
}
