package throttle_test

import (
	"context"
	"errors"
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
					th.Do(throttle.With(ctx, throttle.Terms{Lane: lane}), func(context.Context) error {
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

func TestTermsOfACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th := &throttle.Throttle{Control: &pace.Fixed{Rate: 0.1}} // one in 10 s
		calls := 0
		call := func(context.Context) error { calls++; return throttle.Throttled(nil, 0) }
		var e *throttle.Error

		ctx := throttle.With(t.Context(), throttle.Terms{Once: true})
		began := time.Now()
		if err := th.Do(ctx, call); !errors.As(err, &e) || e.Reason != throttle.ErrTries || calls != 1 {
			t.Errorf("once: %v after %d calls, want ErrTries after 1", err, calls)
		}
		calls = 0
		ctx = throttle.With(t.Context(), throttle.Terms{MaxWait: 25 * time.Second})
		err := th.Do(ctx, call)
		if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &e) || e.Wait == 0 || calls != 2 {
			t.Errorf("at most 25 s: %v after %d calls, want DeadlineExceeded with the wait after 2", err, calls)
		}
		if took := time.Since(began); took != 20*time.Second {
			t.Errorf("it took %v, want 20s: it is known then that the third try comes too late", took)
		}
		calls = 0
		ctx = throttle.With(t.Context(), throttle.Terms{MaxWait: 5 * time.Second})
		if err := th.Do(ctx, call); !errors.Is(err, context.DeadlineExceeded) || calls != 0 {
			t.Errorf("at most 5 s: %v after %d calls, want DeadlineExceeded after none", err, calls)
		}
		ctx = throttle.With(t.Context(), throttle.Terms{MaxWait: 11 * time.Second})
		slow := func(ctx context.Context) error {
			time.Sleep(time.Hour) // runs on, whatever the wait may be
			return ctx.Err()
		}
		if err := th.Do(ctx, slow); err != nil {
			t.Errorf("a call of an hour that waited 10 s: %v", err)
		}
	})
}
