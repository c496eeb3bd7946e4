package throttle_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/load"
	"github.com/throttle-go/throttle/pace"
)

// A Throttle with a law keeps what is in flight near what a server of 32 workers
// works on, though 200 callers wait; without one all are in flight.
func TestConcurrency(t *testing.T) {
	bubble.Long(t)
	for _, c := range []struct {
		law         load.Law
		least, most int
	}{{new(load.Adaptive), 28, 60}, {nil, 200, 200}} {
		bubble.Test(t, func(t *testing.T) {
			th := throttle.Throttle{Control: new(pace.Fixed), Concurrency: c.law}
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			workers := make(chan struct{}, 32)
			var all sync.WaitGroup
			for range 200 {
				all.Go(func() {
					for ctx.Err() == nil {
						err := th.Do(ctx, func(context.Context) error {
							workers <- struct{}{}
							time.Sleep(10 * time.Millisecond)
							<-workers
							return nil
						})
						if err != nil && !errors.Is(err, context.DeadlineExceeded) {
							t.Error(err)
						}
					}
				})
			}
			time.Sleep(9*time.Second + 5*time.Millisecond) // between two ends
			if got := th.InFlight(); got < c.least || got > c.most {
				t.Errorf("law %T: %d in flight, limit %d; want %d to %d", c.law, got, th.Limit(), c.least, c.most)
			}
			all.Wait()
			if th.InFlight() != 0 || th.Waiting() != 0 {
				t.Errorf("law %T: %d in flight and %d wait at the end, want none", c.law, th.InFlight(), th.Waiting())
			}
		})
	}
}
