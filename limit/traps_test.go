package limit

import (
	"math"
	"testing"
	"time"
)

// Each test here is named after a way in which limiters have been seen to fail,
// and fails itself if ours does. The libraries and the numbers in their
// trackers are named; what else they are good for is another matter.

// eachKind runs a test for a limit of every kind.
func eachKind(t *testing.T, count int64, period time.Duration, test func(t *testing.T, k *keeper)) {
	for kind := range Kind(unknownKind) {
		t.Run(kind.String(), func(t *testing.T) {
			test(t, &keeper{Limit: Limit{Kind: kind, Count: count, Period: period}})
		})
	}
}

// admitted is how many of n asks of one each pass at a time.
func (k *keeper) admitted(now time.Time, n int) (passed int) {
	for range n {
		if k.take(now, Ask{N: 1}).OK {
			passed++
		}
	}
	return passed
}

// golang.org/x/time/rate stores an earlier time than it had (golang/go#56287,
// #65508, #23145, tikv/pd#10744): times that alternate by a second mint a
// second's tokens each time, 200 of 200 pass.
func TestTrapClockBackMintsTokens(t *testing.T) {
	eachKind(t, 10, time.Second, func(t *testing.T, k *keeper) {
		passed := 0
		for range 100 {
			passed += k.admitted(t0.Add(time.Second), 1) + k.admitted(t0, 1)
		}
		if passed > 20 {
			t.Errorf("%d of 200 pass at 10/s within a second, want at most 20", passed)
		}
	})
}

// uber-go/ratelimit (#106), throttled and kubelet (kubernetes#38602) wait out
// the hour that the clock was set back by; juju/ratelimit#22 waits wrongly.
func TestTrapClockBackLocksOut(t *testing.T) {
	eachKind(t, 10, time.Second, func(t *testing.T, k *keeper) {
		k.admitted(t0, 20)
		now := t0.Add(-time.Hour)
		d := k.take(now, Ask{N: 1})
		if d.OK || d.RetryAfter > 3*time.Minute {
			t.Errorf("an hour back: %+v; want a refusal for at most the next window and a second", d)
		}
		if d = k.take(now.Add(d.RetryAfter), Ask{N: 1}); !d.OK {
			t.Errorf("an hour back, after the wait: %+v", d)
		}
	})
}

// golang.org/x/time/rate gives back less than was reserved if others reserved
// since, and rounds (golang/go#56924, #69419, gocryptotrader#2371): three
// reserved and given back leave less than nothing.
func TestTrapGivingBackLosesTokens(t *testing.T) {
	eachKind(t, 60, time.Second, func(t *testing.T, k *keeper) {
		k.Burst = 3
		for range 3 {
			k.take(t0, Ask{N: 1})
		}
		for i := range 3 {
			k.take(t0, Ask{N: -1})
			if got, want := k.take(t0, Ask{}).Remaining, k.Max()-2+int64(i); got != want {
				t.Errorf("%d of 3 given back: %d left, want %d", i+1, got, want)
			}
		}
		if d := k.take(t0, Ask{}); d.Remaining != d.Max || d.ResetAfter != 0 {
			t.Errorf("all given back: %+v", d)
		}
	})
}

// golang.org/x/time/rate restores nothing for a reservation that was granted at
// once (model-hotel#976): 5 of 10 reserved and cancelled are gone.
func TestTrapGivingBackAtOnceRestoresNothing(t *testing.T) {
	eachKind(t, 10, time.Second, func(t *testing.T, k *keeper) {
		k.take(t0, Ask{N: 5})
		if d := k.take(t0.Add(us), Ask{N: -5}); !d.OK || d.Remaining != 10 {
			t.Errorf("%+v, want 10 remaining", d)
		}
	})
}

// golang.org/x/time/rate takes an interval of 0 or -1 for no limit and a NaN
// for everything (golang/go#68541), uber-go/ratelimit and failsafe-go divide by
// zero; sentinel-golang#461 lets everything in at a threshold of zero.
func TestTrapZeroRateAllowsOrPanics(t *testing.T) {
	for _, count := range []int64{0, -1, math.MinInt64} {
		eachKind(t, count, time.Second, func(t *testing.T, k *keeper) {
			for _, n := range []int64{1, 2, math.MaxInt64} {
				if d := k.take(t0, Ask{N: n}); d.OK || d.RetryAfter != Never || d.Remaining != 0 || d.Max != 0 {
					t.Errorf("%d of a count of %d: %+v; want a refusal for ever", n, count, d)
				}
			}
		})
	}
}

// cockroachdb/tokenbucket answers a rate of zero or near it with a wait of one
// nanosecond (cockroach#55652, #55904): those who wait spin.
func TestTrapTinyRateWaitsANanosecond(t *testing.T) {
	eachKind(t, 1, math.MaxInt64, func(t *testing.T, k *keeper) {
		k.take(t0, Ask{N: 1})
		if d := k.take(t0, Ask{N: 1}); d.OK || d.RetryAfter < 24*time.Hour {
			t.Errorf("1 in 292 years: %+v; want to wait for years", d)
		}
	})
}

// A request above the burst is an error at run time in golang.org/x/time/rate
// (golang/go#16854, #80698), waits for a finite time in vain in bucket4j#220,
// and polls for ever in clipperhouse/rate.
func TestTrapAboveTheBurstWaitsInVain(t *testing.T) {
	eachKind(t, 10, time.Second, func(t *testing.T, k *keeper) {
		for _, n := range []int64{11, 1 << 40, math.MaxInt64} {
			d := k.take(t0, Ask{N: n})
			if d.OK || d.RetryAfter != Never || d.Max != 10 {
				t.Errorf("%d of 10: %+v; want Never, and Most to say why", n, d)
			}
		}
		if d := k.take(t0, Ask{N: 11, Debt: true}); !d.OK || d.N != 11 {
			t.Errorf("11 of 10 into debt: %+v", d)
		}
		if d := k.take(t0, Ask{N: 0}); d.OK {
			t.Errorf("with one owed: %+v", d)
		}
	})
}

// What a charge into debt forgives was not charged: a refund of what was leaves the key
// as it was before, to a part of an event.
func TestTrapRefundOfForgivenDebtMints(t *testing.T) {
	for _, n := range []int64{1, 5, 6, 1000, math.MaxInt64} {
		eachKind(t, 10, time.Second, func(t *testing.T, k *keeper) {
			k.take(t0, Ask{N: 15, Debt: true})
			charged := k.take(t0, Ask{N: n, Debt: true})
			if !charged.OK || charged.N != min(n, 5) {
				t.Errorf("%d where 5 owe 5 more at most: %+v", n, charged)
			}
			k.take(t0, Ask{N: -charged.N})
			if d := k.take(t0, Ask{N: -5}); k.take(t0, Ask{}).Remaining != 0 || d.N != -5 {
				t.Errorf("%d were charged and refunded: of 5 that were owed before, %+v are refunded", n, d)
			}
		})
	}
}

// A negative amount mints in golang.org/x/time/rate and x/sync (golang/go#80183);
// giving back more than was taken must not.
func TestTrapNegativeAmountMints(t *testing.T) {
	eachKind(t, 10, time.Second, func(t *testing.T, k *keeper) {
		k.take(t0, Ask{N: 3})
		for _, n := range []int64{-1000, math.MinInt64 + 1, math.MinInt64} {
			k.take(t0, Ask{N: n})
			if d := k.take(t0, Ask{}); d.Remaining != 10 {
				t.Errorf("after N = %d: %d left, want 10", n, d.Remaining)
			}
		}
		if got := k.admitted(t0, 30); got != 10 {
			t.Errorf("%d pass, want 10", got)
		}
	})
}

// Long rests grant more than the burst: uber-go/ratelimit#122, failsafe-go
// (4,999 at 100 per 10 ms after half a second), juju/ratelimit#30, bucket4j#51
// (overflow, tokens below zero).
func TestTrapLongRestOverfills(t *testing.T) {
	for _, rest := range []time.Duration{505 * ms, time.Hour, 290 * 365 * day} {
		eachKind(t, 100, 10*ms, func(t *testing.T, k *keeper) {
			start := t0.AddDate(-200, 0, 0)
			next := start.Add(max(rest, 2*time.Duration(k.micros())*us))
			if k.Kind == CalendarWindow {
				next = start.Add(max(rest, time.Minute))
			}
			k.admitted(start, 200)
			if got := k.admitted(next, 1000); got != 100 {
				t.Errorf("%d at once after %v, want 100", got, rest)
			}
		})
	}
}

// A refill from an old time when empty only lets 19 of 10 pass (as in limiters
// that refill lazily after tailscale's).
func TestTrapLazyRefillGrantsTwice(t *testing.T) {
	l := Limit{Count: 10, Period: time.Hour}
	k := keeper{Limit: l}
	k.admitted(t0, 1)
	if got := k.admitted(t0.Add(time.Hour), 30); got != 10 {
		t.Errorf("%d at one instant, want 10", got)
	}
}

// throttled takes a token for a quantity of zero if its CAS loses a race, and
// peeks of others refresh what they look at.
func TestTrapPeekTakes(t *testing.T) {
	eachKind(t, 10, time.Second, func(t *testing.T, k *keeper) {
		k.take(t0, Ask{N: 1})
		before := k.state
		for i := range 20 {
			d := k.take(t0, Ask{})
			if !d.OK || d.N != 0 || d.Remaining != 9 || k.state != before {
				t.Fatalf("peek %d: %+v, %+v; want 9 left and nothing changed", i, d, k.state)
			}
		}
	})
}

// throttled multiplies quantity and interval beyond int64: 3,000,000 of 10 pass
// at 1/h, and 2,124,105 remain; juju's Take(1<<40) at 1/h waits -1,428,651 h.
func TestTrapQuantityOverflowAllows(t *testing.T) {
	for _, n := range []int64{3_000_000, 1 << 40, 1 << 62, math.MaxInt64} {
		eachKind(t, 1, time.Hour, func(t *testing.T, k *keeper) {
			k.Burst = 10
			if d := k.take(t0, Ask{N: n}); d.OK || d.RetryAfter != Never || d.Remaining != k.Max() {
				t.Errorf("%d: %+v; want it refused", n, d)
			}
		})
	}
}

// An interval in whole nanoseconds turns 600,000,000/s into 1e9/s and more into
// no limit (throttled, uber-go/ratelimit, clipperhouse/rate); float loses others
// (golang/go#46579).
func TestTrapHighRateIsRounded(t *testing.T) {
	for _, count := range []int64{600_000_000, 2_000_000_000, 3_000_000_000, 1 << 62} {
		l := Limit{Count: count, Period: time.Second, Burst: 1}
		s, d := Take(State{}, t0, Ask{Limit: l, N: 1})
		for step := range 1000 { // one each microsecond: so many are refilled, no more is kept
			now := t0.Add(time.Duration(step+1) * us)
			if s, d = Take(s, now, Ask{Limit: l, N: 1}); !d.OK {
				t.Fatalf("%v: %+v a microsecond later", l, d)
			}
			if _, d := Take(s, now, Ask{Limit: l, N: 1}); d.OK {
				t.Fatalf("%v: two at once", l)
			}
		}
		l.Burst = 1 << 61
		s, _ = Take(State{}, t0, Ask{Limit: l, N: l.Max()})
		if _, d := Take(s, t0.Add(ms), Ask{Limit: l}); d.Remaining != count/1000 {
			t.Errorf("%v refills %d in a millisecond, want %d", l, d.Remaining, count/1000)
		}
	}
}

// sethvargo/go-limiter v0.7.1 refills wrongly above the root of the interval
// (#29): 1,000,000/s refills 1,000.
func TestTrapWrongRefillAboveRoot(t *testing.T) {
	for _, count := range []int64{31_622, 31_623, 100_000, 1_000_000} {
		k := keeper{Limit: Limit{Count: count, Period: time.Second}}
		k.take(t0, Ask{N: count})
		if d := k.take(t0.Add(time.Second), Ask{N: count}); !d.OK {
			t.Errorf("%d/s: a second refills %d", count, d.Remaining)
		}
	}
}
