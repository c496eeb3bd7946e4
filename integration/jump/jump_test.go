package jump

import (
	"context"
	"errors"
	"testing"
	"time"
)

// A wall clock that jumps is seen, and moves no monotonic reading, no timer and
// no deadline.
func TestWall(t *testing.T) {
	began := time.Now()
	for _, by := range []time.Duration{time.Hour, -time.Hour, 24 * time.Hour, -5 * time.Minute, 0} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		if err := Wall(by); errors.Is(err, ErrElsewhere) {
			t.Skip("NO CLOCK, this is NOT tested:", err)
		} else if err != nil {
			t.Fatalf("Wall(%v): %v", by, err)
		}
		now := time.Now()
		mono := now.Sub(began)
		if wall := now.Round(0).Sub(began.Round(0)); (wall - mono - by).Abs() > time.Second/2 {
			t.Errorf("after Wall(%v) the clock has gone by %v in %v", by, wall, mono)
		}
		if mono > time.Minute {
			t.Errorf("after Wall(%v) the monotonic clock has gone by %v", by, mono)
		}
		<-ctx.Done()
		if took := time.Since(now); took > time.Minute {
			t.Errorf("after Wall(%v) a deadline of 10 ms took %v", by, took)
		}
		cancel()
	}
}
