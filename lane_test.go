package throttle_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/pace"
)

func TestLanes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th := &throttle.Throttle{Control: &pace.Fixed{Rate: 10}, Lanes: []float64{1, 4}}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var mu sync.Mutex
		var all sync.WaitGroup
		calls := map[int]int{}
		for lane := range 2 {
			for range 100 {
				all.Go(func() {
					th.Do(throttle.InLane(ctx, lane), func(context.Context) error {
						mu.Lock()
						defer mu.Unlock()
						if calls[0]+calls[1] < 50 {
							calls[lane]++
						}
						return nil
					})
				})
			}
		}
		all.Wait()
		if calls[0] < 9 || calls[0] > 11 {
			t.Errorf("of the first 50 calls %d were in lane 0 and %d in lane 1, want 10 and 40", calls[0], calls[1])
		}
	})
}
