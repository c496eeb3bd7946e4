package throttle_test

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/pace"
)

// limited is a service behind a token bucket that says how much remains.
type limited struct {
	mu    sync.Mutex
	limit limit.Limit
	state limit.State
}

func (s *limited) call(context.Context) throttle.Result {
	time.Sleep(50 * time.Millisecond)
	return s.take()
}

// take answers at once.
func (s *limited) take() throttle.Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	var d limit.Decision
	s.state, d = limit.Take(s.state, time.Now(), limit.Ask{Limit: s.limit, N: 1})
	r := pace.Report{Verdict: pace.Served, Hints: pace.Hints{Remaining: pace.Some(d.Remaining)}}
	if !d.OK {
		r.Verdict = pace.Throttled
	}
	return throttle.Result{Report: r}
}

// TestForecastHolds asks in a steady state how long the next calls will take,
// those in line included, and holds it to how long they took.
func TestForecastHolds(t *testing.T) {
	for name, control := range map[string]*pace.Adaptive{"informed": {}, "blind": {Blind: true}} {
		bubble.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			th := &throttle.Throttle{Control: control}
			server := &limited{limit: limit.Limit{Count: 5, Period: time.Second, Burst: 10}}
			var served atomic.Int64
			var workers sync.WaitGroup
			for range 10 {
				workers.Go(func() {
					for th.DoResult(ctx, server.call) == nil {
						served.Add(1)
					}
				})
			}
			time.Sleep(5 * time.Minute)
			off, n := 0.0, 0
			for range 40 {
				before, began, foretold := served.Load(), time.Now(), th.Forecast(50)
				for served.Load() < before+50 {
					time.Sleep(10 * time.Millisecond)
				}
				took := time.Since(began)
				error := foretold.Seconds()/took.Seconds() - 1
				off, n = off+math.Abs(error), n+1
				if math.Abs(error) > 0.25 {
					t.Errorf("%s: Forecast(50) = %v, it took %v", name, foretold, took)
				}
			}
			t.Logf("%s: forecasts off by %.1f %% on average", name, 100*off/float64(n))
			if off/float64(n) > 0.1 {
				t.Errorf("%s: forecasts are off by %.1f %% on average, want at most 10 %%", name, 100*off/float64(n))
			}
			cancel()
			workers.Wait()
		})
	}
}

// Where only the end of another call lets one start, the wait is unknown, and not
// none; a pause after a refusal for too many at once is part of the forecast.
func TestForecastOfAFullThrottle(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var waits []time.Duration
		th := &throttle.Throttle{Control: new(pace.Fixed), MaxInFlight: 1, OnEvent: func(e throttle.Event) {
			if e.Kind == throttle.Waits {
				waits = append(waits, e.Wait)
			}
		}}
		nothing := func(context.Context) error { return nil }
		if d := th.Forecast(1); d != 0 {
			t.Errorf("of an idle Throttle: %v, want 0", d)
		}
		if d := th.Forecast(2); d != pace.Never {
			t.Errorf("the second of an idle Throttle: %v, want Never, as one may be in flight", d)
		}
		err := th.Do(t.Context(), func(ctx context.Context) error {
			if d := th.Forecast(1); d != pace.Never {
				t.Errorf("beside the only call that may be in flight: %v, want Never", d)
			}
			var e *throttle.Error
			if err := th.Try(ctx, nothing); !errors.As(err, &e) || e.Wait != pace.Never {
				t.Errorf("Try: %v, want Wait of Never", err)
			}
			go func() {
				short, cancel := context.WithTimeout(ctx, time.Minute) // it is not known to be too short
				defer cancel()
				if err := th.Do(short, nothing); err != nil {
					t.Errorf("a call with a deadline: %v, want it to wait", err)
				}
			}()
			time.Sleep(time.Second)
			return nil
		})
		synctest.Wait()
		if err != nil || len(waits) != 1 || waits[0] != pace.Never {
			t.Errorf("%v, waits of %v; want one, Never", err, waits)
		}
		refused := pace.Report{Verdict: pace.Throttled, Crowded: true, After: 5 * time.Second}
		th.DoResult(throttle.WithOptions(t.Context(), throttle.CallOptions{Once: true}), func(context.Context) throttle.Result {
			return throttle.Result{Report: refused}
		})
		if d := th.Forecast(1); d < 5*time.Second || d > 10*time.Second {
			t.Errorf("in a pause of 5 s: %v, want that", d)
		}
	})
}

// Where one limit does not know how long a call will wait, and another knows that it is
// longer than the call has, the call is refused at once.
func TestForecastOfSeveral(t *testing.T) {
	fleet := throttle.Fleet{Store: new(memory.Store), Key: "k", Limit: limit.Limit{Count: 1, Period: time.Second}}
	for name, c := range map[string]struct {
		th    *throttle.Throttle
		scope string
	}{
		"scope": {&throttle.Throttle{Control: &pace.Fixed{Rate: 0.001}}, "s"},
		"fleet": {&throttle.Throttle{Control: &pace.Fixed{Rate: 0.001}, Fleet: fleet}, ""},
	} {
		bubble.Test(t, func(t *testing.T) {
			ctx := t.Context()
			if c.scope != "" {
				ctx = throttle.WithOptions(ctx, throttle.CallOptions{Needs: []throttle.Need{{Scope: c.scope}}})
			}
			go c.th.Do(ctx, func(context.Context) error { time.Sleep(time.Minute); return nil })
			time.Sleep(100 * time.Millisecond)
			if c.scope == "" {
				time.Sleep(10 * time.Second) // nothing is known of the credit any more
			}
			ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			began := time.Now()
			err := c.th.Do(ctx, func(context.Context) error { return nil })
			var e *throttle.Error
			if !errors.As(err, &e) || time.Since(began) > 0 || e.Wait < 15*time.Minute || e.Wait == pace.Never {
				t.Errorf("%s: %v after %v, want a refusal at once that says how long the wait is", name, err, time.Since(began))
			}
			time.Sleep(time.Hour)
		})
	}
}

// Before a limit is known few calls start at once: as many as Forecast says.
func TestForecastOfTheFirstFlights(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var th throttle.Throttle
		for _, want := range []int{1, 2, 4, 8} {
			var starts atomic.Int64
			forecast := 0
			for forecast < 20 && th.Forecast(forecast+1) == 0 {
				forecast++
			}
			var all sync.WaitGroup
			for range 20 {
				all.Go(func() {
					_ = th.Try(t.Context(), func(context.Context) error {
						starts.Add(1)
						time.Sleep(time.Millisecond)
						return nil
					})
				})
			}
			all.Wait()
			if forecast != want || starts.Load() != int64(want) {
				t.Errorf("%d of 20 started at once, and Forecast was zero for %d, want %d", starts.Load(), forecast, want)
			}
			if next := th.Forecast(1 << 40); next != pace.Never {
				t.Errorf("Forecast of a distant place = %v, want unknown", next)
			}
		}
	})
}
