package throttle_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/pace"
)

// Credit for calls that were cancelled is kept for a second, also where the Store has no
// more for long: kept until then, it would be of another time.
func TestFleetKeepsNoIdleCredit(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := &far{store: new(memory.Store), trip: 5 * time.Millisecond}
		l := limit.Limit{Count: 1, Period: 10 * time.Second, Burst: 3}
		th := &throttle.Throttle{Control: &pace.Fixed{Rate: 4}, Fleet: throttle.Fleet{Store: f, Key: "api", Limit: l}}
		ctx, cancel := context.WithCancel(t.Context())
		for range 5 {
			go th.Do(ctx, nothing)
		}
		time.Sleep(100 * time.Millisecond)
		cancel()
		for _, step := range []struct {
			after time.Duration
			want  error
		}{{500 * time.Millisecond, nil}, {5 * time.Second, throttle.ErrWouldWait}} {
			time.Sleep(step.after)
			if err := th.Try(t.Context(), nothing); !errors.Is(err, step.want) {
				t.Errorf("Try after %v more: %v, want %v; the Store was asked %d times", step.after, err, step.want, f.asked.Load())
			}
		}
	})
}
