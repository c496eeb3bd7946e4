package throttle_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
)

// A call that never ends holds up the others for a second, not for ever.
func TestFirstCallHangs(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var th throttle.Throttle
		begin := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		go th.Do(ctx, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		synctest.Wait()
		for i := range 20 {
			if err := th.Do(t.Context(), func(context.Context) error { return nil }); err != nil {
				t.Fatal(err)
			}
			if d := time.Since(begin); d > 1100*time.Millisecond {
				t.Fatalf("call %d beside one that hangs ended after %v, want within about a second", i+2, d)
			}
		}
		cancel()
	})
}

// Long polls are let out in growing numbers, though none of them is answered.
func TestLongPolls(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var th throttle.Throttle
		var out atomic.Int32
		ctx, cancel := context.WithCancel(t.Context())
		for range 500 {
			go th.Do(ctx, func(ctx context.Context) error {
				out.Add(1)
				<-ctx.Done()
				return ctx.Err()
			})
		}
		// A doubling each 0.35 s to eight, then one each 2 s.
		for i, want := range []int32{1, 7, 11, 15, 22} {
			synctest.Wait()
			if got := out.Load(); got != want {
				t.Errorf("after %d s %d calls are out, want %d", i, got, want)
			}
			time.Sleep(time.Second)
		}
		time.Sleep(8 * time.Second)
		synctest.Wait()
		if got := out.Load(); got != 500 {
			t.Errorf("after 13 s %d calls are out, want all 500", got)
		}
		cancel()
	})
}

// What is refused stops the others: those that have not been let out yet.
func TestFirstFlightRefused(t *testing.T) {
	for _, c := range []struct {
		took time.Duration
		want int32
	}{{300 * time.Millisecond, 1}, {500 * time.Millisecond, 2}, {900 * time.Millisecond, 5}, {5 * time.Second, 10}} {
		bubble.Test(t, func(t *testing.T) {
			th := throttle.Throttle{Tries: 1}
			var calls, refused atomic.Int32
			for range 10 {
				go th.Do(t.Context(), func(context.Context) error {
					calls.Add(1)
					time.Sleep(c.took)
					refused.Add(1)
					return throttle.Throttled(nil, time.Minute)
				})
			}
			time.Sleep(10 * time.Second)
			if calls.Load() != c.want || refused.Load() != c.want {
				t.Errorf("an exhausted quota that takes %v to refuse cost %d calls, want %d", c.took, calls.Load(), c.want)
			}
			time.Sleep(time.Hour)
		})
	}
}
