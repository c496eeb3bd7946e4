package throttle_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/pace"
)

// A server that hangs while all places in flight are taken says nothing of its rate: once
// it is back it serves as many as before.
func TestHangWithAllPlacesTaken(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var (
			th     = throttle.Throttle{MaxInFlight: 4}
			server = limited{limit: limit.Limit{Count: 200, Period: time.Second, Burst: 100}}
			mu     sync.Mutex
			began  = time.Now()
			served = map[int]int{} // by ten seconds
			all    sync.WaitGroup
		)
		call := func(context.Context) throttle.Result {
			time.Sleep(time.Millisecond)
			if time.Since(began) >= 20*time.Second { // it hangs
				time.Sleep(time.Until(began.Add(80 * time.Second)))
			}
			r := server.take()
			r.Report.Hints = pace.Hints{}
			return r
		}
		for range 20 {
			all.Go(func() {
				for time.Since(began) < 2*time.Minute {
					if th.DoResult(t.Context(), call) == nil {
						mu.Lock()
						served[int(time.Since(began)/(10*time.Second))]++
						mu.Unlock()
					}
				}
			})
		}
		all.Wait()
		for _, i := range []int{1, 9, 10, 11} {
			if served[i] < 1800 {
				t.Errorf("%d served in the 10 s after %d s, want 1800 of 2000", served[i], 10*i)
			}
		}
	})
}
