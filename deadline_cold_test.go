package throttle_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
)

// Where a server refuses all calls at first, and nothing has been answered yet, the turns that
// come seldom go to calls with time left for an answer: it is served again once it is back.
func TestDeadlinesAfterARefusedStart(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var th throttle.Throttle
		var served atomic.Int64
		began := time.Now()
		refused := errors.New("no")
		for time.Since(began) < 4*time.Minute {
			time.Sleep(9 * time.Millisecond)
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				err := th.Do(ctx, func(ctx context.Context) error {
					select {
					case <-time.After(100 * time.Millisecond):
					case <-ctx.Done():
						return ctx.Err()
					}
					if time.Since(began) < 35*time.Second {
						return throttle.Throttled(refused, 0)
					}
					return nil
				})
				if err == nil && time.Since(began) > 3*time.Minute {
					served.Add(1)
				}
			}()
		}
		if n := served.Load(); n < 5000 {
			t.Errorf("%d calls served in the last minute, want 5000 of 6666", n)
		}
	})
}

// endsLater is a context that ends after it was asked so often whether it has.
type endsLater struct {
	context.Context
	asks int
}

func (c *endsLater) Value(any) any { return nil }

func (c *endsLater) Err() error {
	if c.asks--; c.asks < 0 {
		return context.Canceled
	}
	return nil
}

// An Error has a Reason also when the context ends while the call is given up for MaxWait.
func TestReasonWhenAContextEndsMeanwhile(t *testing.T) {
	for asks := range 8 {
		bubble.Test(t, func(t *testing.T) {
			th := &throttle.Throttle{MaxInFlight: 1, MaxWait: time.Second}
			go th.Do(t.Context(), func(context.Context) error { time.Sleep(time.Minute); return nil })
			time.Sleep(time.Millisecond)
			err := th.Do(&endsLater{t.Context(), asks}, func(context.Context) error { return nil })
			var e *throttle.Error
			if !errors.As(err, &e) || e.Reason == nil {
				t.Errorf("ends after %d asks: %v, want an Error with a Reason", asks, err)
			}
			time.Sleep(time.Minute)
		})
	}
}
