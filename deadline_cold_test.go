package throttle_test

import (
	"context"
	"errors"
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
		began, served := time.Now(), 0
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
					served++
				}
			}()
		}
		if served < 5000 {
			t.Errorf("%d calls served in the last minute, want 5000 of 6666", served)
		}
	})
}
