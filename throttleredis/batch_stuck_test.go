package throttleredis

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
)

// TestBatchStuck: calls that hang hold up neither those that wait nor those that
// come later for long, and those that wait share calls.
func TestBatchStuck(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		do := &slow{hangs: true}
		s := &Store{Do: do.Do}
		hang, thaw := context.WithCancel(t.Context())
		var all, others sync.WaitGroup
		for range usualCalls {
			all.Go(func() { one(hang, s, "first") })
		}
		synctest.Wait()
		do.mu.Lock()
		do.hangs = false
		do.mu.Unlock()
		for i := range 200 {
			others.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				began := time.Now()
				if err := one(t.Context(), s, "a"); err != nil || time.Since(began) > stuckAfter+2*roundTrip {
					t.Errorf("answered after %v, %v; want within %v", time.Since(began), err, stuckAfter+2*roundTrip)
				}
			})
		}
		others.Wait()
		if calls := len(do.keys) - usualCalls; calls > 100 || do.most > 2*usualCalls {
			t.Errorf("%d calls for 200, %d at once; want 100 and %d at most", calls, do.most, 2*usualCalls)
		}
		thaw()
		all.Wait()
		if sl, err := s.slot(0); err != nil || sl.inFlight != 0 || sl.stuck != 0 {
			t.Errorf("%d and %d calls are in flight, %v; want none", sl.inFlight, sl.stuck, err)
		}
	})
}

// TestBatchStuckMost: where all calls hang, at most maxCalls are made.
func TestBatchStuckMost(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		do := &slow{hangs: true}
		s := &Store{Do: do.Do}
		hang, thaw := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range 1000 {
			all.Go(func() { one(hang, s, "a") })
			time.Sleep(time.Millisecond)
		}
		thaw()
		all.Wait()
		synctest.Wait()
		if do.most != maxCalls {
			t.Errorf("%d calls hung, want %d", do.most, maxCalls)
		}
		if sl, err := s.slot(0); err != nil || sl.inFlight != 0 || sl.stuck != 0 {
			t.Errorf("%d and %d calls are in flight, %v; want none", sl.inFlight, sl.stuck, err)
		}
	})
}
