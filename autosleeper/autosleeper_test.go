package autosleeper

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/pace/peers"
)

// The published curve: from 1 ms, half as much again at each failure, nothing
// random: after 15 failures in a row 291.9 ms.
func TestAutoSleeperSleeps(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := Sleeper{Settings: peers.AutoSleeper{InitialInterval: time.Millisecond, UpMultiplier: 1.5}}
		var last, sum time.Duration
		for range 15 {
			began := time.Now()
			if err := s.SleepOnFailure(t.Context()); err != nil {
				t.Fatalf("SleepOnFailure = %v", err)
			}
			last = time.Since(began)
			sum += last
		}
		if got, want := last.Round(100*time.Microsecond), 291900*time.Microsecond; got != want {
			t.Errorf("15th sleep %v, want %v", got, want)
		}
		began := time.Now()
		if err := s.SleepOnSuccess(t.Context()); err != nil || time.Since(began) != last {
			t.Errorf("SleepOnSuccess = %v after %v, want nil after %v", err, time.Since(began), last)
		}
		m := s.Stats()
		if want := (peers.AutoSleeperStats{TotalInvocation: 16, TotalWentUp: 15, TotalSlept: 16, TotalSleepTime: sum + last}); m != want {
			t.Errorf("Metrics() = %+v, want %+v", m, want)
		}
	})
}

func TestAutoSleeperDoesNotSleepUnasked(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var s Sleeper
		began := time.Now()
		for range 100 {
			if err := s.SleepOnSuccess(t.Context()); err != nil || !time.Now().Equal(began) {
				t.Fatalf("SleepOnSuccess before any failure = %v after %v, want nil at once", err, time.Since(began))
			}
		}
	})
}

func TestAutoSleeperEndsWithItsContext(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var s Sleeper // first sleep 500 ms
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		began := time.Now()
		err := s.SleepOnFailure(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 100*time.Millisecond {
			t.Errorf("SleepOnFailure = %v after %v, want the deadline after 100ms", err, time.Since(began))
		}
		if err := s.SleepOnSuccess(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("SleepOnSuccess with a context that has ended = %v", err)
		}
	})
}

func TestAutoSleeperIsShared(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := Sleeper{Settings: peers.AutoSleeper{InitialInterval: time.Millisecond, MaxInterval: 10 * time.Millisecond}}
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				for range 20 {
					_ = s.SleepOnFailure(t.Context())
					_ = s.SleepOnSuccess(t.Context())
				}
			})
		}
		all.Wait()
		if m := s.Stats(); m.TotalInvocation != 2000 || m.TotalWentUp != 1000 {
			t.Errorf("Metrics() = %+v, want 2000 invocations, 1000 times up", m)
		}
	})
}
