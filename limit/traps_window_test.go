package limit

import (
	"testing"
	"time"
)

// Limiters named after a token bucket that reset at an edge let 199 of 100 pass
// within 30 ms (sethvargo, ulule, mennanov). A bucket, a log and slots have no
// edge, and a sliding window hardly one.
func TestTrapFixedWindowEdge(t *testing.T) {
	eachKind(t, 100, time.Minute, func(t *testing.T, k *keeper) {
		edge := t0.Add(time.Minute)
		k.admitted(edge.Add(-time.Minute), 1) // the first hit
		passed := k.admitted(edge.Add(-20*ms), 200) + k.admitted(edge.Add(10*ms), 200)
		want := 100
		if k.Kind.isWindow() {
			want = 199
		}
		if passed > want {
			t.Errorf("%d pass within 30 ms, want at most %d", passed, want)
		}
	})
}

// In go-chi/httprate (#2, #14) a request that read the clock before an edge and
// counts after it resets what was counted in the new window.
func TestTrapLateRequestResetsTheWindow(t *testing.T) {
	eachKind(t, 100, time.Minute, func(t *testing.T, k *keeper) {
		k.admitted(t0, 50)
		k.take(t0.Add(-us), Ask{N: 1})
		if got := k.admitted(t0, 100); got != 49 {
			t.Errorf("%d pass after the late one, want 49", got)
		}
	})
}

// mennanov/limiters multiplies the previous count by nanoseconds beyond int64:
// at 10M/h the second hour admits a million in its first second.
func TestTrapSlidingWindowOverflow(t *testing.T) {
	k := keeper{Limit: Limit{Kind: SlidingWindow, Count: 10_000_000, Period: time.Hour}}
	k.take(t0, Ask{N: 10_000_000})
	d := k.take(t0.Add(time.Hour+time.Second), Ask{N: 1_000_000, Min: 1})
	if d.N < 2_700 || d.N > 2_800 {
		t.Errorf("%+v; want 2,778, a second's worth", d)
	}
}

// mennanov/limiters and rolling-rate-limiter#15 count what they refuse: who
// offers twice the limit gets 100 of 5,000.
func TestTrapDeniedAreCounted(t *testing.T) {
	eachKind(t, 100, time.Second, func(t *testing.T, k *keeper) {
		passed := 0
		for i := range 10_000 {
			passed += k.admitted(t0.Add(time.Duration(i)*5*ms), 1)
		}
		want := 50 * 100 * 9 / 11 // Slots give back a slot late
		if k.Kind == CalendarWindow {
			want = 100 // of one minute
		}
		if passed < want || k.Kind != CalendarWindow && passed > 51*100+100 {
			t.Errorf("%d pass in 50 s at 100/s, offered 200/s; want about 5000, at least %d", passed, want)
		}
	})
}

// In upstash/ratelimit-js (#39) rounding keeps a limit of one from ever
// admitting.
func TestTrapLimitOfOneNeverAdmits(t *testing.T) {
	eachKind(t, 1, time.Minute, func(t *testing.T, k *keeper) {
		now := t0
		for i := range 20 {
			d := k.take(now, Ask{N: 1})
			if !d.OK {
				now = now.Add(d.RetryAfter)
				d = k.take(now, Ask{N: 1})
			}
			if !d.OK {
				t.Fatalf("the %d-th: %+v", i, d)
			}
		}
		if got := now.Sub(t0); got > 40*time.Minute {
			t.Errorf("20 took %v", got)
		}
	})
}

// Stale TTLs set free: tollbooth (#30, #32) forgets a bucket in use, others let
// each hit prolong the window (commitpulse#1371), so that it never ends.
func TestTrapHitsProlongTheWindow(t *testing.T) {
	eachKind(t, 5, time.Hour, func(t *testing.T, k *keeper) {
		passed := 0
		for i := range 240 {
			passed += k.admitted(t0.Add(time.Duration(i)*time.Minute), 1)
		}
		if passed < 15 || passed > 25 {
			t.Errorf("%d pass in 4 hours at 5/h, want about 20", passed)
		}
	})
}

// In clipperhouse/rate the limit is part of the key, so a changed limit starts
// full: alternating 10/h and 11/h lets 21 pass. In milvus#35699 each reset
// refills the bucket; tollbooth#65 keeps the old limit.
func TestTrapChangedLimitStartsFull(t *testing.T) {
	for kind := range Kind(unknownKind) {
		if kind.keptApart() {
			continue // the next test
		}
		limits := [2]Limit{{Kind: kind, Count: 10, Period: time.Hour}, {Kind: kind, Count: 11, Period: time.Hour}}
		passed, s := 0, State{}
		for i := range 100 {
			var d Decision
			s = Change(s, t0, limits[i%2], limits[1-i%2])
			if s, d = Take(s, t0, Ask{Limit: limits[1-i%2], N: 1}); d.OK {
				passed++
			}
		}
		if passed > 11 {
			t.Errorf("%v: %d pass, want 11", kind, passed)
		}
		raised := Change(s, t0, limits[1], Limit{Kind: kind, Count: 1000, Period: time.Hour})
		if _, d := Take(raised, t0, Ask{Limit: Limit{Kind: kind, Count: 1000, Period: time.Hour}, N: 900}); !d.OK {
			t.Errorf("%v: raised to 1000: %+v", kind, d)
		}
	}
}

func TestTrapChangedLimitStartsFullLogAndSlots(t *testing.T) {
	for _, kind := range []Kind{SlidingLog, SlidingSlots} {
		k, passed := keeper{Limit: Limit{Kind: kind, Period: time.Hour}}, 0
		for i := range 100 {
			k.Count = 10 + int64(i%2)
			passed += k.admitted(t0, 1)
		}
		if passed > 11 {
			t.Errorf("%v: %d pass, want 11", kind, passed)
		}
	}
}

// Lowering the limit underflows in redpanda#21357 and kills the refill in
// resilience4j#2489, where giving back then throws.
func TestTrapLoweringUnderflows(t *testing.T) {
	eachKind(t, 1000, time.Hour, func(t *testing.T, k *keeper) {
		k.take(t0, Ask{N: 1000})
		low := k.Limit
		low.Count = 3
		k.state, k.Limit = Change(k.state, t0, k.Limit, low), low
		d := k.take(t0, Ask{N: 1})
		if d.OK || d.Remaining != 0 || d.RetryAfter > day {
			t.Errorf("lowered to 3: %+v", d)
		}
		if d := k.take(t0, Ask{N: -1}); !d.OK || d.Remaining > 3 {
			t.Errorf("given one back: %+v", d)
		}
		if d := k.take(t0.Add(day), Ask{N: 3}); !d.OK {
			t.Errorf("a day later: %+v", d)
		}
	})
}

// Retry-After that ignores what is partly refilled (bucket4j#88), is the time
// when all is (ratelimit_meter#36), or a whole window (httprate), or rounds the
// cycles down (resilience4j#822, #824).
func TestTrapRetryAfterIsNotTheEarliest(t *testing.T) {
	eachKind(t, 10, 10*time.Second, func(t *testing.T, k *keeper) {
		for i := range 10 {
			k.take(t0.Add(time.Duration(i)*300*ms), Ask{N: 1})
		}
		now := t0.Add(3217 * ms)
		for n := int64(1); n <= 10; n++ {
			d := k.take(now, Ask{N: n})
			if d.OK {
				continue // what a bucket has refilled
			}
			at := now.Add(d.RetryAfter)
			if early := k.take(at.Add(-us), Ask{N: n}); early.OK || early.RetryAfter != us {
				t.Errorf("%d after %v: %+v a microsecond earlier; want to be refused for one more", n, d.RetryAfter, early)
			}
			if k.Kind == SlidingLog && d.RetryAfter != 10*time.Second-217*ms-3*time.Second+time.Duration(n-1)*300*ms {
				t.Errorf("%d after %v of the log", n, d.RetryAfter)
			}
		}
		d := k.take(now, Ask{N: 9})
		if d = k.take(now.Add(d.RetryAfter), Ask{N: 9}); !d.OK {
			t.Errorf("refused after the wait: %+v", d)
		}
	})
}

// governor (#249) admits one more cell between the burst and one emission
// interval beyond, after the clock has moved.
func TestTrapOneExtraCell(t *testing.T) {
	k := keeper{Limit: Limit{Count: 1, Period: time.Second, Burst: 4}}
	passed := k.admitted(t0, 10)
	for i := range 999 {
		passed += k.admitted(t0.Add(time.Duration(i+1)*ms), 1)
	}
	if passed != 4 {
		t.Errorf("%d pass before a second is over, want 4", passed)
	}
	if got := k.admitted(t0.Add(time.Second), 10); got != 1 {
		t.Errorf("%d pass when it is, want 1", got)
	}
}

// Guava (#5372) lets more than N pass in some T; so does anything that is
// measured from the wrong end. A log does so at no place.
func TestTrapMoreThanCountInAPeriod(t *testing.T) {
	for _, kind := range []Kind{SlidingLog, SlidingSlots} {
		k := keeper{Limit: Limit{Kind: kind, Count: 5, Period: time.Second}}
		var at []time.Duration
		for step := range 3000 {
			now := time.Duration(step) * 7 * ms
			if k.admitted(t0.Add(now), 1) == 1 {
				at = append(at, now)
			}
		}
		for i := range len(at) - 5 {
			if at[i+5]-at[i] < time.Second {
				t.Fatalf("%v: six in %v", kind, at[i+5]-at[i])
			}
		}
	}
}

// sentinel-golang#545 and Sentinel#1615 stop limiting above 1,000 a second, as
// milliseconds round to none.
func TestTrapNoLimitAboveThousand(t *testing.T) {
	for _, count := range []int64{999, 1000, 1001, 5000, 1_000_000} {
		eachKind(t, count, time.Second, func(t *testing.T, k *keeper) {
			k.take(t0, Ask{N: count})
			if d := k.take(t0, Ask{N: 1}); d.OK {
				t.Errorf("%d/s: one more passes: %+v", count, d)
			}
		})
	}
}

// Refilling in whole seconds only (symfony#47676), or moving the time of the
// last refill at every call so that nothing ever adds up (svix/diom#115).
func TestTrapRefillIsTruncated(t *testing.T) {
	k := keeper{Limit: Limit{Count: 1, Period: time.Second}}
	k.take(t0, Ask{N: 1})
	passed := 0
	for step := range 10_000 { // asks each 0.7 ms, each far from a whole token
		passed += k.admitted(t0.Add(time.Duration(step)*700*us), 1)
	}
	if passed != 6 {
		t.Errorf("%d pass in 7 s at 1/s, want 6", passed)
	}
	fast := keeper{Limit: Limit{Count: 4, Period: time.Second}}
	fast.take(t0, Ask{N: 4})
	if got := fast.admitted(t0.Add(500*ms), 4); got != 2 {
		t.Errorf("half a second refills %d of 4/s, want 2", got)
	}
}

// Guava's tryAcquire(5000) at 5/s passes and the next caller pays (#7130); its
// waits overflow (#1622).
func TestTrapNextCallerPays(t *testing.T) {
	eachKind(t, 5, time.Second, func(t *testing.T, k *keeper) {
		if d := k.take(t0, Ask{N: 5000}); d.OK {
			t.Errorf("5000 of 5/s: %+v", d)
		}
		if got := k.admitted(t0, 9); got != 5 {
			t.Errorf("the next gets %d, want 5", got)
		}
	})
}

// The first cycle empty (resilience4j#61), or a burst that surprises
// (governor#39): a key never seen has all of its burst, and no more.
func TestTrapFirstCycleIsNotFull(t *testing.T) {
	eachKind(t, 7, time.Minute, func(t *testing.T, k *keeper) {
		if got := k.admitted(t0.Add(17*time.Second), 20); got != 7 {
			t.Errorf("%d pass at first, want 7", got)
		}
	})
}

// juju/ratelimit is off by up to 1 % of the rate.
func TestTrapRateIsOff(t *testing.T) {
	for _, count := range []int64{3, 7, 997, 30_011, 999_983} {
		l := Limit{Count: count, Period: time.Second, Burst: 2 * count}
		s, _ := Take(State{}, t0, Ask{Limit: l, N: l.Burst})
		if _, d := Take(s, t0.Add(2*time.Second), Ask{Limit: l, N: l.Burst}); !d.OK || d.Remaining != 0 {
			t.Errorf("%d/s: two seconds refill %d", count, d.N+d.Remaining)
		}
		if _, d := Take(s, t0.Add(2*time.Second-us), Ask{Limit: l, N: l.Burst}); d.OK {
			t.Errorf("%d/s: refilled early", count)
		}
	}
}

// All limiters of resilience4j began their cycles together (#1244), and those
// who were refused came back together. Windows from the first hit do not.
func TestTrapAllShareOneEpoch(t *testing.T) {
	l := Limit{Kind: FirstHitWindow, Count: 1, Period: time.Minute}
	for _, first := range []time.Duration{0, 17 * time.Second, 59 * time.Second} {
		k := keeper{Limit: l}
		k.admitted(t0.Add(first), 1)
		if d := k.take(t0.Add(first+ms), Ask{N: 1}); d.RetryAfter != time.Minute-ms {
			t.Errorf("begun after %v: %+v, want a minute of its own", first, d)
		}
	}
}
