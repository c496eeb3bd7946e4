package store_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/store"
)

// An answer in time that no caller waits for any more closes the breaker. The next
// decision calls OnState with nil, once, and the last error stays known.
func TestGuardAnswersInTimeWithoutACaller(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := new(fickle)
		s.set(down)
		var told []error
		g := &store.Guard{Store: s, OnState: func(err error) { told = append(told, err) }}
		for range 5 {
			ask(t, g, "k", 0)
		}
		time.Sleep(250 * ms)
		s.set(func(context.Context) error {
			time.Sleep(5 * ms)
			return nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), ms) // of the probe
		defer cancel()
		d, err := store.Take(ctx, g, "k", perMinute, 1)
		if before := g.Stats(); !d.OK || err != nil || !before.Away {
			t.Fatalf("the probe: %+v, %v, Stats() = %+v; want a decision by the share, and away", d, err, before)
		}
		time.Sleep(10 * ms)
		told = nil
		if c := g.Stats(); c.Away || !c.AwaySince.IsZero() || !errors.Is(c.LastErr, context.DeadlineExceeded) {
			t.Errorf("after the answer Stats() = %+v, want closed, and the last error", c)
		}
		for range 3 {
			ask(t, g, "k", 0)
		}
		if c := g.Stats(); len(told) != 1 || told[0] != nil || c.Decided != 3 || c.LastErr == nil {
			t.Errorf("OnState was called with %v, Stats() = %+v; want it with nil, once", told, c)
		}
	})
}

// Any answer closes the breaker, also a late one to a call from before it opened.
func TestGuardClosesByAnAnswerFromBefore(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := new(fickle)
		g := &store.Guard{Store: s}
		s.set(func(context.Context) error {
			time.Sleep(110 * ms)
			return nil
		})
		ask(t, g, "k", 0)
		s.set(down)
		for range 5 {
			ask(t, g, "k", 0)
		}
		s.set(nil)
		asked := s.asked.Load()
		if ask(t, g, "k", 0); !g.Stats().Away || s.asked.Load() != asked {
			t.Fatalf("after 5 errors Stats() = %+v, want away", g.Stats())
		}
		time.Sleep(100 * ms) // before any probe
		if ask(t, g, "k", 0); g.Stats().Away || s.asked.Load() != asked+1 {
			t.Errorf("after a late answer Stats() = %+v, want it closed", g.Stats())
		}
	})
}

// The error of a call that nobody waits for any more is the last one too.
func TestGuardKeepsTheErrorOfALateCall(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := new(fickle)
		s.set(func(context.Context) error {
			time.Sleep(time.Second)
			return errDown
		})
		g := &store.Guard{Store: s}
		ask(t, g, "k", 0)
		if c := g.Stats(); !errors.Is(c.LastErr, context.DeadlineExceeded) {
			t.Errorf("after the Timeout LastErr is %v, want that there was no answer", c.LastErr)
		}
		time.Sleep(time.Second)
		if c := g.Stats(); !errors.Is(c.LastErr, errDown) || c.Errors != 0 || c.Late != 1 {
			t.Errorf("after the answer Stats() = %+v, want the error, and one late", c)
		}
	})
}

// A call that waits for a place of MaxCalls waits until its own deadline, or until it
// is canceled.
func TestGuardWaitsForAPlace(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := new(fickle)
		s.set(func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		})
		g := &store.Guard{Store: s, MaxCalls: 1, Timeout: time.Second}
		go store.Take(t.Context(), g, "k", perMinute, 1)
		synctest.Wait()
		for _, patience := range []time.Duration{1, 5 * ms, 2 * time.Second} {
			for _, cancels := range []bool{false, true} {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				if cancels {
					ctx, cancel = context.WithCancel(t.Context())
					time.AfterFunc(patience, cancel)
				}
				began := time.Now()
				d, err := store.Take(ctx, g, "k", perMinute, 1)
				want := min(patience, time.Second)
				if took := time.Since(began); took != want || (err != nil) != (cancels && want == patience) || s.asked.Load() != 1 {
					t.Errorf("canceled: %v after %v: %+v, %v after %v; want an answer or an error after %v", cancels, patience, d, err, took, want)
				}
				cancel()
			}
		}
		time.Sleep(time.Minute)
	})
}

// With one of Failures, one call without an answer opens the breaker.
func TestGuardOpensAfterOne(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := new(fickle)
		s.set(func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		})
		g := &store.Guard{Store: s, Failures: 1}
		ask(t, g, "k", 0)
		began := time.Now()
		if ask(t, g, "k", 0); !g.Stats().Away || s.asked.Load() != 1 || time.Since(began) != 0 {
			t.Errorf("after one call without an answer the next took %v, %+v; want it not to wait", time.Since(began), g.Stats())
		}
		time.Sleep(time.Minute)
	})
}

// Fields below zero are as if they were zero.
func TestGuardFieldsBelowZero(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		g := &store.Guard{
			Store: new(memory.Store), Instances: -1, Timeout: -1, StoreTimeout: -1,
			Failures: -1, ProbeInterval: -1, MaxProbeInterval: -1, MaxCalls: -1,
		}
		for range 3 {
			if d := take(t, g, "k", perMinute, 1); !d.OK {
				t.Errorf("Take = %+v, want it admitted", d)
			}
		}
		if s := g.Stats(); s.Decided != 3 || s.Away || s.Slow {
			t.Errorf("Stats() = %+v, want 3 decided by the Store", s)
		}
	})
}
