package worker_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/worker"
)

// resting is a Worker whose records, each of which is its offset, rest for as long as it
// says of them once, and are done then. at is when.
func resting(rests map[record]time.Duration, at map[record]time.Duration) *worker.Worker[record] {
	began := time.Now()
	return &worker.Worker[record]{
		Throttle: free(), Offset: offset, MaxInFlight: 1,
		Handle: func(_ context.Context, r record) error {
			if rest, ok := rests[r]; ok {
				delete(rests, r)
				return throttle.Throttled(errors.New("busy"), rest)
			}
			at[r] = time.Since(began)
			return nil
		},
	}
}

// The records of an assignment are retried on time, also when others that rested between
// them are dropped as their assignment ends.
func TestRestsOfOthersEnd(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s, at := time.Second, map[record]time.Duration{}
		w := resting(map[record]time.Duration{0: s, 10: 10 * s, 2: 2 * s, 11: 11 * s, 12: 12 * s, 13: 3 * s, 14: 4 * s}, at)
		ctx, cancel := context.WithCancelCause(t.Context())
		a, b := w.Assign(ctx, "a", 0), w.Assign(t.Context(), "b", 10)
		for _, r := range []record{0, 10, 2, 11, 12, 13, 14} {
			if to := map[bool]*worker.Assignment[record]{true: a, false: b}[r < 10]; to.Add(r) != 1 {
				t.Fatalf("%d is not accepted", r)
			}
			synctest.Wait()
		}
		cancel(errors.New("ended"))
		if err := b.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		for r, want := range map[record]time.Duration{10: 10 * s, 11: 11 * s, 12: 12 * s, 13: 3 * s, 14: 4 * s} {
			if at[r] != want {
				t.Errorf("%d was done after %v, want %v", r, at[r], want)
			}
		}
	})
}

// Drain lets the records that were tried end, and those below them, also where a lower one
// was tried last.
func TestDrainAfterARetryOfALowerOne(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		at := map[record]time.Duration{}
		w := resting(map[record]time.Duration{0: time.Second, 1: 5 * time.Second}, at)
		a := w.Assign(t.Context(), "a", 0)
		put(t, a, 0, 2)
		time.Sleep(2 * time.Second)
		if err := w.Drain(t.Context()); err != nil || at[1] != 5*time.Second {
			t.Errorf("Drain = %v, and the records were done at %v; want both, the second after 5s", err, at)
		}
		frontier(t, a, 2)
	})
}

// A Handle that ends its goroutine holds up no other record.
func TestGoexitBeforeOthers(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var tried []record
		w := worker.Worker[record]{Throttle: free(), Offset: offset, MaxInFlight: 1, Handle: func(_ context.Context, r record) error {
			if tried = append(tried, r); len(tried) == 1 {
				runtime.Goexit()
			}
			return nil
		}}
		a := w.Assign(t.Context(), "a", 0)
		put(t, a, 0, 3)
		synctest.Wait()
		if want := []record{0, 1, 2}; !slices.Equal(tried, want) {
			t.Errorf("at once %v were tried, want %v", tried, want)
		}
		if err := a.Wait(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Fields below zero mean their defaults.
func TestFieldsBelowZero(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := worker.Worker[record]{
			Throttle: free(), Window: -1, MaxBytes: -1, MaxInFlight: -1, Timeout: -1,
			Size: func(record) int { return 1 }, Handle: func(context.Context, record) error { return nil },
		}
		a := w.Assign(t.Context(), "a", 0)
		put(t, a, 0, 100)
		soon, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := a.Wait(soon); err != nil || w.Stats().Limit != 1000 {
			t.Errorf("%v: %+v", err, w.Stats())
		}
	})
}
