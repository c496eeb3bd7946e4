package store_test

import (
	"context"
	"errors"
	"fmt"
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
)

// A remote store is a memory.Store that takes a millisecond to decide.
type remote struct {
	memory.Store
	asked atomic.Int64 // keys
	calls atomic.Int64
	most  atomic.Int64 // at a time
	now   atomic.Int64
	fails atomic.Pointer[error]
}

func (f *remote) Take(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
	f.calls.Add(1)
	f.asked.Add(int64(len(a)))
	f.most.Store(max(f.most.Load(), f.now.Add(1)))
	defer f.now.Add(-1)
	select {
	case <-time.After(ms):
	case <-ctx.Done():
		return false, ctx.Err()
	}
	if err := f.fails.Load(); err != nil {
		return false, *err
	}
	return f.Store.Take(ctx, a, d)
}

var tenThousand = limit.Limit{Count: 10_000, Period: time.Second}

// A hot key: 10,000 requests a second cost the Store some 20 calls, never more than
// one at a time, and nearly all that may pass do.
func TestLeasesHotKey(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		for _, test := range []struct {
			limit limit.Limit
			ok    int64 // at least, of 20,000
			calls int64 // at most
			most  int64 // at a time
		}{
			{tenThousand, 19_950, 70, 2}, // asked for just as fast
			{limit.Limit{Count: 1000, Period: time.Second}, 2900, 100, 2},
			{limit.Limit{Kind: limit.FixedWindow, Count: 5000, Period: time.Second}, 9500, 80, 2},
			{limit.Limit{Count: 10, Period: time.Hour}, 10, 30, 10}, // too few to lease,
		} {
			f := new(remote)
			l := &store.Leases{Store: f}
			var ok atomic.Int64
			var all sync.WaitGroup
			for i := range 10 {
				all.Go(func() {
					for n := range 2000 {
						time.Sleep(ms) // and what an answer takes
						if d, err := store.Take(t.Context(), l, "k", test.limit, 1); err != nil || d.OK != (d.N == 1) || !d.OK && d.RetryAfter <= 0 {
							t.Errorf("question %d of %d: %+v, %v", n, i, d, err)
						} else if d.OK {
							ok.Add(1)
						}
					}
				})
			}
			all.Wait()
			if got := ok.Load(); got < test.ok || f.calls.Load() > test.calls || f.most.Load() > test.most {
				t.Errorf("%v: %d passed, the store was asked %d times, %d at once; want at least %d, and %d times, %d at once",
					test.limit, got, f.calls.Load(), f.most.Load(), test.ok, test.calls, test.most)
			}
			if c := l.Stats(); c.Calls != f.calls.Load() || c.Calls+c.Local < 20_000 {
				t.Errorf("%v: Stats() = %+v, the store was asked %d times", test.limit, c, f.calls.Load())
			}
		}
	})
}

// Keys that are asked for now and then cost what they would cost without.
func TestLeasesColdKeys(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := new(remote)
		l := &store.Leases{Store: f, MaxKeys: 64}
		var m memory.Store
		for i := range 1000 {
			key := fmt.Sprint("key ", i%300)
			got, err := store.Take(t.Context(), l, key, tenThousand, 1)
			want, _ := m.TakeOne(t.Context(), limit.Ask{Key: key, Limit: tenThousand, N: 1})
			if want.At = got.At; err != nil || got != want {
				t.Fatalf("question %d: %+v, %v, want %+v", i, got, err, want)
			}
		}
		if n := f.asked.Load(); n != 1000 {
			t.Errorf("the store was asked %d times, want 1000", n)
		}
	})
}

// Takes that wait for the call of another return by their deadlines, and continue
// when that one gives up.
func TestLeasesPatience(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := new(remote)
		l := &store.Leases{Store: f}
		ask := func(patience time.Duration) (limit.Decision, error) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			return store.Take(ctx, l, "k", tenThousand, 1)
		}
		hot(t, l, "k")
		f.calls.Store(0)
		began := time.Now()
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := ask(ms / 2); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != ms/2 {
				t.Errorf("who asks: %v after %v", err, time.Since(began))
			}
		})
		synctest.Wait()
		all.Go(func() {
			if _, err := ask(ms / 4); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "not decided") || time.Since(began) != ms/4 {
				t.Errorf("who waits: %v after %v", err, time.Since(began))
			}
		})
		for range 5 {
			all.Go(func() {
				if d, err := ask(time.Second); err != nil || !d.OK || time.Since(began) > 3*ms {
					t.Errorf("who is patient: %+v, %v after %v", d, err, time.Since(began))
				}
			})
		}
		all.Wait()
		if n := f.calls.Load(); n > 6 { // after one was lost, each asks for what it needs
			t.Errorf("the store was asked %d times, want 6 at most", n)
		}
	})
}

// An error of the Store reaches all that wait for the call, and the next Take calls
// again; a panic reaches only the Take that made the call.
func TestLeasesErrors(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := new(remote)
		l := &store.Leases{Store: f}
		for range 20 {
			store.Take(t.Context(), l, "k", tenThousand, 1)
		}
		time.Sleep(limit.DefaultLife)
		f.calls.Store(0)
		f.fails.Store(&errDown)
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				if d, err := store.Take(t.Context(), l, "k", tenThousand, 1); !errors.Is(err, errDown) || d.OK {
					t.Errorf("%+v, %v, want %v", d, err, errDown)
				}
			})
		}
		all.Wait()
		if n := f.calls.Load(); n != 1 {
			t.Errorf("the store was asked %d times, want once", n)
		}
		f.fails.Store(nil)
		for range 20 { // granted ahead, it is good while the Store is down
			store.Take(t.Context(), l, "k", tenThousand, 1)
		}
		f.fails.Store(&errDown)
		if d, err := store.Take(t.Context(), l, "k", tenThousand, 1); err != nil || !d.OK {
			t.Errorf("what is leased: %+v, %v, want it to pass", d, err)
		}
		time.Sleep(limit.DefaultLife)
		if _, err := store.Take(t.Context(), l, "k", tenThousand, 1); !errors.Is(err, errDown) {
			t.Errorf("what was leased long ago: %v, want %v", err, errDown)
		}
		var none store.Leases
		if _, err := store.Take(t.Context(), &none, "k", tenThousand, 1); err == nil {
			t.Error("without a store there is no error")
		}
		sick := &store.Leases{Store: store.Func(func(context.Context, []limit.Ask, []limit.Decision) (bool, error) { panic("boo") })}
		for range 2 { // it holds nobody up
			func() {
				defer func() {
					if p := recover(); p != "boo" {
						t.Errorf("recovered %v, want boo", p)
					}
				}()
				store.Take(t.Context(), sick, "k", tenThousand, 1)
			}()
		}
	})
}

// Several keys are all or nothing, whichever of them are leased: what is held is
// returned when another one refuses.
func TestLeasesSeveral(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := new(remote)
		l := &store.Leases{Store: f}
		scarce := limit.Limit{Count: 3, Period: time.Hour}
		for range 20 { // hot is leased then
			store.Take(t.Context(), l, "hot", tenThousand, 1)
		}
		calls, asked := f.calls.Load(), f.asked.Load()
		pair := []limit.Ask{{Key: "hot", Limit: tenThousand, N: 1}, {Key: "scarce", Limit: scarce, N: 1}}
		d := make([]limit.Decision, 2)
		var left [5]int64
		for i := range left {
			ok, err := l.Take(t.Context(), pair, d)
			if ok != (i < 3) || err != nil || d[1].OK != ok || !d[0].OK {
				t.Errorf("pair %d: %v, %v, %+v", i, ok, err, d)
			}
			if left[i] = d[0].Remaining; !ok && (d[0].N != 0 || d[0].RetryAfter != 0 || d[1].RetryAfter <= 0) {
				t.Errorf("pair %d was refused: %+v", i, d)
			}
		}
		if left[3] != left[2] || left[4] != left[2] || left[2] != left[0]-2 {
			t.Errorf("of the leased key %d remained, want 2 less after the third and none used by those that were refused", left)
		}
		if calls, asked := f.calls.Load()-calls, f.asked.Load()-asked; calls != 4 || asked != 4 {
			t.Errorf("the store was asked %d times about %d keys, want 4 about the scarce one: the last refusal is known", calls, asked)
		}
		// What cannot be leased goes to the store, with what is not held.
		mixed := []limit.Ask{{Key: "hot", Limit: tenThousand, N: 1}, {Key: "back", Limit: scarce, N: -1}, {Key: "look", Limit: scarce}}
		if ok, err := l.Take(t.Context(), mixed, make([]limit.Decision, 3)); !ok || err != nil || f.asked.Load()-asked != 6 {
			t.Errorf("mixed: %v, %v, asked about %d keys; want it to pass, and 2 more", ok, err, f.asked.Load()-asked)
		}
		if _, err := l.Take(t.Context(), []limit.Ask{pair[0], pair[0]}, d); err == nil {
			t.Error("two asks about one key are no error")
		}
		if _, err := l.Take(t.Context(), pair, d[:1]); err == nil {
			t.Error("asks and decisions may differ in number")
		}
	})
}

// Pairs in opposite order do not deadlock, and nothing is used that was not charged,
// whichever of them gives up.
func TestLeasesOpposite(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := new(remote)
		l := &store.Leases{Store: f}
		few := limit.Limit{Count: 2000, Period: time.Second, Burst: 100}
		pairs := [][]limit.Ask{
			{{Key: "a", Limit: tenThousand, N: 1}, {Key: "b", Limit: few, N: 2}},
			{{Key: "b", Limit: few, N: 1}, {Key: "a", Limit: tenThousand, N: 1}},
			{{Key: "b", Limit: few, N: 1}},
			{{Key: "a", Limit: tenThousand, N: 3}},
			{{Key: "c", Limit: few, N: 1}, {Key: "b", Limit: few, N: 1}, {Key: "a", Limit: tenThousand, N: 1}},
		}
		var used sync.Map
		began := time.Now()
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				for n := range 500 {
					patience := time.Duration(1+(i*7+n)%9) * ms / 2
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					a := pairs[(i+n)%len(pairs)]
					d := make([]limit.Decision, len(a))
					called := time.Now()
					ok, err := l.Take(ctx, a, d)
					cancel()
					if took := time.Since(called); took > patience {
						t.Errorf("a call took %v, with a patience of %v", took, patience)
					}
					for k := range a {
						if ok && err == nil {
							n, _ := used.LoadOrStore(a[k].Key, new(atomic.Int64))
							n.(*atomic.Int64).Add(a[k].N)
						}
					}
					time.Sleep(ms / 3)
				}
			})
		}
		all.Wait()
		took := (time.Since(began) + limit.DefaultLife).Seconds()
		for _, a := range pairs[4] {
			n, _ := used.Load(a.Key)
			got, most := n.(*atomic.Int64).Load(), float64(a.Limit.Max())+float64(a.Limit.Count)*took
			if float64(got) > most || got < 20 {
				t.Errorf("%s: %d were used in %.3f s, want at most %.0f, and some", a.Key, got, took, most)
			}
		}
	})
}

// A changed limit is leased again, and keys beyond MaxKeys displace idle ones.
func TestLeasesForget(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := new(remote)
		l := &store.Leases{Store: f, MaxKeys: 320}
		for range 20 {
			store.Take(t.Context(), l, "hot", tenThousand, 1)
		}
		calls := f.calls.Load()
		for i := range 2000 {
			store.Take(t.Context(), l, fmt.Sprint(i), tenThousand, 1)
			store.Take(t.Context(), l, "hot", tenThousand, 1)
		}
		if more := f.calls.Load() - calls - 2000; more > 60 {
			t.Errorf("the hot key cost %d questions, want some 20 a second", more)
		}
		for range 20 {
			store.Take(t.Context(), l, "hot", tenThousand, 1)
		}
		calls = f.calls.Load()
		none := limit.Limit{Count: 0, Period: time.Second}
		if d, err := store.Take(t.Context(), l, "hot", none, 1); d.OK || err != nil {
			t.Errorf("what is not allowed any more: %+v, %v", d, err)
		}
		half := limit.Limit{Count: 5000, Period: time.Second}
		if d, err := store.Take(t.Context(), l, "hot", half, 1); !d.OK || err != nil || f.calls.Load() != calls+2 {
			t.Errorf("another limit: %+v, %v, asked %d times; want it to pass, and twice", d, err, f.calls.Load()-calls)
		}
	})
}

// A key in use is not displaced, also while all of its calls are answered without the
// Store.
func TestLeasesKeepWhatIsUsed(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := new(remote)
		l := &store.Leases{Store: f, Life: time.Hour, MaxKeys: 320}
		plenty := limit.Limit{Count: 1 << 30, Period: time.Hour}
		for i := range 2000 {
			store.Take(t.Context(), l, "hot", plenty, 1)
			store.Take(t.Context(), l, fmt.Sprint(i), plenty, 1)
			time.Sleep(2 * ms)
		}
		if n := f.calls.Load() - 2000; n > 20 {
			t.Errorf("the hot key cost %d questions, want about 11: as many as it doubles to 2000", n)
		}
	})
}

// Behind Leases a Guard is asked for more than a share has, and one that lets
// all pass charges nothing.
func TestLeasesGuard(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		for away, want := range map[store.Fallback][2]int{store.FallbackAllow: {100, 100}, store.FallbackDeny: {0, 0}, store.FallbackLocal: {40, 60}} {
			down := store.Func(func(context.Context, []limit.Ask, []limit.Decision) (bool, error) { return false, errDown })
			l := &store.Leases{Store: &store.Guard{Store: down, Fallback: away, Instances: 2}}
			passed := 0
			for range 100 {
				d, err := store.Take(t.Context(), l, "k", limit.Limit{Count: 100, Period: time.Hour}, 1)
				if err != nil {
					t.Fatal(err)
				}
				if d.OK {
					passed++
				}
			}
			if passed < want[0] || passed > want[1] {
				t.Errorf("%v: %d of 100 passed, want %v", away, passed, want)
			}
		}
	})
}

func BenchmarkLeases(b *testing.B) {
	l := &store.Leases{Store: new(memory.Store), Life: time.Hour}
	endless := limit.Limit{Count: 1 << 50, Period: time.Second}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if d, err := store.Take(b.Context(), l, "k", endless, 1); !d.OK || err != nil {
				b.Fatal(d, err)
			}
		}
	})
}
