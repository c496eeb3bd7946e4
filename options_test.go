package throttle_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/load"
	"github.com/throttle-go/throttle/pace"
)

// While all wait, what starts stands as the weights do; a priority without a
// weight counts as Normal.
func TestWeights(t *testing.T) {
	for _, c := range []struct {
		weights map[load.Priority]float64
		waits   []load.Priority // 100 calls of each
		want    []int           // of the first 50
	}{
		{map[load.Priority]float64{load.High: 4}, []load.Priority{load.Normal, load.High}, []int{10, 40}},
		{map[load.Priority]float64{load.High: 4}, []load.Priority{0, load.High}, []int{10, 40}},
		{map[load.Priority]float64{load.Low: 1, load.Normal: 4}, []load.Priority{load.Low, 0}, []int{10, 40}},
		{map[load.Priority]float64{load.Low: 0.25}, []load.Priority{load.Low, load.Critical}, []int{10, 40}},
		{map[load.Priority]float64{load.Critical: 4}, []load.Priority{load.High, load.Critical}, []int{10, 40}},
		{map[load.Priority]float64{load.Critical: 4}, []load.Priority{load.Normal, 9}, []int{10, 40}},
		{
			map[load.Priority]float64{load.Low: 1, load.Normal: 2, load.High: 3, load.Critical: 4},
			[]load.Priority{load.Low, load.Normal, load.High, load.Critical},
			[]int{5, 10, 15, 20},
		},
	} {
		bubble.Test(t, func(t *testing.T) {
			th := &throttle.Throttle{Control: &pace.Fixed{Rate: 10}, Weights: c.weights}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			var mu sync.Mutex
			var all sync.WaitGroup
			sum, calls := 0, make([]int, len(c.waits))
			for i, p := range c.waits {
				for range 100 {
					all.Go(func() {
						th.Do(throttle.WithOptions(ctx, throttle.CallOptions{Priority: p}), func(context.Context) error {
							mu.Lock()
							defer mu.Unlock()
							if sum++; sum <= 50 {
								calls[i]++
							}
							return nil
						})
					})
				}
			}
			all.Wait()
			for i, want := range c.want {
				if calls[i] < want-1 || calls[i] > want+1 {
					t.Errorf("weights %v: of the first 50 calls %v had the priorities %v, want %v", c.weights, calls, c.waits, c.want)
					break
				}
			}
		})
	}
}

// Without weights all wait in one line, whatever their priority.
func TestNoWeights(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		th := &throttle.Throttle{Control: &pace.Fixed{Rate: 10}}
		var started []load.Priority
		want := []load.Priority{load.Low, load.Critical, 0, load.Normal, load.High, load.Low}
		for _, p := range want {
			go th.Do(throttle.WithOptions(t.Context(), throttle.CallOptions{Priority: p}), func(context.Context) error {
				started = append(started, p)
				return nil
			})
			synctest.Wait()
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if !slices.Equal(started, want) {
			t.Errorf("started in the order %v, want that of their arrival, %v", started, want)
		}
	})
}

func TestCallOptions(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		th := &throttle.Throttle{Control: &pace.Fixed{Rate: 0.1}} // one in 10 s
		calls := 0
		call := func(context.Context) error { calls++; return throttle.Throttled(nil, 0) }
		var e *throttle.Error

		ctx := throttle.WithOptions(t.Context(), throttle.CallOptions{Once: true})
		began := time.Now()
		if err := th.Do(ctx, call); !errors.As(err, &e) || e.Reason != throttle.ErrTries || calls != 1 {
			t.Errorf("once: %v after %d calls, want ErrTries after 1", err, calls)
		}
		calls = 0
		ctx = throttle.WithOptions(t.Context(), throttle.CallOptions{MaxWait: 25 * time.Second})
		err := th.Do(ctx, call)
		if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &e) || e.Wait == 0 || calls != 2 {
			t.Errorf("at most 25 s: %v after %d calls, want DeadlineExceeded with the wait after 2", err, calls)
		}
		if took := time.Since(began); took != 20*time.Second {
			t.Errorf("it took %v, want 20s: it is known then that the third try comes too late", took)
		}
		calls = 0
		ctx = throttle.WithOptions(t.Context(), throttle.CallOptions{MaxWait: 5 * time.Second})
		if err := th.Do(ctx, call); !errors.Is(err, context.DeadlineExceeded) || calls != 0 {
			t.Errorf("at most 5 s: %v after %d calls, want DeadlineExceeded after none", err, calls)
		}
		later, cancel := context.WithTimeout(ctx, time.Hour)
		defer cancel()
		began = time.Now()
		if err := th.Do(later, call); !errors.Is(err, context.DeadlineExceeded) || calls != 0 || time.Since(began) != 0 {
			t.Errorf("at most 5 s of an hour: %v after %d calls and %v, want DeadlineExceeded at once", err, calls, time.Since(began))
		}
		ctx = throttle.WithOptions(t.Context(), throttle.CallOptions{MaxWait: 11 * time.Second})
		slow := func(ctx context.Context) error {
			time.Sleep(time.Hour) // runs on, whatever the wait may be
			return ctx.Err()
		}
		if err := th.Do(ctx, slow); err != nil {
			t.Errorf("a call of an hour that waited 10 s: %v", err)
		}
	})
}
