package throttle_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/pace"
)

// A higher bound starts waiting calls at once; under a lower one none starts
// until fewer are in flight, and those that are go on.
func TestSetMaxInFlight(t *testing.T) {
	for _, resting := range []bool{false, true} {
		bubble.Test(t, func(t *testing.T) {
			th := throttle.Throttle{Control: new(pace.Backoff), MaxInFlight: 2, CountResting: resting}
			end := make(chan struct{})
			var calls sync.WaitGroup
			for range 10 {
				calls.Go(func() {
					if err := th.Do(t.Context(), func(context.Context) error { <-end; return nil }); err != nil {
						t.Error(err)
					}
				})
			}
			want := func(inFlight, waiting int, when string) {
				t.Helper()
				synctest.Wait()
				if th.InFlight() != inFlight || th.Waiting() != waiting {
					t.Errorf("CountResting %v: %s: %d in flight, %d wait; want %d, %d", resting, when, th.InFlight(), th.Waiting(), inFlight, waiting)
				}
			}
			want(2, 8, "bound 2")
			th.SetMaxInFlight(5)
			want(5, 5, "raised to 5")
			th.SetMaxInFlight(3)
			want(5, 5, "lowered to 3")
			end <- struct{}{}
			end <- struct{}{}
			want(3, 5, "two ended")
			end <- struct{}{}
			want(3, 4, "a third ended, and one started")
			th.SetMaxInFlight(0)
			want(7, 0, "no bound")
			close(end)
			calls.Wait()
			if took := time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)); took != 0 {
				t.Errorf("it took %v; want no time", took)
			}
		})
	}
}

// SetMaxInFlight comes before the first call too, and says why a call waits.
func TestSetMaxInFlightBeforeTheFirstCall(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var th throttle.Throttle
		th.SetMaxInFlight(1)
		end := make(chan struct{})
		go th.Do(t.Context(), func(context.Context) error { <-end; return nil })
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := th.Do(ctx, nothing)
		e, ok := err.(*throttle.Error)
		if !ok || e.Why.InFlight != 1 || e.Tries != 0 {
			t.Errorf("Do = %v; want it given up with 1 in flight", err)
		}
		close(end)
	})
}

// The bound holds at each instant while it is changed under callers.
func TestSetMaxInFlightRaces(t *testing.T) {
	th := throttle.Throttle{Control: new(pace.Backoff), MaxInFlight: 1}
	const most = 4
	var inFlight, over atomic.Int64
	var calls sync.WaitGroup
	for range 8 {
		calls.Go(func() {
			for range 200 {
				_ = th.Do(t.Context(), func(context.Context) error {
					if inFlight.Add(1) > most {
						over.Add(1)
					}
					inFlight.Add(-1)
					return nil
				})
			}
		})
	}
	for i := range 400 {
		th.SetMaxInFlight(1 + i%most)
	}
	calls.Wait()
	if over.Load() > 0 || th.InFlight() != 0 || th.Waiting() != 0 {
		t.Errorf("%d starts over the bound, %d in flight, %d wait; want none", over.Load(), th.InFlight(), th.Waiting())
	}
}

// A retry that has to wait for a place alone waits for an unknown time, and says so.
func TestRetryUnderALowerBound(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var waits []time.Duration
		th := throttle.Throttle{Control: pace.All(nil), MaxInFlight: 2, OnEvent: func(e throttle.Event) {
			if e.Kind == throttle.Waits {
				waits = append(waits, e.Wait)
			}
		}}
		end := make(chan struct{})
		var calls sync.WaitGroup
		calls.Go(func() { _ = th.Do(t.Context(), func(context.Context) error { <-end; return nil }) })
		synctest.Wait()
		tries := 0
		calls.Go(func() {
			_ = th.Do(t.Context(), func(context.Context) error {
				if tries++; tries > 1 {
					return nil
				}
				th.SetMaxInFlight(1)
				return throttle.Throttled(nil, 0)
			})
		})
		synctest.Wait()
		if tries != 1 || len(waits) != 1 || waits[0] != pace.Never {
			t.Errorf("after %d tries it waits for %v, want one try and an unknown wait", tries, waits)
		}
		close(end)
		calls.Wait()
	})
}
