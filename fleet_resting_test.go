package throttle_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/pace"
)

// Where calls that wait for a retry hold all places, the retries are paid for, not
// the cheaper calls that may not start before them.
func TestFleetPaysForRetriesThatHoldThePlaces(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var m memory.Store
		api := throttle.Throttle{
			Control: &pace.Fixed{Rate: 1}, MaxInFlight: 1, CountResting: true,
			Fleet: throttle.Fleet{Store: &m, Key: "api", Limit: limit.Limit{Count: 100, Period: time.Second}},
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		var all sync.WaitGroup
		for i, o := range []throttle.CallOptions{{Key: "a", Cost: 50}, {Key: "b"}, {Key: "c"}} {
			time.Sleep(time.Millisecond)
			all.Go(func() {
				tries := 0
				err := api.Do(throttle.WithOptions(ctx, o), func(context.Context) error {
					time.Sleep(time.Second)
					if tries++; tries == 1 && i == 0 {
						return throttle.Failed(errors.New("reset"))
					}
					return nil
				})
				if err != nil {
					t.Errorf("call %s: %v", o.Key, err)
				}
			})
		}
		all.Wait()
	})
}
