package store_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
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
