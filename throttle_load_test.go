package throttle

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/internal/timeline"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/pace"
)

// Ten times as many calls as the limit allows, each of which loses patience
// after 200 ms, must not keep it from being used in full.
func TestOverload(t *testing.T) {
	for name, patience := range map[string]func(context.Context) (context.Context, context.CancelFunc){
		"cancelled": func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(200*time.Millisecond, cancel)
			return ctx, cancel
		},
		"deadline": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 200*time.Millisecond)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				th := &Throttle{Control: &counted{Controller: &pace.Fixed{Rate: 100}}}
				calls := timeline.New()
				var all sync.WaitGroup
				for range 10_000 { // 1000 a second for 10 s
					time.Sleep(time.Millisecond)
					all.Go(func() {
						ctx, cancel := patience(t.Context())
						defer cancel()
						_ = th.Do(ctx, func(context.Context) error { calls.Note("served"); return nil })
					})
				}
				all.Wait()
				if n := calls.Count("served"); n < 1000 || n > 1021 {
					t.Errorf("%d served in 10.2 s at 100 a second, want 1000 to 1021", n)
				}
				idle(t, th)
			})
		})
	}
}

func TestThousandsShareOne(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		th := &Throttle{Control: &counted{Controller: &pace.Fixed{Rate: 1000}}}
		began, calls := time.Now(), timeline.New()
		var all sync.WaitGroup
		for range 5000 {
			all.Go(func() {
				if err := th.Do(t.Context(), func(context.Context) error { calls.Note("served"); return nil }); err != nil {
					t.Errorf("Do = %v", err)
				}
			})
		}
		all.Wait()
		if got := calls.Count("served"); got != 5000 {
			t.Errorf("%d served, want 5000", got)
		}
		if got, want := time.Since(began), 4999*time.Millisecond; got != want {
			t.Errorf("5000 calls at 1000 a second took %v, want %v", got, want)
		}
		idle(t, th)
	})
}

// Calls that are cancelled, panic, end their goroutine, fail and are throttled
// at random leave nothing behind: no waiter, no start, no token, no goroutine
// (the bubble would not end).
func TestNothingIsLeftBehind(t *testing.T) {
	for seed := range uint64(20) {
		bubble.Test(t, func(t *testing.T) {
			c := &counted{Controller: &pace.Fixed{Rate: 20}}
			th := &Throttle{Control: c, Tries: 4}
			var all sync.WaitGroup
			for i := range uint64(100) {
				all.Go(func() { misbehave(t, th, rand.New(rand.NewPCG(seed, i))) })
			}
			all.Wait()
			idle(t, th)
			// Were a token lost, this would have to wait.
			time.Sleep(50 * time.Millisecond)
			if err := th.Try(t.Context(), served); err != nil {
				t.Errorf("seed %d: Try after all is over = %v", seed, err)
			}
			if c.starts < 20 {
				t.Errorf("seed %d: only %d starts: the test tries too little", seed, c.starts)
			}
		})
	}
}

func misbehave(t *testing.T, th *Throttle, random *rand.Rand) {
	upTo := func(d time.Duration) time.Duration { return time.Duration(random.Int64N(int64(d))) }
	defer func() { _ = recover() }()
	time.Sleep(upTo(time.Second))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	// Half of the ends fall on an instant at which the next may start.
	time.AfterFunc(upTo(6*time.Second).Truncate(50*time.Millisecond*time.Duration(random.Int64N(2))), cancel)
	_ = th.Do(ctx, func(ctx context.Context) error {
		time.Sleep(upTo(300 * time.Millisecond))
		switch random.IntN(8) {
		case 0:
			panic(errBoom)
		case 1:
			runtime.Goexit()
		case 2, 3:
			return Throttled(errBoom, upTo(500*time.Millisecond))
		case 4:
			return Failed(errBoom)
		case 5:
			return ctx.Err()
		}
		return nil
	})
}

// The zero Throttle meets a server of 10 a second: none fails, little is
// throttled, and most of the limit is used.
func TestZeroThrottle(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var th Throttle
		var counters Counter
		th.OnEvent = counters.OnEvent
		var mu sync.Mutex
		var state limit.State
		server := func(context.Context) error {
			time.Sleep(50 * time.Millisecond)
			mu.Lock()
			var d limit.Decision
			state, d = limit.Take(state, time.Now(), limit.Ask{Limit: limit.Limit{Count: 10, Period: time.Second}, N: 1})
			mu.Unlock()
			time.Sleep(50 * time.Millisecond)
			if !d.OK {
				return Throttled(errBoom, 0)
			}
			return nil
		}
		began := time.Now()
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				for time.Since(began) < 10*time.Minute {
					if err := th.Do(t.Context(), server); err != nil {
						t.Errorf("Do = %v", err)
						return
					}
				}
			})
		}
		all.Wait()
		if n := counters.Stats().Served; n < 4800 || n > 6100 {
			t.Errorf("served %d in 10 minutes at 10 a second, want 80 %% or more", n)
		}
		if n, of := counters.Stats().Throttled, counters.Stats().Starts; n*10 > of {
			t.Errorf("throttled %d of %d, want a tenth at most", n, of)
		}
		idle(t, &th)
	})
}
