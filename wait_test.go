package throttle_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/pace"
)

var errDown = errors.New("down")

// Failed calls rest before each retry: by default for up to 50, 100 and 200 ms,
// each at random.
func TestFailedCallsBackOff(t *testing.T) {
	for _, c := range []struct {
		backoff  pace.Backoff
		min, max time.Duration // of all rests of a call, but once in ten million calls
	}{
		{pace.Backoff{}, time.Millisecond, 350 * time.Millisecond},
		{pace.Backoff{Base: time.Second}, 20 * time.Millisecond, 7 * time.Second},
		{pace.Backoff{Base: time.Second, Jitter: pace.PlusMinusJitter, Spread: 1e-17}, 7 * time.Second, 7 * time.Second},
		{pace.Backoff{Base: time.Second, Cap: 2 * time.Second, Jitter: pace.PlusMinusJitter, Spread: 1e-17}, 5 * time.Second, 5 * time.Second},
	} {
		bubble.Test(t, func(t *testing.T) {
			th := throttle.Throttle{Backoff: c.backoff}
			different := map[time.Duration]bool{}
			for range 10 {
				began, tries := time.Now(), 0
				err := th.Do(t.Context(), func(context.Context) error { tries++; return throttle.Failed(errDown) })
				took := time.Since(began)
				different[took] = true
				if tries < 4 {
					break // over budget
				}
				if took < c.min || took > c.max || !errors.Is(err, throttle.ErrTries) {
					t.Errorf("%+v: %v after %v; want no tries left after %v to %v", c.backoff, err, took, c.min, c.max)
				}
			}
			if c.backoff == (pace.Backoff{}) && len(different) < 3 {
				t.Errorf("calls rest %v; want times of their own", different)
			}
		})
	}
}

// A rest that would outlast the deadline is not begun.
func TestBackoffKeepsTheDeadline(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		th := throttle.Throttle{Backoff: pace.Backoff{Base: time.Minute, Jitter: pace.PlusMinusJitter, Spread: 1e-17}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		err := th.Do(ctx, func(context.Context) error { return throttle.Failed(errDown) })
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, errDown) || time.Since(began) != 0 {
			t.Errorf("%v after %v; want the deadline, at once", err, time.Since(began))
		}
	})
}

// Without a deadline a call ends nevertheless, however it is answered.
func TestMaxWait(t *testing.T) {
	always := throttle.Throttled(errDown, 0)
	for _, c := range []struct {
		name     string
		field    time.Duration
		call     time.Duration
		answer   error
		min, max time.Duration
	}{
		{"always throttled", 0, 0, always, 50 * time.Minute, time.Hour},
		{"told a second each time", 0, 0, throttle.Throttled(errDown, time.Second), 50 * time.Minute, time.Hour},
		{"told longer than that", 0, 0, throttle.Throttled(errDown, 24*time.Hour), 0, 0},
		{"a minute", time.Minute, 0, always, time.Second, time.Minute},
		{"a minute, the call ten seconds", time.Minute, 10 * time.Second, always, time.Second, 10 * time.Second},
		{"ten seconds, the call a minute", 10 * time.Second, time.Minute, always, 11 * time.Second, time.Minute},
		{"no bound", -1, 0, always, 24 * time.Hour, 24 * time.Hour},
		{"the call without bound", 0, -1, always, 24 * time.Hour, 24 * time.Hour},
	} {
		bubble.Test(t, func(t *testing.T) {
			th := throttle.Throttle{MaxWait: c.field, OnEvent: func(throttle.Event) {}}
			ctx, cancel := context.WithCancel(t.Context())
			defer time.AfterFunc(24*time.Hour, cancel).Stop()
			defer cancel()
			began := time.Now()
			err := th.Do(throttle.WithOptions(ctx, throttle.CallOptions{MaxWait: c.call}), func(context.Context) error { return c.answer })
			if took := time.Since(began); took < c.min || took > c.max || !errors.Is(err, errDown) {
				t.Errorf("%s: %v after %v; want it after %v to %v", c.name, err, took, c.min, c.max)
			}
			if bound := c.max < 24*time.Hour; bound != errors.Is(err, context.DeadlineExceeded) || bound != strings.Contains(err.Error(), "MaxWait") {
				t.Errorf("%s: %v; want it to name MaxWait: %v", c.name, err, bound)
			}
		})
	}
}

// A call that waits behind others is given up too.
func TestMaxWaitInLine(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		th := throttle.Throttle{MaxInFlight: 1, MaxWait: time.Minute, OnEvent: func(throttle.Event) {}}
		release := make(chan struct{})
		go th.Do(t.Context(), func(context.Context) error { <-release; return nil })
		synctest.Wait()
		began := time.Now()
		err := th.Do(t.Context(), func(context.Context) error { return nil })
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Minute {
			t.Errorf("%v after %v; want the deadline after a minute", err, time.Since(began))
		}
		if th.Waiting() != 0 {
			t.Errorf("%d wait, want none", th.Waiting())
		}
		close(release)
	})
}

// A Retry-After is believed for an hour, unless MaxAfter says otherwise.
func TestMaxAfter(t *testing.T) {
	for _, c := range []struct{ field, told, min, max time.Duration }{
		{0, 24 * time.Hour, time.Hour, 67 * time.Minute},
		{0, time.Minute, time.Minute, 67 * time.Second},
		{time.Minute, 24 * time.Hour, time.Minute, 67 * time.Second},
		{-1, 24 * time.Hour, 24 * time.Hour, 27 * time.Hour},
	} {
		for _, scope := range []string{"", "search"} {
			bubble.Test(t, func(t *testing.T) {
				th := throttle.Throttle{MaxAfter: c.field, MaxWait: -1, OnEvent: func(throttle.Event) {}}
				began, tries := time.Now(), 0
				err := th.DoResult(t.Context(), func(context.Context) throttle.Result {
					if tries++; tries > 1 {
						return throttle.Result{Report: pace.Report{Verdict: pace.Served}}
					}
					r := throttle.Result{Report: pace.Report{Verdict: pace.Throttled, After: c.told}, Err: errDown}
					if scope != "" {
						r.Scopes = []throttle.ScopeResult{{Need: throttle.Need{Scope: scope}, Report: r.Report}}
					}
					return r
				})
				if took := time.Since(began); err != nil || took < c.min || took > c.max {
					t.Errorf("MaxAfter %v, told %v, scope %q: %v after %v; want success after %v to %v", c.field, c.told, scope, err, took, c.min, c.max)
				}
			})
		}
	}
}

// Where there is nobody to hear of events, a wait above a minute is logged, and
// no more often than every ten minutes.
func TestLongWaitIsLogged(t *testing.T) {
	var out bytes.Buffer
	old := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
	defer slog.SetDefault(old)
	logged := func(f func(ctx context.Context, th *throttle.Throttle), th *throttle.Throttle, d time.Duration) int {
		out.Reset()
		bubble.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			defer cancel()
			f(ctx, th)
			synctest.Wait()
		})
		return strings.Count(out.String(), "\n")
	}
	throttled := func(ctx context.Context, th *throttle.Throttle) {
		th.Do(ctx, func(context.Context) error { return throttle.Throttled(errDown, 0) })
	}
	behind := func(ctx context.Context, th *throttle.Throttle) {
		for range 50 {
			go th.Do(ctx, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		}
		<-ctx.Done()
	}
	for _, group := range []*throttle.Group{{}, {New: func(string) *throttle.Throttle { return new(throttle.Throttle) }}} {
		m := group.Enter("api.example.com")
		defer m.Leave()
		if n := logged(throttled, m.Throttle(), 30*time.Minute); n < 1 || n > 3 || !strings.Contains(out.String(), "name=api.example.com") {
			t.Errorf("always throttled for half an hour: %d lines, want 1 to 3:\n%s", n, &out)
		}
	}
	if n := logged(behind, &throttle.Throttle{MaxInFlight: 1}, 5*time.Minute); n != 1 || !strings.Contains(out.String(), "1 in flight") {
		t.Errorf("behind a call that hangs: %d lines, want 1 that says why:\n%s", n, &out)
	}
	if n := logged(behind, &throttle.Throttle{MaxInFlight: 1, MaxWait: -1}, 5*time.Minute); n != 1 {
		t.Errorf("behind a call that hangs, without a MaxWait: %d lines, want 1:\n%s", n, &out)
	}
	for _, th := range []*throttle.Throttle{{MaxInFlight: 1}, {Control: &pace.Fixed{Rate: 1}}} {
		if n := logged(behind, th, 50*time.Second); n != 0 {
			t.Errorf("a wait of less than a minute: %d lines, want none:\n%s", n, &out)
		}
	}
	if n := logged(throttled, &throttle.Throttle{OnEvent: func(throttle.Event) {}}, time.Hour); n != 0 {
		t.Errorf("with OnEvent: %d lines, want none:\n%s", n, &out)
	}
}

// A call at rest keeps its slot if it is to: no other starts meanwhile, and it
// comes first thereafter.
func TestCountResting(t *testing.T) {
	for _, keep := range []bool{false, true} {
		bubble.Test(t, func(t *testing.T) {
			th := throttle.Throttle{Control: pace.All(nil), MaxInFlight: 2, CountResting: keep, Backoff: pace.Backoff{Base: time.Second, Jitter: pace.PlusMinusJitter, Spread: 1e-17}}
			began, starts := time.Now(), []string{}
			var mu sync.Mutex // guards starts
			call := func(name string, fails int) {
				th.Do(t.Context(), func(context.Context) error {
					mu.Lock()
					starts = append(starts, name+time.Since(began).String())
					mu.Unlock()
					if fails--; fails >= 0 {
						return throttle.Failed(errDown)
					}
					time.Sleep(100 * time.Millisecond)
					return nil
				})
			}
			for _, name := range []string{"a", "b", "c"} {
				go call(name, map[string]int{"a": 1, "b": 1}[name])
				time.Sleep(10 * time.Millisecond)
			}
			time.Sleep(time.Minute)
			mu.Lock()
			defer mu.Unlock()
			want := "a0s b10ms c20ms a1s b1.01s"
			if keep {
				want = "a0s b10ms a1s b1.01s c1.1s"
			}
			if got := strings.Join(starts, " "); got != want {
				t.Errorf("keeping slots %v, the starts are %s; want %s", keep, got, want)
			}
			if th.InFlight()+th.Waiting() != 0 {
				t.Errorf("%d in flight, %d wait; want none", th.InFlight(), th.Waiting())
			}
		})
	}
}

// A call that leaves during its rest gives its slot back.
func TestCountRestingLeaves(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		th := throttle.Throttle{MaxInFlight: 1, CountResting: true, Backoff: pace.Backoff{Base: time.Hour, Jitter: pace.PlusMinusJitter, Spread: 1e-17}, MaxWait: -1}
		ctx, cancel := context.WithCancel(t.Context())
		go th.Do(ctx, func(context.Context) error { return throttle.Failed(errDown) })
		synctest.Wait()
		time.AfterFunc(time.Second, cancel)
		began := time.Now()
		if err := th.Do(t.Context(), func(context.Context) error { return nil }); err != nil || time.Since(began) != time.Second {
			t.Errorf("%v after %v; want success after a second", err, time.Since(began))
		}
	})
}
