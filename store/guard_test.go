package store_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/store"
	"github.com/throttle-go/throttle/throttletest"
)

var errDown = errors.New("connection refused")

const ms = time.Millisecond

// A fickle store fails when it is set to, and counts its calls.
type fickle struct {
	memory.Store
	mu    sync.Mutex
	fail  func(ctx context.Context) error // nil: it decides
	asked atomic.Int64
	most  atomic.Int64 // at a time
	now   atomic.Int64
}

func (f *fickle) set(fail func(context.Context) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail = fail
}

func (f *fickle) Take(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
	f.asked.Add(1)
	f.most.Store(max(f.most.Load(), f.now.Add(1)))
	defer f.now.Add(-1)
	f.mu.Lock()
	fail := f.fail
	f.mu.Unlock()
	if fail != nil {
		if err := fail(ctx); err != nil {
			return false, err
		}
	}
	return f.Store.Take(ctx, a, d)
}

func down(context.Context) error { return errDown }

// A Guard of a sound store is a store.
func TestGuard(t *testing.T) {
	g := &store.Guard{Store: new(memory.Store), Timeout: time.Minute}
	throttletest.TestStore(t, g)
	if c := g.Stats(); c.Fallback != 0 || c.Errors+c.Late+c.Pending != 0 || c.Away || c.Decided < 1000 || c.Canceled == 0 {
		t.Errorf("Stats() = %+v, want some thousand decided, some left", c)
	}
}

// ask is one question to a guard that must answer.
func ask(t *testing.T, g *store.Guard, key string, n int64) limit.Decision {
	t.Helper()
	return take(t, g, key, perMinute, n)
}

// Each Fallback, when the Store refuses connections.
func TestGuardFallback(t *testing.T) {
	for _, test := range []struct {
		fallback store.Fallback
		n        int64
		want     limit.Decision
	}{
		{store.FallbackAllow, 11, limit.Decision{OK: true, Max: 10, Remaining: 10}},
		{store.FallbackDeny, 1, limit.Decision{Max: 10, RetryAfter: time.Second}},
		{store.FallbackDeny, 0, limit.Decision{Max: 10, RetryAfter: time.Second}},
		{store.FallbackDeny, -1, limit.Decision{OK: true, Max: 10}},
		{store.FallbackLocal, 3, limit.Decision{OK: true, N: 3, Max: 10, ResetAfter: 54 * time.Second}},
		{store.FallbackLocal, 4, limit.Decision{Max: 10, Remaining: 3, RetryAfter: time.Second}}, // the store may have 4
		{store.FallbackLocal, 11, limit.Decision{Max: 10, Remaining: 3, RetryAfter: limit.Never}},
	} {
		bubble.Test(t, func(t *testing.T) {
			g := &store.Guard{Store: store.Func(func(ctx context.Context, _ []limit.Ask, _ []limit.Decision) (bool, error) {
				return false, errDown
			}), Fallback: test.fallback, Instances: 3}
			test.want.At = time.Now()
			if got := ask(t, g, "k", test.n); got != test.want {
				t.Errorf("%v, N %d: %+v, want %+v", test.fallback, test.n, got, test.want)
			}
			if got, want := g.Stats(), (store.GuardStats{Fallback: 1, Errors: 1, LastErr: errDown}); got != want {
				t.Errorf("%v: Stats() = %+v, want %+v", test.fallback, got, want)
			}
		})
	}
}

// Pairs are all or nothing without the Store too.
func TestGuardFallbackPairs(t *testing.T) {
	pair := []limit.Ask{{Key: "a", Limit: perMinute, N: 2}, {Key: "b", Limit: limit.Limit{Count: 100, Period: time.Minute}, N: 2}}
	for fallback, want := range map[store.Fallback][4]bool{
		store.FallbackLocal: {true, true, false, false}, // 5 of 10
		store.FallbackAllow: {true, true, true, true},
		store.FallbackDeny:  {},
	} {
		g := &store.Guard{Fallback: fallback, Instances: 2} // it has no store
		d := make([]limit.Decision, 2)
		for i := range want {
			if ok, err := g.Take(t.Context(), pair, d); ok != want[i] || err != nil || fallback == store.FallbackLocal && !d[1].OK {
				t.Errorf("%v: pair %d = %v, %v, %+v, want %v", fallback, i, ok, err, d, want[i])
			}
		}
		refund := []limit.Ask{{Key: "a", Limit: perMinute, N: -1}}
		if ok, err := g.Take(t.Context(), refund, d[:1]); !ok || err != nil {
			t.Errorf("%v: a refund = %v, %v, want it accepted", fallback, ok, err)
		}
	}
}

// A Store that neither answers nor ends with its context delays no caller beyond
// the Timeout, and holds at most MaxCalls calls. Once the breaker is open it costs
// nothing.
func TestGuardFrozen(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		thaw := make(chan struct{})
		s := new(fickle)
		s.set(func(context.Context) error { <-thaw; return nil })
		g := &store.Guard{Store: s, MaxCalls: 100, Fallback: store.FallbackAllow}
		began := time.Now()
		var all sync.WaitGroup
		for i := range 2000 { // half of them begin after the first half has waited
			all.Go(func() {
				began := began.Add(time.Duration(i/1000) * 20 * ms)
				time.Sleep(time.Until(began))
				ask(t, g, fmt.Sprint("caller ", i), 1)
				if waited := time.Since(began); waited != 20*ms {
					t.Errorf("caller %d was back after %v, want 20ms", i, waited)
				}
			})
		}
		all.Wait()
		if c := g.Stats(); s.asked.Load() != 100 || c.Pending != 100 || c.Late != 2000 || c.Fallback != 2000 || !c.Away {
			t.Errorf("the store was asked %d times, Stats() = %+v; want 100 asked and pending, 2000 late, away", s.asked.Load(), c)
		}
		for range 10_000 {
			ask(t, g, "k", 1)
		}
		if waited := time.Since(began); waited != 40*ms || s.asked.Load() != 100 {
			t.Errorf("with an open breaker the store was asked %d times, in %v; want no more than before", s.asked.Load()-100, waited-40*ms)
		}
		for range 50 { // probes are late, too; there may be 4
			time.Sleep(250 * ms)
			ask(t, g, "k", 1)
		}
		if n := s.asked.Load(); n != 104 {
			t.Errorf("the store was probed %d times, want 4", n-100)
		}
		close(thaw)
		synctest.Wait() // late answers close the breaker
		ask(t, g, "k", 1)
		if c := g.Stats(); c.Away || c.Pending != 0 || c.Decided != 1 {
			t.Errorf("after the store is back, Stats() = %+v", c)
		}
	})
}

// While the breaker is open there is one probe at a time, and the first that
// succeeds closes it. Calls that are not the probe do not wait.
func TestGuardProbes(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := new(fickle)
		s.set(down)
		var told []error
		g := &store.Guard{Store: s, Failures: 3, ProbeInterval: time.Second, MaxProbeInterval: time.Second, OnState: func(err error) { told = append(told, err) }}
		for range 100 {
			ask(t, g, "k", 0)
		}
		if n := s.asked.Load(); n != 3 || !g.Stats().Away {
			t.Fatalf("the store was asked %d times, Stats() = %+v; want 3 and away", n, g.Stats())
		}
		slow := func(ctx context.Context) error { time.Sleep(15 * ms); return nil }
		s.set(slow)
		for second := range 3 {
			if second == 2 {
				s.set(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
			}
			if second == 1 {
				s.set(down)
				for range 3 {
					ask(t, g, "k", 0)
				}
			}
			asked := s.asked.Load()
			time.Sleep(time.Second)
			var all sync.WaitGroup
			began := time.Now()
			var waited atomic.Int64
			for range 50 {
				all.Go(func() {
					ask(t, g, "k", 0)
					if time.Since(began) > 0 {
						waited.Add(1)
					}
				})
				synctest.Wait() // until a probe is in flight, so that the others are none
			}
			all.Wait()
			if second == 1 && s.asked.Load()-asked != 1 || second != 1 && (s.asked.Load()-asked != 1 || waited.Load() != 1) {
				t.Errorf("second %d: asked %d times, %d waited, want 1", second, s.asked.Load()-asked, waited.Load())
			}
		}
		if c := g.Stats(); c.Decided != 1 || c.Errors != 7 || c.Late != 1 || !c.Away {
			t.Errorf("Stats() = %+v, want 1 decided, 7 errors, 1 late, away", c)
		}
		text := fmt.Sprint(told)
		if strings.Count(text, "connection refused") != 7 || strings.Count(text, "<nil>") != 1 || strings.Count(text, "not answered in 20ms") != 1 {
			t.Errorf("OnState was called with %v", told)
		}
		time.Sleep(2 * time.Second) // until all questions have ended
	})
}

// Failures that are not in a row, and those of callers, do not open the breaker.
func TestGuardStaysClosed(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := new(fickle)
		g := &store.Guard{Store: s, Fallback: store.FallbackDeny}
		for range 10 {
			s.set(down)
			for range 4 {
				ask(t, g, "k", 0)
			}
			s.set(nil)
			ask(t, g, "k", 0)
		}
		s.set(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		for _, patience := range []time.Duration{ms, 9 * ms} { // too short to tell
			for range 10 {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				began := time.Now()
				d, err := store.Take(ctx, g, "k", perMinute, 1)
				if d.OK || err != nil || d.RetryAfter != time.Second || time.Since(began) != patience {
					t.Errorf("with %v: %+v, %v after %v, want refused for a second", patience, d, err, time.Since(began))
				}
				cancel()
			}
		}
		for range 10 {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(ms, cancel)
			if _, err := store.Take(ctx, g, "k", perMinute, 1); !errors.Is(err, context.Canceled) {
				t.Errorf("canceled: %v, want so", err)
			}
		}
		time.Sleep(2 * time.Second) // until all questions have ended
		got, want := g.Stats(), store.GuardStats{Decided: 10, Fallback: 60, Errors: 40, Late: 20, Canceled: 10}
		got.LastErr = nil
		if got != want {
			t.Errorf("Stats() = %+v, want %+v", got, want)
		}
	})
}

// A caller whose call is the probe, and who cancels it, leaves it to others.
func TestGuardProbeCanceled(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := new(fickle)
		s.set(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		g := &store.Guard{Store: s, Failures: 1}
		ask(t, g, "k", 0)
		time.Sleep(250 * ms)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(ms, cancel)
		if _, err := store.Take(ctx, g, "k", perMinute, 1); err == nil {
			t.Error("a canceled probe was answered")
		}
		s.set(nil)
		ask(t, g, "k", 0)
		if c := g.Stats(); c.Away || c.Decided != 1 {
			t.Errorf("Stats() = %+v, want it closed", c)
		}
		time.Sleep(2 * time.Second) // until all questions have ended
	})
}

// A panic of the Store, or the end of its goroutine, does not reach the caller.
// Asks that the Store calls malformed are the caller's mistake: its error is
// returned, and the Store is not away.
func TestGuardMalformed(t *testing.T) {
	g := &store.Guard{Store: store.Func(func(_ context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
		if len(a) > 1 {
			return false, fmt.Errorf("keys in different slots: %w", limit.ErrAsks)
		}
		d[0].OK = true
		return true, nil
	}), Failures: 1, Timeout: time.Minute}
	for range 10 {
		ok, err := g.Take(t.Context(), []limit.Ask{{Key: "a"}, {Key: "b"}}, make([]limit.Decision, 2))
		if ok || !errors.Is(err, limit.ErrAsks) {
			t.Fatalf("Take of malformed asks = %v, %v; want the error of the Store", ok, err)
		}
	}
	ask(t, g, "a", 1)
	if got, want := g.Stats(), (store.GuardStats{Decided: 1}); got != want {
		t.Errorf("Stats() = %+v, want %+v", got, want)
	}
}

func TestGuardPanic(t *testing.T) {
	for want, f := range map[string]func(){
		"the Store panicked: boo":       func() { panic("boo") },
		"the Store ended its goroutine": runtime.Goexit,
	} {
		var told error
		s := store.Func(func(context.Context, []limit.Ask, []limit.Decision) (bool, error) { f(); return true, nil })
		g := &store.Guard{Store: s, Timeout: time.Minute, OnState: func(err error) { told = err }}
		if d := ask(t, g, "k", 1); !d.OK || d.Remaining != 9 {
			t.Errorf("%s: %+v, want the share", want, d)
		}
		if told == nil || !strings.Contains(told.Error(), want) {
			t.Errorf("OnState was called with %v, want %s", told, want)
		}
	}
}

// What the Store writes too late reaches no caller.
func TestGuardLateAnswer(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := store.Func(func(_ context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
			time.Sleep(30 * ms)
			for i := range a {
				if a[i].Key != fmt.Sprint("key ", i) {
					t.Errorf("the store reads of the key %q", a[i].Key)
				}
				d[i] = limit.Decision{OK: true, N: 99}
			}
			return true, nil
		})
		g := &store.Guard{Store: s, Fallback: store.FallbackDeny}
		for n := range 3 {
			a, d := make([]limit.Ask, n+1), make([]limit.Decision, n+1)
			for i := range a {
				a[i] = limit.Ask{Key: fmt.Sprint("key ", i), Limit: perMinute, N: 1}
			}
			ok, err := g.Take(t.Context(), a, d)
			clear(a)
			time.Sleep(time.Second)
			if ok || err != nil || d[n].N != 0 || d[n].OK {
				t.Errorf("Take of %d = %v, %v, %+v, want refused", n+1, ok, err, d)
			}
		}
	})
}
