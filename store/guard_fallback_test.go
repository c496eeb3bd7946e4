package store_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/store"
)

// All shares together admit what the limit does and no more, whatever its Kind.
func TestGuardShares(t *testing.T) {
	const instances = 4
	for _, kind := range []limit.Kind{
		limit.TokenBucket, limit.FixedWindow, limit.FirstHitWindow, limit.CalendarWindow,
		limit.SlidingWindow, limit.SlidingLog, limit.SlidingSlots,
	} {
		for _, count := range []int64{1, 3, 22} {
			bubble.Test(t, func(t *testing.T) {
				l := limit.Limit{Kind: kind, Count: count, Period: time.Minute}
				var guards [instances]store.Guard
				for i := range guards {
					guards[i].Instances = instances
				}
				const minutes = 12
				admitted := int64(0)
				for range minutes * 60 {
					for i := range guards {
						if take(t, &guards[i], "k", l, 1).OK {
							admitted++
						}
					}
					time.Sleep(time.Second)
				}
				most := max(count, instances) + count*minutes
				least := count / instances * instances * (minutes - 1) * 8 / 10
				if count < instances {
					least = minutes / instances / 2
				}
				if admitted > most || admitted < least {
					t.Errorf("%v: %d instances admitted %d in %d minutes, want from %d to %d", l, instances, admitted, minutes, least, most)
				}
			})
		}
	}
}

// A share that becomes smaller and larger again, as instances come and go, is not
// granted again.
func TestGuardSharesChange(t *testing.T) {
	for kind := range limit.CalendarWindow + 1 {
		instances := 2
		g := store.Guard{
			Store:         store.Func(func(context.Context, []limit.Ask, []limit.Decision) (bool, error) { return false, errDown }),
			InstancesFunc: func() int { return instances },
		}
		l := limit.Limit{Kind: kind, Count: 1000, Period: limit.Month}
		admitted := 0
		for range 10 {
			for instances = 2; take(t, &g, "k", l, 1).OK; {
				admitted++
			}
			instances = 20
			take(t, &g, "k", l, 1)
		}
		if admitted > 501 { // at an edge of a window
			t.Errorf("%v, one of 2 and of 20 instances in turns: %d admitted, want 500", l, admitted)
		}
	}
}

// TestGuardSharesAtAnEdge: around an edge the shares of a window admit up to twice the
// Count together, as the limit itself would; those that slide do not. The first four
// are charged before.
func TestGuardSharesAtAnEdge(t *testing.T) {
	for kind, want := range map[limit.Kind]int64{
		limit.FixedWindow: 196, limit.CalendarWindow: 196, limit.FirstHitWindow: 196,
		limit.SlidingWindow: 96, limit.SlidingSlots: 96, limit.SlidingLog: 100,
	} {
		bubble.Test(t, func(t *testing.T) {
			l := limit.Limit{Kind: kind, Count: 100, Period: time.Minute}
			var guards [4]store.Guard
			for i := range guards {
				guards[i].Instances = len(guards)
			}
			admitted := int64(0)
			drain := func() {
				for i := range guards {
					for take(t, &guards[i], "k", l, 1).OK {
						admitted++
					}
				}
			}
			for i := range guards { // a window from the first hit begins
				take(t, &guards[i], "k", l, 1)
			}
			time.Sleep(59*time.Second + 500*ms)
			drain()
			time.Sleep(1500 * ms)
			if drain(); admitted != want {
				t.Errorf("%v: %d admitted in a second and a half around an edge, want %d", l, admitted, want)
			}
		})
	}
}

// What the shares admit beside the Store is bounded, through any number of outages
// that each instance sees at times of its own.
func TestGuardBound(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const instances = 5
		l := limit.Limit{Count: 100, Period: time.Second, Burst: 50}
		far := new(fickle)
		var guards [instances]store.Guard
		var cut, slow [instances]atomic.Bool
		for i := range guards {
			guards[i].Instances = instances
			guards[i].Store = store.Func(func(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
				if cut[i].Load() {
					return false, errDown
				}
				if slow[i].Load() {
					time.Sleep(50 * ms) // and it is charged, late
				}
				return far.Take(ctx, a, d)
			})
		}
		var admitted atomic.Int64
		var all sync.WaitGroup
		end := time.Now().Add(time.Minute)
		for i := range guards {
			all.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(i), 7))
				for time.Now().Before(end) {
					if rng.IntN(400) == 0 {
						cut[i].Store(!cut[i].Load())
					}
					if rng.IntN(400) == 0 {
						slow[i].Store(!slow[i].Load())
					}
					d, err := store.Take(t.Context(), &guards[i], "k", l, 1)
					if err != nil {
						t.Error(err)
					}
					if d.OK {
						admitted.Add(d.N)
					}
					time.Sleep(5 * ms)
				}
			})
		}
		all.Wait()
		// Store: 50 + 100 a second. Shares: the same, were all breakers open all the time.
		if n := admitted.Load(); n > 2*(50+6000) || n < 6000 {
			t.Errorf("admitted %d in a minute, want from 6000 to 12100", n)
		}
		time.Sleep(2 * time.Second) // until all questions have ended
	})
}

// Every call reaches the Store at most once and is counted once, while the Store
// fails and recovers and callers time out.
func TestGuardCounts(t *testing.T) {
	far := new(memory.Store)
	var mu sync.Mutex
	asked := map[string]int{}
	var mood atomic.Int64
	g := &store.Guard{Timeout: 2 * ms, StoreTimeout: 3 * ms, MaxCalls: 6, Failures: 1e6, Fallback: store.FallbackAllow}
	g.Store = store.Func(func(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
		mu.Lock()
		asked[a[0].Key]++
		mu.Unlock()
		switch mood.Add(1) / 50 % 4 {
		case 0:
			return false, errDown
		case 1:
			<-ctx.Done() // and answers nevertheless, late
		case 2:
			panic("boo")
		}
		return far.Take(ctx, a, d)
	})
	const callers, each = 8, 200
	var charged, gone atomic.Int64
	var all sync.WaitGroup
	for c := range callers {
		all.Go(func() {
			for i := range each {
				ctx, cancel := context.WithCancel(t.Context())
				if i%10 == 0 {
					go cancel()
				}
				d, err := store.Take(ctx, g, fmt.Sprint(c, "/", i), perMinute, 1)
				charged.Add(d.N)
				if err != nil {
					gone.Add(1)
				}
				cancel()
			}
		})
	}
	all.Wait()
	for deadline := time.Now().Add(10 * time.Second); g.Stats().Pending > 0 && time.Now().Before(deadline); {
	}
	c := g.Stats()
	if c.Decided+c.Fallback+c.Canceled != callers*each || c.Canceled != gone.Load() || c.Decided != charged.Load() || c.Pending != 0 || c.Fallback < c.Errors+c.Late {
		t.Errorf("Stats() = %+v of %d calls, %d left, %d charged", c, callers*each, gone.Load(), charged.Load())
	}
	for key, n := range asked {
		if n != 1 {
			t.Errorf("the question of %s was put %d times", key, n)
		}
	}
	if c.Decided == 0 || c.Errors == 0 || c.Late == 0 {
		t.Errorf("Stats() = %+v, want some of each", c)
	}
}

func BenchmarkGuard(b *testing.B) {
	g := &store.Guard{Store: new(memory.Store)}
	l := limit.Limit{Count: 1_000_000, Period: time.Second}
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := store.Take(ctx, g, "k", l, 1); err != nil {
			b.Fatal(err)
		}
	}
}

// The number of instances may change: each decision goes by what it is then. It
// is asked for outside locks, and not where it is not needed.
func TestGuardInstancesFunc(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		now, asked := 0, 0
		var g store.Guard
		g.Instances = 5 // not used
		g.InstancesFunc = func() int {
			asked++
			g.Stats()
			ask(t, &store.Guard{InstancesFunc: func() int { return now }}, "other", 1)
			return now
		}
		l := limit.Limit{Count: 100, Period: time.Second}
		admitted := func() (n int) {
			time.Sleep(time.Minute) // until the bucket is full
			for take(t, &g, "k", l, 1).OK {
				n++
			}
			return n
		}
		for _, test := range []struct{ instances, want int }{{0, 100}, {1, 100}, {4, 25}, {50, 2}, {-1, 100}, {1000, 1}, {2, 50}} {
			now = test.instances
			if got := admitted(); got != test.want {
				t.Errorf("with %d instances %d were admitted at once, want %d", now, got, test.want)
			}
		}
		now = 50 // of what was admitted nothing is forgotten
		if d := take(t, &g, "k", l, 1); d.OK {
			t.Errorf("with more instances, an empty share admits: %+v", d)
		}
		for _, other := range []store.Fallback{store.FallbackAllow, store.FallbackDeny} {
			asked = 0
			ask(t, &store.Guard{Fallback: other, InstancesFunc: g.InstancesFunc}, "k", 1)
			if asked != 0 {
				t.Errorf("%v asks for the number of instances", other)
			}
		}
	})
}

// If one key is refused by its Fallback, nothing is given back to another.
func TestGuardFallbackOfEachKey(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var g store.Guard // without a Store
		l := limit.Limit{Count: 10, Period: time.Hour}
		for take(t, &g, "share", l, 1).OK {
		}
		ctx := store.WithFallback(t.Context(), func(key string) (store.Fallback, bool) { return store.FallbackDeny, key == "denied" })
		a := []limit.Ask{{Key: "share", Limit: l, N: -5}, {Key: "denied", Limit: l, N: 1}}
		d := make([]limit.Decision, 2)
		ok, err := g.Take(ctx, a, d)
		if ok || err != nil || !d[0].OK || d[0].N != 0 || d[1].OK {
			t.Errorf("Take = %t, %+v, %v, want a refusal of the second, and no refund", ok, d, err)
		}
		if d := take(t, &g, "share", l, 1); d.OK {
			t.Errorf("after a refund that was refused for another key's sake: %+v, want a refusal", d)
		}
		closed := store.Guard{Fallback: store.FallbackDeny}
		ctx = store.WithFallback(t.Context(), func(key string) (store.Fallback, bool) { return store.FallbackAllow, key == "open" })
		for key, want := range map[string]bool{"open": true, "other": false} {
			if d, err := store.Take(ctx, &closed, key, l, 1); err != nil || d.OK != want {
				t.Errorf("%s, of a Guard that denies: %v, %v; want %v", key, d.OK, err, want)
			}
		}
	})
}

// What does not fit into a share is refused for a second where the Store may grant it,
// or a part of it that would do; forever where it is more than the limit.
func TestGuardSharesGrantAPartLater(t *testing.T) {
	for _, c := range []struct {
		n, least int64
		want     time.Duration
	}{{8, 0, time.Second}, {11, 0, limit.Never}, {11, 8, time.Second}, {20, 11, limit.Never}} {
		g := &store.Guard{Instances: 3} // it has no Store
		d := make([]limit.Decision, 1)
		ok, err := g.Take(t.Context(), []limit.Ask{{Key: "k", Limit: perMinute, N: c.n, Min: c.least}}, d)
		if ok || err != nil || d[0].RetryAfter != c.want {
			t.Errorf("%d, %d at least, of 3 of 10: %v, %v, %+v; want it refused for %v", c.n, c.least, ok, err, d, c.want)
		}
	}
}

// Where the Fallback of one key refuses, the decision about another is still its own:
// the longer wait for its share is told, and nothing is charged.
func TestGuardFallbackOfEachKeyWaits(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		g := store.Guard{Instances: 2} // without a Store
		l := limit.Limit{Count: 2, Period: time.Hour}
		take(t, &g, "used", l, 1)
		ctx := store.WithFallback(t.Context(), func(key string) (store.Fallback, bool) {
			return map[string]store.Fallback{"denied": store.FallbackDeny, "free": store.FallbackAllow}[key], true
		})
		for _, c := range []struct {
			ask  limit.Ask
			ok   bool
			wait time.Duration
		}{
			{limit.Ask{Key: "used", N: 1}, false, time.Hour},
			{limit.Ask{Key: "used", N: 3}, false, limit.Never},
			{limit.Ask{Key: "used", N: 2, Min: 1}, false, time.Hour},
			{limit.Ask{Key: "used", N: 2, Debt: true}, true, 0},
			{limit.Ask{Key: "used"}, true, 0},
			{limit.Ask{Key: "used", N: -1}, true, 0},
			{limit.Ask{Key: "unused", N: 1}, true, 0},
			{limit.Ask{Key: "unused", N: 2}, false, time.Second},
			{limit.Ask{Key: "free", N: 3}, true, 0},
		} {
			c.ask.Limit = l
			a := []limit.Ask{c.ask, {Key: "denied", Limit: l, N: 1}}
			d := make([]limit.Decision, 2)
			ok, err := g.Take(ctx, a, d)
			if ok || err != nil || d[0].OK != c.ok || d[0].N != 0 || d[0].RetryAfter != c.wait || d[0].Max != 2 || d[1].OK || d[1].RetryAfter != time.Second {
				t.Errorf("Take(%+v) beside one denied = %t, %+v, %v; want OK %t after %v, and nothing charged", c.ask, ok, d, err, c.ok, c.wait)
			}
		}
		if d := take(t, &g, "unused", l, 1); !d.OK {
			t.Errorf("after refusals: %+v, want it admitted", d)
		}
	})
}
