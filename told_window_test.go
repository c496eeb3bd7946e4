package throttle_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/pace"
)

// toldWindow is a server with a fixed window that states its numbers.
type toldWindow struct {
	limit          int
	window         time.Duration
	policy, resets bool // stated
	unsized        bool // the limit is not stated
	rtt            time.Duration
	jitter         float64   // part of rtt by which answers differ
	end            time.Time // of the window

	mu      sync.Mutex
	random  *rand.Rand
	used    int
	refused int
}

func (w *toldWindow) took() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.random == nil {
		w.random = rand.New(rand.NewPCG(1, 1))
	}
	return time.Duration(float64(w.rtt) * (1 + w.jitter*(2*w.random.Float64()-1)))
}

func (w *toldWindow) answer(context.Context) throttle.Result {
	took := w.took()
	time.Sleep(took / 3)
	r := w.count()
	time.Sleep(took * 2 / 3)
	return throttle.Result{Report: r}
}

func (w *toldWindow) count() pace.Report {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	for !now.Before(w.end) {
		w.used, w.end = 0, w.end.Add(w.window)
	}
	r := pace.Report{Verdict: pace.Served}
	if w.used < w.limit {
		w.used++
	} else {
		r.Verdict = pace.Throttled
		w.refused++
	}
	r.Hints = pace.Hints{Remaining: pace.Some(int64(w.limit - w.used))}
	if !w.unsized {
		r.Hints.Limit = pace.Some(int64(w.limit))
	}
	if w.policy {
		r.Hints.Window = pace.Some(w.window)
	}
	if w.resets {
		r.Hints.Reset = pace.Some(w.end.Sub(now).Round(time.Second))
	}
	return r
}

// A job comes faster than 100 in ten seconds let it go. The rate of one moment, in a row of refusals
// or as a window opens, says little of the next hour: nothing is given up, as it could be done in five
// minutes.
func TestForecastInARow(t *testing.T) {
	for _, server := range []*toldWindow{
		{policy: true},
		{policy: true, resets: true},
	} {
		bubble.Test(t, func(t *testing.T) {
			server.limit, server.window, server.rtt, server.end = 100, 10*time.Second, 300*time.Millisecond, time.Now().Add(3*time.Second)
			var (
				th    throttle.Throttle
				all   sync.WaitGroup
				began = time.Now()
			)
			for range 60 {
				for range 50 {
					all.Go(func() {
						if err := th.DoResult(t.Context(), server.answer); err != nil {
							t.Errorf("reset stated: %v: %v", server.resets, err)
						}
					})
				}
				time.Sleep(500 * time.Millisecond)
			}
			all.Wait()
			if took := time.Since(began); took > 12*time.Minute {
				t.Errorf("reset stated: %v: took %v, want five minutes and twelve at most", server.resets, took)
			}
		})
	}
}

// Two processes come to 1000 in ten minutes of which ten remain. How many the next window has is stated
// or not: until it has shown, nothing is given up for what this one had left.
func TestForecastOfTheNextWindow(t *testing.T) {
	for _, unsized := range []bool{false, true} {
		bubble.Test(t, func(t *testing.T) {
			server := &toldWindow{limit: 1000, window: 10 * time.Minute, policy: !unsized, unsized: unsized, resets: true, rtt: 50 * time.Millisecond, end: time.Now().Add(10 * time.Minute), used: 990}
			var all sync.WaitGroup
			for range 2 {
				var th throttle.Throttle
				for range 50 {
					all.Go(func() {
						for range 6 {
							if err := th.DoResult(t.Context(), server.answer); err != nil {
								t.Errorf("unsized: %v: %v", unsized, err)
							}
						}
					})
				}
			}
			all.Wait()
		})
	}
}

// A service wants three fifths of 700 a minute, and answers overtake each other. One of the window
// before, which comes after the first of the new one, is not the work of hundreds of others.
func TestOvertakenAtTheEndOfAWindow(t *testing.T) {
	for _, c := range []struct {
		rtt    time.Duration
		jitter float64
	}{{2 * time.Second, 0.05}, {300 * time.Millisecond, 0.3}} {
		bubble.Test(t, func(t *testing.T) {
			server := &toldWindow{limit: 700, window: time.Minute, policy: true, resets: true, rtt: c.rtt, jitter: c.jitter, end: time.Now().Add(20 * time.Second)}
			var (
				th      throttle.Throttle
				all     sync.WaitGroup
				mu      sync.Mutex
				longest time.Duration
				random  = rand.New(rand.NewPCG(2, 2))
			)
			for began := time.Now(); time.Since(began) < 20*time.Minute; {
				time.Sleep(time.Duration(random.ExpFloat64() / 7 * 1e9))
				all.Go(func() {
					came := time.Now()
					if err := th.DoResult(t.Context(), server.answer); err != nil {
						t.Error(err)
					}
					mu.Lock()
					defer mu.Unlock()
					longest = max(longest, time.Since(came)-c.rtt)
				})
			}
			all.Wait()
			t.Logf("%v away, give or take %v: longest wait %v, %d refused", c.rtt, c.jitter, longest, server.refused)
			if longest > 2*time.Second || server.refused > 0 {
				t.Errorf("%v away, give or take %v: longest wait %v, %d refused; want 2 s at most and none", c.rtt, c.jitter, longest, server.refused)
			}
		})
	}
}
