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
)

// The time in which calls fail, or teach nothing, says nothing of the limit: after an
// outage it is used as before, and the first refusal cuts no deeper than others.
func TestLimitAfterAnOutage(t *testing.T) {
	for name, down := range map[string]func(error) error{"failed": throttle.Failed, "ignored": throttle.Ignore} {
		bubble.Test(t, func(t *testing.T) {
			var server memory.Store
			var mu sync.Mutex
			broken, served, refused := false, 0, 0
			call := func(ctx context.Context) error {
				time.Sleep(20 * time.Millisecond)
				mu.Lock()
				defer mu.Unlock()
				if broken {
					return down(errors.New("down"))
				}
				d := make([]limit.Decision, 1)
				ok, err := server.Take(ctx, []limit.Ask{{Key: "api", Limit: limit.Limit{Count: 10, Period: time.Second, Burst: 20}, N: 1}}, d)
				if !ok {
					refused++
					return throttle.Throttled(err, 0)
				}
				served++
				return err
			}
			ctx, stop := context.WithCancel(t.Context())
			var all sync.WaitGroup
			defer func() { stop(); all.Wait() }()
			api := throttle.Throttle{OnEvent: func(throttle.Event) {}}
			for range 8 {
				all.Go(func() {
					for ctx.Err() == nil {
						_ = api.Do(ctx, call)
					}
				})
			}
			set := func(to bool) {
				mu.Lock()
				defer mu.Unlock()
				broken, served, refused = to, 0, 0
			}
			time.Sleep(5 * time.Minute)
			set(true)
			time.Sleep(10 * time.Minute)
			set(false)
			time.Sleep(5 * time.Minute)
			mu.Lock()
			defer mu.Unlock()
			t.Logf("%s: %d served and %d refused in five minutes after an outage of ten, at 10 a second", name, served, refused)
			if served < 2850 || refused > 30 {
				t.Errorf("%s: %d served and %d refused in five minutes after an outage of ten, at 10 a second; want 2850 and at most 30", name, served, refused)
			}
		})
	}
}
