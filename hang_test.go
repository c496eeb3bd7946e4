package throttle_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttle-go/throttle"
)

// A call that never ends holds up the others for a second, not for ever.
func TestFirstCallHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
	synctest.Test(t, func(t *testing.T) {
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
		// As docs/client.md says.
		for i, want := range []int32{1, 3, 6, 10, 16} {
			synctest.Wait()
			if got := out.Load(); got != want {
				t.Errorf("after %d s %d calls are out, want %d", i, got, want)
			}
			time.Sleep(time.Second)
		}
		time.Sleep(10*time.Second + time.Millisecond)
		if got := out.Load(); got != 500 {
			t.Errorf("after 15 s %d calls are out, want all 500", got)
		}
		cancel()
	})
}

// What is refused before the second is over stops the others, as ever.
func TestFirstFlightRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th := throttle.Throttle{Tries: 1}
		var calls, refused atomic.Int32
		for range 10 {
			go th.Do(t.Context(), func(context.Context) error {
				calls.Add(1)
				time.Sleep(900 * time.Millisecond)
				refused.Add(1)
				return throttle.Throttled(nil, time.Minute)
			})
		}
		time.Sleep(5 * time.Second)
		if calls.Load() != 1 || refused.Load() != 1 {
			t.Errorf("an exhausted quota cost %d calls, want 1", calls.Load())
		}
		time.Sleep(time.Hour)
	})
}
