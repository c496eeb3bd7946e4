package throttle_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/pace"
)

// A job has a deadline that it can keep, by windows that open again in time. At no moment a forecast
// says otherwise and refuses a call for itself: not by the rate at the end of a window, of which
// nothing remains, nor by that of the policy as the next one opens.
func TestForecastAsAWindowOpens(t *testing.T) {
	for _, c := range []struct {
		limit   limit.Limit
		workers int
		window  bool // is stated
		round   time.Duration
	}{
		{limit.Limit{Kind: limit.FirstHitWindow, Count: 30, Period: 10 * time.Second}, 16, false, 0},
		{limit.Limit{Kind: limit.FirstHitWindow, Count: 100, Period: time.Minute}, 64, true, time.Second - 1},
	} {
		for range 3 {
			bubble.Test(t, func(t *testing.T) {
				time.Sleep(837 * time.Millisecond) // not at a whole second
				const calls = 200
				ctx, stop := context.WithTimeout(t.Context(), 90*time.Second)
				defer stop()
				server := &reopens{limit: c.limit, window: c.window, round: c.round}
				var th throttle.Throttle
				refused := failures(ctx, c.workers, calls, func() error {
					var e *throttle.Error
					if errors.As(th.DoResult(ctx, server.answer), &e) && e.Wait > 0 {
						return e
					}
					return nil
				})
				if refused != nil {
					t.Errorf("%v, %d workers: a call was refused for itself: %v; want none of %d", c.limit, c.workers, refused, calls)
				}
			})
		}
	}
}

// failures makes calls by so many workers, and returns the last error.
func failures(ctx context.Context, workers, calls int, call func() error) (last error) {
	var (
		all  sync.WaitGroup
		mu   sync.Mutex
		next = make(chan struct{})
	)
	for range workers {
		all.Go(func() {
			for range next {
				if err := call(); err != nil {
					mu.Lock()
					last = err
					mu.Unlock()
				}
			}
		})
	}
	for range calls {
		next <- struct{}{}
	}
	close(next)
	all.Wait()
	return last
}

// reopens is a server with one limit, whose answers overtake each other. It states what remains and
// the second of the reset, rounded down or up.
type reopens struct {
	limit  limit.Limit
	window bool
	round  time.Duration

	mu    sync.Mutex
	state limit.State
}

func (s *reopens) answer(context.Context) throttle.Result {
	time.Sleep(time.Duration(rand.ExpFloat64() * 5e6))
	defer func() { time.Sleep(time.Duration(rand.ExpFloat64() * 3e6)) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	now, r := time.Now(), pace.Report{Verdict: pace.Served}
	var d limit.Decision
	s.state, d = limit.Take(s.state, now, limit.Ask{Limit: s.limit, N: 1})
	r.Hints.Limit, r.Hints.Remaining = pace.Some(s.limit.Count), pace.Some(d.Remaining)
	r.Hints.Reset = pace.Some(now.Add(d.ResetAfter + s.round).Truncate(time.Second).Sub(now.Truncate(time.Second)))
	if s.window {
		r.Hints.Window = pace.Some(s.limit.Period)
	}
	if !d.OK {
		r.Verdict, r.After = pace.Throttled, r.Hints.Reset.V
	}
	return throttle.Result{Report: r}
}
