package throttleredis

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
)

// TestCheckOfManySlots: over a network in which an answer takes 20 ms, all slots are
// asked for within the 5 s of a program that checks at its start.
func TestCheckOfManySlots(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var inFlight, most, fences atomic.Int64
		s := &Store{Slots: 1024, Do: func(ctx context.Context, args ...any) (any, error) {
			most.Store(max(most.Load(), inFlight.Add(1)))
			defer inFlight.Add(-1)
			select {
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			if args[0] == "EVALSHA" {
				fences.Add(1)
				return answered(late, ""), nil
			}
			if args[1] == luaInfo {
				return "redis_version:7.0.0\r\nmaxmemory:0\r\n", nil
			}
			return "", nil
		}}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := s.Check(ctx); err != nil || fences.Load() != 1024 {
			t.Errorf("Check met %d of 1024 slots: %v", fences.Load(), err)
		}
		if n := most.Load(); n > slotsAtOnce {
			t.Errorf("%d calls at once, want %d at most", n, slotsAtOnce)
		}
	})
}

// TestEachEnds: a call that fails, panics or ends its goroutine is an error, and no others
// are made once it is known.
func TestEachEnds(t *testing.T) {
	broken := errors.New("broken")
	for want, f := range map[string]func(){"broken": nil, "the client panicked: 7": func() { panic(7) }, "runtime.Goexit": runtime.Goexit} {
		var calls atomic.Int64
		err := each(10_000, func(i int) error {
			if calls.Add(1); i < 100 {
				return nil
			}
			if f != nil {
				f()
			}
			return broken
		})
		if err == nil || !strings.Contains(err.Error(), want) || calls.Load() > 100+slotsAtOnce {
			t.Errorf("after %d of 10,000 calls: %v, want %q", calls.Load(), err, want)
		}
	}
}
