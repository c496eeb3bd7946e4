package store_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/store"
)

// hot makes a key of l one that is asked for ahead, with nothing left.
func hot(t *testing.T, l *store.Leases, key string) {
	t.Helper()
	for range 20 {
		if _, err := store.Take(t.Context(), l, key, tenThousand, 1); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(limit.DefaultLife)
}

// One call that hangs delays the key for a Life, not until the deadline of its
// caller.
func TestLeasesHungQuestion(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var hang atomic.Bool
		f := new(remote)
		l := &store.Leases{Store: store.Func(func(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
			if hang.CompareAndSwap(true, false) {
				<-ctx.Done()
				return false, ctx.Err()
			}
			return f.Take(ctx, a, d)
		})}
		hot(t, l, "k")
		hang.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		go store.Take(ctx, l, "k", tenThousand, 1)
		synctest.Wait()
		began := time.Now()
		for i := range 100 {
			if d, err := store.Take(t.Context(), l, "k", tenThousand, 1); err != nil || !d.OK {
				t.Errorf("question %d: %+v, %v", i, d, err)
			}
		}
		if took := time.Since(began); took > 200*ms {
			t.Errorf("100 questions took %v, want a Life, and what some round trips take", took)
		}
		cancel()
		synctest.Wait()
	})
}

// An error that concerns one Take only does not reach those that wait for its call.
func TestLeasesErrorsOfOthers(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := new(remote)
		var fail atomic.Pointer[func(context.Context) error]
		l := &store.Leases{Store: store.Func(func(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
			if bad := fail.Swap(nil); bad != nil {
				return false, (*bad)(ctx)
			}
			return f.Take(ctx, a, d)
		})}
		pair := []limit.Ask{{Key: "k", Limit: tenThousand, N: 1}, {Key: "elsewhere", Limit: tenThousand, N: 1}}
		for name, test := range map[string]struct {
			asks []limit.Ask
			fail func(context.Context) error
		}{
			"about other keys too": {pair, func(context.Context) error {
				time.Sleep(ms)
				return errors.New("CROSSSLOT Keys in request don't hash to the same slot")
			}},
			"for a deadline of the socket, just before the context's": {pair[:1], func(ctx context.Context) error {
				until, _ := ctx.Deadline()
				time.Sleep(time.Until(until) - time.Microsecond)
				return os.ErrDeadlineExceeded
			}},
			"of another context that was canceled": {pair[:1], func(context.Context) error {
				time.Sleep(ms)
				return context.Canceled
			}},
			"of another context whose deadline has passed": {pair[:1], func(context.Context) error {
				time.Sleep(ms)
				return context.DeadlineExceeded
			}},
		} {
			hot(t, l, "k")
			fail.Store(&test.fail)
			var all sync.WaitGroup
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 5*ms)
				defer cancel()
				if _, err := l.Take(ctx, test.asks, make([]limit.Decision, len(test.asks))); err == nil {
					t.Errorf("%s: the one that fails does not", name)
				}
			})
			synctest.Wait()
			if d, err := store.Take(t.Context(), l, "k", tenThousand, 1); err != nil || !d.OK {
				t.Errorf("%s: who waited has %+v, %v; want it to pass", name, d, err)
			}
			all.Wait()
		}
	})
}

// What was held for a question that fails, or whose caller gives up, is held as
// before.
func TestLeasesKept(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := new(remote)
		l := &store.Leases{Store: f, Life: time.Minute}
		left := func(key string) int64 {
			d, err := store.Take(t.Context(), l, key, tenThousand, 1)
			if err != nil || !d.OK {
				t.Fatalf("%s: %+v, %v", key, d, err)
			}
			return d.Remaining
		}
		for range 20 {
			left("a")
			left("b")
		}
		pair := []limit.Ask{{Key: "a", Limit: tenThousand, N: 1}, {Key: "c", Limit: tenThousand, N: 1}}
		before := left("a")
		f.fails.Store(&errDown)
		if _, err := l.Take(t.Context(), pair, make([]limit.Decision, 2)); !errors.Is(err, errDown) {
			t.Errorf("the store is down: %v", err)
		}
		if after := left("a"); after != before-1 {
			t.Errorf("after a failure %d remain, want %d", after, before-1)
		}
		f.fails.Store(nil)

		for d := (limit.Decision{Remaining: 1}); f.now.Load() == 0; { // until b is asked for
			go store.Take(t.Context(), l, "b", tenThousand, 1)
			synctest.Wait()
			if d.Remaining++; d.Remaining > 1e6 {
				t.Fatal("b is never asked for")
			}
		}
		before = left("a")
		pair[1].Key = "b"
		ctx, cancel := context.WithTimeout(t.Context(), ms/10)
		defer cancel()
		if _, err := l.Take(ctx, pair, make([]limit.Decision, 2)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("who waits for b: %v", err)
		}
		if after := left("a"); after != before-1 {
			t.Errorf("after giving up %d remain, want %d", after, before-1)
		}
		time.Sleep(time.Second)
	})
}

// What is given back here is noticed at once.
func TestLeasesGivenBack(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := &store.Leases{Store: new(memory.Store)}
		for i, step := range []struct {
			n  int64
			ok bool
		}{{10, true}, {1, false}, {-3, true}, {3, true}, {1, false}} {
			d, err := store.Take(t.Context(), l, "k", limit.Limit{Count: 10, Period: time.Hour}, step.n)
			if d.OK != step.ok || err != nil {
				t.Errorf("step %d, %d: %+v, %v, want %v", i, step.n, d, err, step.ok)
			}
		}
	})
}

// A caller refused by a limit of its own does not make the process hoard tokens of
// the limit that it shares with others.
func TestLeasesRefusedDemand(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		shared := limit.Limit{Count: 1000, Period: time.Second, Burst: 200}
		own := limit.Limit{Count: 1, Period: time.Second}
		f := new(remote)
		var refused atomic.Int64
		var all sync.WaitGroup
		for p := range 20 {
			l := &store.Leases{Store: f}
			ask := func(user string, l2 limit.Limit) bool {
				ok, err := l.Take(t.Context(), []limit.Ask{{Key: "shared", Limit: shared, N: 1}, {Key: user, Limit: l2, N: 1}}, make([]limit.Decision, 2))
				return ok && err == nil
			}
			ctx, stop := context.WithCancel(t.Context())
			all.Go(func() {
				for ctx.Err() == nil {
					ask("greedy", own)
					time.Sleep(ms / 2)
				}
			})
			all.Go(func() {
				defer stop()
				for i := range 50 { // all together half of the limit
					time.Sleep(40 * ms)
					if !ask(fmt.Sprint(p, i), tenThousand) {
						refused.Add(1)
					}
				}
			})
		}
		all.Wait()
		if n := refused.Load(); n > 0 {
			t.Errorf("%d of 1000 were refused, want none", n)
		}
	})
}

// Of limits that refill slowly little is asked for ahead, and so little is lost
// by those who ask for some at a time, and then rest.
func TestLeasesSlowLimits(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		for _, l := range []limit.Limit{
			{Count: 100, Period: time.Hour},
			{Kind: limit.FixedWindow, Count: 100, Period: time.Hour},
			{Count: 1000, Period: time.Hour},
			{Count: 60, Period: time.Minute},
		} {
			for _, burst := range []int64{1, 5, 12, 50} {
				s := &store.Leases{Store: new(remote)}
				passed := int64(0)
				for range l.Count / burst {
					for range burst {
						if d, _ := store.Take(t.Context(), s, "k", l, 1); d.OK {
							passed++
						}
					}
					time.Sleep(200 * ms)
				}
				if wanted := l.Count / burst * burst; passed < wanted*15/16 {
					t.Errorf("%v: %d of %d passed, by %d at a time", l, passed, wanted, burst)
				}
			}
		}
	})
}

// A small burst is not lost for the sake of few questions.
func TestLeasesSmallBursts(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		for _, test := range []struct {
			l limit.Limit
			n int64
		}{
			{limit.Limit{Count: 100, Period: time.Second, Burst: 1}, 1},
			{limit.Limit{Count: 10, Period: time.Second, Burst: 1}, 1},
			{limit.Limit{Count: 100, Period: time.Second, Burst: 2}, 1},
			{limit.Limit{Count: 100, Period: time.Second, Burst: 10}, 10},
			{limit.Limit{Count: 100, Period: time.Second, Burst: 10}, 7},
		} {
			s := &store.Leases{Store: new(memory.Store)}
			used := int64(0)
			for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(ms / 5) {
				d, _ := store.Take(t.Context(), s, "k", test.l, test.n)
				used += d.N
			}
			if got := float64(used) / 10 / float64(test.l.Count); got < 0.95 {
				t.Errorf("%v, %d at a time: %.3f of it was used", test.l, test.n, got)
			}
		}
	})
}

// RetryAfter is when it would pass, also where all that was left was granted, for
// more than was refused, and where several limits refuse.
func TestLeasesRetryAfter(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		perHour := limit.Limit{Count: 100, Period: time.Hour}
		window := limit.Limit{Kind: limit.FixedWindow, Count: 100, Period: time.Hour}
		for _, test := range []struct {
			l    limit.Limit
			want time.Duration
		}{{perHour, 36 * time.Second}, {window, time.Until(time.Now().Truncate(time.Hour).Add(time.Hour))}} {
			l := &store.Leases{Store: new(memory.Store)}
			d := limit.Decision{OK: true}
			for n := 0; d.OK; n++ {
				if d, _ = store.Take(t.Context(), l, "k", test.l, 1); n > 100 {
					t.Fatalf("%v: more than 100 passed", test.l)
				}
			}
			if (d.RetryAfter - test.want).Abs() > time.Second {
				t.Errorf("%v: refused for %v, want about %v", test.l, d.RetryAfter, test.want)
			}
		}

		slow := limit.Limit{Count: 1, Period: time.Second, Burst: 20}
		l := &store.Leases{Store: new(memory.Store)}
		for _, step := range []struct {
			n     int64
			retry time.Duration
		}{{20, 0}, {1, time.Second + 25*ms}, {20, 20 * time.Second}, {21, limit.Never}} {
			d, _ := store.Take(t.Context(), l, "k", slow, step.n)
			if d.RetryAfter < step.retry || d.RetryAfter > step.retry+30*ms && step.retry != limit.Never {
				t.Errorf("%d: refused for %v, want %v", step.n, d.RetryAfter, step.retry)
			}
		}

		day := limit.Limit{Kind: limit.FixedWindow, Count: 1, Period: 24 * time.Hour}
		three := []limit.Ask{{Key: "k", Limit: slow, N: 1}, {Key: "day", Limit: day, N: 1}, {Key: "free", Limit: tenThousand, N: 1}}
		store.Take(t.Context(), l, "day", day, 1)
		store.Take(t.Context(), l, "day", day, 1) // is known to refuse, as k is
		d := make([]limit.Decision, 3)
		if ok, err := l.Take(t.Context(), three, d); ok || err != nil || d[0].OK || d[1].OK || !d[2].OK || limit.Binding(d) != 1 {
			t.Errorf("of two that refuse: %v, %v, %+v", ok, err, d)
		}
		three[2] = limit.Ask{Key: "none", Limit: limit.Limit{Period: time.Second}, N: 1}
		if ok, err := l.Take(t.Context(), three, d); ok || err != nil || d[2].OK || limit.Binding(d) != 2 {
			t.Errorf("of two that refuse, and one that allows nothing: %v, %v, %+v", ok, err, d)
		}
	})
}

// A store that needs longer than a quarter of a Life to answer is asked for what is
// needed, as without Leases, and no Take waits for the call of another.
func TestLeasesFarStore(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		for _, rtt := range []time.Duration{20 * ms, 40 * ms, 90 * ms} {
			var m memory.Store
			var calls atomic.Int64
			l := &store.Leases{Store: store.Func(func(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
				calls.Add(1)
				time.Sleep(rtt)
				return m.Take(ctx, a, d)
			})}
			var all sync.WaitGroup
			for i := range 4000 {
				all.Go(func() {
					time.Sleep(time.Duration(i) * ms)
					began := time.Now()
					d, err := store.Take(t.Context(), l, "k", limit.Limit{Count: 1250, Period: time.Second, Burst: 300}, 1)
					if took := time.Since(began); err != nil || !d.OK || i > 500 && took > 2*rtt {
						t.Errorf("%v far, question %d: %+v, %v, after %v", rtt, i, d, err, took)
					}
				})
			}
			all.Wait()
			if few := calls.Load() < 400; few != (rtt == 20*ms) {
				t.Errorf("%v far: asked %d times, want few below 25 ms, and about 4000 above", rtt, calls.Load())
			}
		}
	})
}

// Any MaxKeys will do.
func TestLeasesKeys(t *testing.T) {
	for _, keys := range []int{1, 31, 33, math.MaxInt} {
		f := new(memory.Store)
		l := &store.Leases{Store: f, MaxKeys: keys}
		for i := range 1000 {
			if _, err := store.Take(t.Context(), l, fmt.Sprint(i%10), tenThousand, 1); err != nil {
				t.Fatal(err)
			}
		}
		if asked := l.Stats().Calls; keys == math.MaxInt && asked > 200 {
			t.Errorf("Keys %d: asked %d times, want few", keys, asked)
		}
	}
}

// BenchmarkLeasesKeys is what a key takes that was asked for once.
func BenchmarkLeasesKeys(b *testing.B) {
	granted := store.Func(func(_ context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
		d[0] = limit.Decision{OK: true, N: a[0].N}
		return true, nil
	})
	for b.Loop() {
		const n = 100_000
		l := &store.Leases{Store: granted, MaxKeys: 2 * n}
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for i := range n {
			if _, err := store.Take(b.Context(), l, fmt.Sprintf("customer:%09d", i), tenThousand, 1); err != nil {
				b.Fatal(err)
			}
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n, "bytes/key")
		runtime.KeepAlive(l)
	}
}
