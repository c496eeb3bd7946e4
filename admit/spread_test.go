package admit

import (
	"context"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/rules"
	"github.com/throttle-go/throttle/store"
)

var t0 = time.Unix(1_800_000_000, 0)

// TestPromisesOfCosts: callers that cost so much that a part of each window is left
// over are served when they come as told, by whole seconds or by milliseconds.
func TestPromisesOfCosts(t *testing.T) {
	for kind := limit.TokenBucket; kind <= limit.CalendarWindow; kind++ {
		for _, whole := range []bool{false, true} {
			if kind == limit.SlidingWindow { // which refuses some of cost 1 too
				continue
			}
			bubble.Test(t, func(t *testing.T) {
				c := &Control{Limit: limit.Limit{Kind: kind, Count: 5, Period: time.Minute}, Spread: time.Hour}
				ask := func(caller string, cost int64) *Admission {
					a, err := c.Begin(t.Context(), Request{Key: "k", Caller: caller, Request: rules.Request{Cost: func(string) int64 { return cost }}})
					if a.Done(); err != nil {
						t.Error(err)
					}
					return a
				}
				ask("first", 5)
				var callers sync.WaitGroup
				for i := range 30 {
					callers.Go(func() {
						a := ask(fmt.Sprint(i), 2)
						told := a.RetryAfter
						if whole {
							told = a.RetryAfterWhole
						}
						time.Sleep(told + 2*trip) // an answer travels for longer than trip
						if a = ask(fmt.Sprint(i), 2); !a.OK {
							t.Errorf("%v, whole seconds %v: refused again after %v, for %v", kind, whole, told, a.RetryAfter)
						}
					})
					synctest.Wait()
				}
				callers.Wait()
			})
		}
	}
}

// TestSpreadOverShortWindows: callers that know whole seconds only, and were refused at
// once by windows shorter than that, come at the same fraction of a second: one window passes.
func TestSpreadOverShortWindows(t *testing.T) {
	for _, period := range []time.Duration{100 * ms, 300 * ms, 700 * ms} {
		bubble.Test(t, func(t *testing.T) {
			c := &Control{Limit: limit.Limit{Kind: limit.FixedWindow, Count: 5, Period: period}}
			ask := func(caller int) *Admission {
				a, err := c.Begin(t.Context(), Request{Key: "k", Caller: fmt.Sprint(caller)})
				if a.Done(); err != nil {
					t.Error(err)
				}
				return a
			}
			var callers sync.WaitGroup
			for i := range 105 {
				callers.Go(func() {
					a := ask(i)
					if a.OK {
						return
					}
					told := a.RetryAfterWhole
					time.Sleep(told + 2*trip)
					if a = ask(i); !a.OK {
						t.Errorf("5 in %v: refused again after %v, for %v", period, told, a.RetryAfterWhole)
					}
				})
			}
			callers.Wait()
		})
	}
}

// TestSpreadWithoutBound: refused callers have times of their own under the longest
// Spread there is.
func TestSpreadWithoutBound(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := &Control{Limit: limit.Limit{Count: 1, Period: time.Second}, Spread: math.MaxInt64, Milliseconds: true}
		var told []time.Duration
		for i := range 4 {
			a, err := c.Begin(t.Context(), Request{Key: "k", Caller: fmt.Sprint(i)})
			if a.Done(); err != nil {
				t.Fatal(err)
			}
			told = append(told, a.RetryAfter)
		}
		if want := []time.Duration{0, time.Second, 2 * time.Second, 3 * time.Second}; !slices.Equal(told, want) {
			t.Errorf("callers of 1/s are told %v, want %v", told, want)
		}
	})
}

// TestSpreadByConnection: callers behind one address are told apart by their connections.
func TestSpreadByConnection(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := &Control{Limit: limit.Limit{Count: 1, Period: time.Second}}
		for _, step := range []struct {
			conn string
			told time.Duration
		}{{"a", 0}, {"a", time.Second}, {"b", 2 * time.Second}, {"c", 3 * time.Second}, {"b", 2 * time.Second}} {
			a, err := c.Begin(t.Context(), Request{Key: "k", Conn: step.conn})
			if a.Done(); err != nil || a.RetryAfter != step.told {
				t.Errorf("on connection %s: told %v, %v; want %v", step.conn, a.RetryAfter, err, step.told)
			}
		}
	})
}

// TestSpreadOfLaterTimes: callers whose times have become too early, as more is owed by
// now, get later times of their own.
func TestSpreadOfLaterTimes(t *testing.T) {
	var s slots
	second := promise{earliest: time.Second, each: time.Second, room: time.Second, bound: time.Minute}
	for _, earliest := range []time.Duration{time.Second, 20 * time.Second} {
		for i := range 5 {
			p := second
			p.earliest = earliest
			got := s.next(1, caller{host: 99, conn: uint64(i + 1)}, t0, p)
			if want := earliest + time.Duration(i)*time.Second; got.whole != want || got.exact != want {
				t.Errorf("caller %d, at the earliest in %v: told %v and %v, want %v", i, earliest, got.whole, got.exact, want)
			}
		}
	}
}

// TestPeriodOfCalendar: callers are told of the window that a calendar limit counts in,
// where its Period is rounded up to one.
func TestPeriodOfCalendar(t *testing.T) {
	zone := time.FixedZone("no name of a zone", 3600)
	c := &Control{Limit: limit.Limit{Kind: limit.CalendarWindow, Count: 86_400, Period: 12 * time.Hour, Zone: zone}}
	a, err := c.Begin(t.Context(), Request{Key: "k", Caller: "one"})
	defer a.Done()
	if policy, _ := a.RateLimit(); err != nil || policy != `"default";q=86400;w=86400` {
		t.Errorf("the policy of 86400 a day, written as 12 hours = %s, %v", policy, err)
	}
	if share := a.Share(); share < 0.9 || share > 1.1 { // by an estimate of the callers
		t.Errorf("the share of one caller = %v a second, want about 1", share)
	}
	if p := promiseOf(c.Limit, 1, time.Second); p.each != time.Second {
		t.Errorf("one of 86400 a day is promised in %v, want 1s", p.each)
	}
}

// Promises are kept for a bounded number of keys, and not beyond their time.
func TestPromisesAreForgotten(t *testing.T) {
	now := t0
	l := limit.Limit{Count: 1, Period: time.Hour}
	h := &Control{Limit: l, Store: store.Func(func(_ context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
		full, _ := limit.Take(limit.State{}, now, a[0])
		_, d[0] = limit.Take(full, now, a[0])
		return false, nil
	})}
	refuse := func(client string) { begin(t, h, client).Done() }
	for i := range maxSpread + 10 {
		refuse(fmt.Sprint(i))
	}
	if n, callers := len(h.slots.keys.keys), len(h.slots.callers.keys); n != maxSpread || callers != maxSpread {
		t.Errorf("promises are kept for %d keys and %d callers, want %d of each", n, callers, maxSpread)
	}
	now = t0.Add(3 * time.Hour)
	for i := range 100 {
		refuse(fmt.Sprint("later", i))
	}
	if n := len(h.slots.keys.keys); n != maxSpread-101 {
		t.Errorf("%d keys, want %d: for each that comes two are forgotten that are over", n, maxSpread-101)
	}
	h.slots.next(1, caller{}, t0, promise{earliest: 100 * 24 * time.Hour, each: time.Second, bound: time.Minute})
	if h.slots.keys.keys[1] != nil {
		t.Error("a wait of a hundred days is kept, want none beyond a day")
	}
}

// TestCrowdsAreForgotten: the callers of a bounded number of keys are counted.
func TestCrowdsAreForgotten(t *testing.T) {
	var c crowds
	for i := range maxSpread + 5 {
		c.size(uint64(i), 1, t0)
	}
	if n := len(c.keys.keys); n != maxSpread {
		t.Errorf("%d crowds, want %d", n, maxSpread)
	}
}

func FuzzPromise(f *testing.F) {
	f.Add(int64(10), int64(time.Second), int64(0), int64(1), int64(time.Second), true, int64(0))
	f.Add(int64(1)<<62, int64(1), int64(1)<<62, int64(1)<<62, int64(1)<<62, false, int64(1)<<60)
	f.Add(int64(10), int64(time.Second), int64(0), int64(1), int64(limit.Never)-1, true, int64(0))
	f.Fuzz(func(t *testing.T, count, period, burst, n, earliest int64, ms bool, until int64) {
		l := limit.Limit{Count: count, Period: time.Duration(period), Burst: burst}
		p := promiseOf(l, n, time.Duration(max(earliest, 0)))
		i := 0
		if ms {
			i = 1
		}
		p.bound = time.Minute
		var s slots
		u := s.keys.at(7, 1)
		u.exact = t0.Add(time.Duration(until % int64(24*time.Hour)))
		u.whole[0] = u.exact
		after := s.next(7, caller{}, t0, p)
		got, grain := [2]time.Duration{after.whole, after.exact}[i], grains[i]
		if got < p.earliest || got < grain && got != limit.Never {
			t.Fatalf("promise %+v: %v, want not before the earliest", p, got)
		}
		if got > p.earliest && got-p.earliest > p.bound+2*grain {
			t.Fatalf("promise %+v: %v, want at most a minute more", p, got)
		}
	})
}

// A caller that was told a time keeps it no longer than Spread allows, once its limit
// or the clock of the Store has changed.
func TestSpreadBoundsATimeToldBefore(t *testing.T) {
	hourly := limit.Limit{Kind: limit.FixedWindow, Count: 1, Period: time.Hour}
	faster := limit.Limit{Kind: limit.FixedWindow, Count: 1, Period: time.Second}
	for _, c := range []struct {
		name   string
		after  limit.Limit
		clock  time.Duration
		within time.Duration
	}{
		{"the same again", hourly, 0, time.Hour},
		{"another limit", faster, 0, time.Minute + 2*time.Second},
		{"a clock set back", faster, -5 * time.Hour, time.Minute + 2*time.Second},
	} {
		bubble.Test(t, func(t *testing.T) {
			l, ahead := hourly, time.Duration(0)
			control := Control{
				LimitFor: func(Request) limit.Limit { return l },
				Store: store.Func(func(_ context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
					now := time.Now().Add(ahead)
					full, _ := limit.Take(limit.State{}, now, limit.Ask{Limit: l, N: 1})
					_, d[0] = limit.Take(full, now, a[0])
					return d[0].OK, nil
				}),
			}
			refused := func() time.Duration {
				a, err := control.Begin(t.Context(), Request{Key: "k", Conn: "1"})
				if err != nil || a.OK {
					t.Fatalf("%s: Begin = %v, %v; want a refusal", c.name, a.OK, err)
				}
				a.Done()
				return max(a.RetryAfter, a.RetryAfterWhole)
			}
			first := refused()
			l, ahead = c.after, c.clock
			if told := refused(); told > c.within || c.after == hourly && told != first {
				t.Errorf("%s: told %v, and then %v; want %v at most", c.name, first, told, c.within)
			}
		})
	}
}

// TestSpreadIsBeyondTheEarliest: the bound is on what is added to the earliest time,
// which may be longer itself; beyond it, times start over.
func TestSpreadIsBeyondTheEarliest(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := &Control{Limit: limit.Limit{Kind: limit.FixedWindow, Count: 3600, Period: time.Hour}, Spread: 4 * time.Second}
		cost := func(string) int64 { return 3600 }
		if a, err := c.Begin(t.Context(), Request{Key: "k", Request: rules.Request{Cost: cost}}); err != nil || !a.OK {
			t.Fatalf("Begin of a whole window = %v, %v", a.OK, err)
		}
		for i := range 12 {
			a, err := c.Begin(t.Context(), Request{Key: "k", Caller: fmt.Sprint(i)})
			if want := time.Hour + time.Duration(i%5)*time.Second; err != nil || a.RetryAfter != want {
				t.Errorf("caller %d is told %v, %v; want %v", i, a.RetryAfter, err, want)
			}
		}
	})
}

// TestSpreadByAddressAndFields: callers of one key are told apart by their addresses, and
// by the fields in which proxies and clients tell callers apart, or by their Callers.
func TestSpreadByAddressAndFields(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := &Control{Limit: limit.Limit{Count: 1, Period: time.Minute}, Spread: time.Hour}
		begin := func(address, field, value string) time.Duration {
			q := Request{Key: "k", Request: rules.Request{Address: netip.MustParseAddr(address)}}
			if field == "Caller" {
				q.Caller = value
			}
			q.Header = func(name string) string {
				if name == field {
					return value
				}
				return ""
			}
			a, err := c.Begin(t.Context(), q)
			if err != nil {
				t.Error(err)
			}
			time.Sleep(2 * time.Second) // until then others may have the address
			return a.RetryAfter
		}
		begin("192.0.2.1", "", "")
		for i, who := range [][3]string{
			{"192.0.2.1"},
			{"192.0.2.2"},
			{"192.0.2.1", "X-Forwarded-For", "198.51.100.1"},
			{"192.0.2.1", "X-Forwarded-For", "198.51.100.2"},
			{"192.0.2.1", "Forwarded", "for=a"},
			{"192.0.2.1", "X-Real-Ip", "a"},
			{"192.0.2.1", "Authorization", "a"},
			{"192.0.2.1", "User-Agent", "a"},
			{"192.0.2.1", "Caller", "a"},
			{"192.0.2.1", "Caller", "b"},
		} {
			first, again := begin(who[0], who[1], who[2]), begin(who[0], who[1], who[2])
			if want := time.Duration(i+1)*time.Minute - time.Duration(2+4*i)*time.Second; first != want || again != want-2*time.Second {
				t.Errorf("%v is told %v, and %v 2 s later; want a time of its own, %v", who, first, again, want)
			}
		}
	})
}

// What passes counts for a Period, and in slots for one of them more.
func TestPromiseCountsFor(t *testing.T) {
	for _, c := range []struct {
		kind  limit.Kind
		slots int32
		want  time.Duration
	}{
		{limit.SlidingWindow, 0, 10 * time.Second},
		{limit.SlidingSlots, -1, 11 * time.Second},
		{limit.SlidingSlots, 0, 11 * time.Second},
		{limit.SlidingSlots, 2, 15 * time.Second},
		{limit.SlidingSlots, math.MaxInt32, 10*time.Second + 10*time.Second/limit.MaxSlots},
		{limit.FixedWindow, 0, 0},
	} {
		l := limit.Limit{Kind: c.kind, Slots: c.slots, Count: 10, Period: 10 * time.Second}
		if got := promiseOf(l, 1, time.Second).counts.Round(time.Microsecond); got != c.want {
			t.Errorf("promiseOf(%+v) counts for %v, want %v", l, got, c.want)
		}
	}
}
