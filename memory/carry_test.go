package memory_test

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
)

const lastKind = limit.CalendarWindow

// TestMemoryCarries: from any kind to any other what was used stays used, a
// refusal and a peek lose nothing, and all that is given back leaves nothing.
func TestMemoryCarries(t *testing.T) {
	for from := range lastKind + 1 {
		for to := range lastKind + 1 {
			if from == to {
				continue
			}
			old := limit.Limit{Kind: from, Count: 10, Period: 12 * limit.Month}
			next := limit.Limit{Kind: to, Count: 12, Period: 24 * limit.Month}
			var m memory.Store
			now, d := m.Start(), make([]limit.Decision, 1)
			for i, step := range []struct {
				limit.Limit
				n    int64
				ok   bool
				left int64
			}{
				{old, 6, true, 4},
				{next, 0, true, 6}, // a peek
				{old, 0, true, 4},
				{old, 5, false, 4},
				{next, 7, false, 6}, // a refusal
				{next, 0, true, 6},
				{old, 0, true, 4},
				{next, 13, false, 6},
				{next, 6, true, 0},
				{next, 1, false, 0},
				{old, 0, false, 0}, // two are owed
				{old, 1, false, 0},
				{next, 1, false, 0},
				{old, -3, true, 1},
				{old, 1, true, 0},
				{next, -10, true, 12},
			} {
				m.DecideAt(now, []limit.Ask{{Key: "k", Limit: step.Limit, N: step.n}}, d)
				if d[0].OK != step.ok || d[0].Remaining != step.left {
					t.Errorf("%v to %v, step %d: Take(%v, %d) = %+v, want %v, %d left", from, to, i, step.Kind, step.n, d[0], step.ok, step.left)
					break
				}
				if n := m.Len(); n > 1 {
					t.Errorf("%v to %v, step %d: Len() = %d, want one account", from, to, i, n)
				}
				now = now.Add(time.Microsecond)
			}
			if n := m.Len(); n != 0 {
				t.Errorf("%v to %v, all given back: Len() = %d, want 0", from, to, n)
			}
			if n, bytes := m.Rings(); n != 0 || bytes != 0 {
				t.Errorf("%v to %v, all given back: %d rings of %d bytes, want none", from, to, n, bytes)
			}
		}
	}
}

// TestMemoryCarriesWhatWasRefused: a refusal under another kind moves the debt,
// so that it is paid off as its RetryAfter says.
func TestMemoryCarriesWhatWasRefused(t *testing.T) {
	log := limit.Limit{Kind: limit.SlidingLog, Count: 10, Period: time.Hour}
	bucket := limit.Limit{Count: 10, Period: time.Minute}
	var m memory.Store
	now, d := m.Start(), make([]limit.Decision, 2)
	m.DecideAt(now, []limit.Ask{{Key: "k", Limit: log, N: 10}, {Key: "other", Limit: bucket, N: 10}}, d)
	ask := []limit.Ask{{Key: "k", Limit: bucket, N: 1}, {Key: "other", Limit: log, N: 1}}
	if ok := m.DecideAt(now, ask, d); ok || d[0].RetryAfter != 6*time.Second || d[1].RetryAfter != time.Hour {
		t.Fatalf("Take of a log as a bucket and of a bucket as a log = %v, %+v, want 6 s and an hour to wait", ok, d)
	}
	now = now.Add(6 * time.Second)
	if ok := m.DecideAt(now, ask[:1], d[:1]); !ok || d[0].Remaining != 0 {
		t.Errorf("after its RetryAfter Take = %+v, want OK", d[0])
	}
	if ok := m.DecideAt(now, ask[1:], d[:1]); ok || d[0].RetryAfter != time.Hour-6*time.Second {
		t.Errorf("6 s after the change to a log Take = %+v, want an hour less 6 s to wait", d[0])
	}
}

// TestMemoryCarriesOneBurst: a refusal under a limit that cannot owe what was
// used under another forgives none of it, whatever the kinds; a limit that is
// refilled long before it takes the key over.
func TestMemoryCarriesOneBurst(t *testing.T) {
	for from := range lastKind + 1 {
		for to := range lastKind + 1 {
			more := limit.Limit{Kind: from, Count: 1000, Period: time.Hour}
			fewer := limit.Limit{Kind: to, Count: 2, Period: time.Hour}
			soon := limit.Limit{Kind: to, Count: 20, Period: time.Second}
			if to == limit.CalendarWindow {
				soon.Period = time.Minute // there is none shorter
			}
			var m memory.Store
			now, d := m.Start(), make([]limit.Decision, 1)
			take := func(l limit.Limit, n int64) bool {
				now = now.Add(time.Microsecond)
				return m.DecideAt(now, []limit.Ask{{Key: "k", Limit: l, N: n}}, d)
			}
			passed := 0
			for range 10 {
				for take(more, 1) {
					passed++
				}
				if take(fewer, 1) {
					t.Errorf("%v, used up, to %v: Take = %+v, want it refused", more, fewer, d[0])
				}
			}
			if passed > 1001 { // one at the edge of a window
				t.Errorf("%v and %v in turns: %d passed at once, want 1000", more, fewer, passed)
			}
			if from == to && newApart(to) != nil {
				continue // the events stay, at their times
			}
			take(soon, 1)
			now = now.Add(3 * soon.Period)
			if !take(soon, 1) {
				t.Errorf("%v to %v: Take three Periods later = %+v, want OK", more, soon, d[0])
			}
		}
	}
}

// TestMemoryCarriesUnderChange keeps changing the limit of a key at random. No
// change makes more available than the new limit has less what was used. And
// where nothing is forgiven at an edge, what passes in any Period is no more than
// what leaves the log in it, and what a bucket refills.
func TestMemoryCarriesUnderChange(t *testing.T) {
	memory.OneGoroutine(t)
	for seed := range uint64(80) {
		rng := rand.New(rand.NewPCG(seed, 2))
		kinds := []limit.Kind{limit.TokenBucket, limit.SlidingLog, limit.SlidingSlots}
		edges := seed%2 == 0
		if edges {
			kinds = append(kinds, limit.FixedWindow, limit.FirstHitWindow, limit.CalendarWindow, limit.SlidingWindow)
		}
		var limits []limit.Limit
		for _, kind := range kinds {
			limits = append(limits, limit.Limit{Kind: kind, Count: 5 + rng.Int64N(10), Period: time.Minute, Slots: rng.Int32N(9)})
		}
		var m memory.Store
		now, d := m.Start(), make([]limit.Decision, 1)
		take := func(l limit.Limit, n int64) limit.Decision {
			m.DecideAt(now, []limit.Ask{{Key: "k", Limit: l, N: n}}, d)
			return d[0]
		}
		used := func(l limit.Limit) int64 { return l.Count - take(l, 0).Remaining }
		var passed []time.Time
		l := limits[0]
		for range 3000 {
			now = now.Add(time.Duration(rng.Int64N(int64(4 * time.Second))))
			if rng.IntN(5) == 0 {
				before, next := used(l), limits[rng.IntN(len(limits))]
				if after := used(next); after < min(before, next.Count) {
					t.Fatalf("seed %d, %v: %d used under %v, %d under %v", seed, now, before, l, after, next)
				}
				l = next
			}
			for range 1 + rng.IntN(3) {
				if d := take(l, 1); d.OK {
					passed = append(passed, now)
				}
			}
			if n := len(passed); !edges && n > 29 && now.Sub(passed[n-30]) < time.Minute {
				t.Fatalf("seed %d: 30 passed in %v, want 14 and 14 a minute at most, and a fraction", seed, now.Sub(passed[n-30]))
			}
		}
		if n := m.Len(); n > 1 || len(passed) < 100 {
			t.Fatalf("seed %d: Len() = %d of one key, %d passed", seed, n, len(passed))
		}
	}
}

// TestMemoryCarriesAsPromised: where log and slots alone take turns, no Period
// sees more than the larger of the two.
func TestMemoryCarriesAsPromised(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	limits := [2]limit.Limit{
		{Kind: limit.SlidingLog, Count: 10, Period: time.Minute},
		{Kind: limit.SlidingSlots, Count: 10, Period: time.Minute},
	}
	var m memory.Store
	var passed []time.Time
	now, d := m.Start(), make([]limit.Decision, 1)
	for range 20_000 {
		now = now.Add(time.Duration(rng.Int64N(int64(5 * time.Second))))
		a := limit.Ask{Key: "k", Limit: limits[rng.IntN(20)/19], N: 1}
		if m.DecideAt(now, []limit.Ask{a}, d) {
			passed = append(passed, now)
		}
		if n := len(passed); d[0].OK && n > 10 && now.Sub(passed[n-11]) < time.Minute {
			t.Fatalf("11 passed in %v, want 10 a minute at most", now.Sub(passed[n-11]))
		}
	}
	if len(passed) < 1000 {
		t.Errorf("%d passed in 20000 questions, want more", len(passed))
	}
}

// TestMemoryCarriesUnderRace lets 8 goroutines ask for two keys under limits of
// all kinds, alone and together: what passes is used, nothing of it is lost, and
// nothing counted twice. One who was overtaken may round an event up.
func TestMemoryCarriesUnderRace(t *testing.T) {
	var m memory.Store
	var passed [2]atomic.Int64
	all(8, func(g int) {
		rng := rand.New(rand.NewPCG(uint64(g), 3))
		next := func() limit.Limit {
			return limit.Limit{Kind: limit.Kind(rng.IntN(int(lastKind) + 1)), Count: 3000 - 500*rng.Int64N(2), Period: 2400 * limit.Month}
		}
		d := make([]limit.Decision, 2)
		for i := range size(60_000) {
			a := []limit.Ask{{Key: "0", Limit: next(), N: 1}, {Key: "1", Limit: next(), N: 1}}
			switch k := rng.IntN(4); {
			case i%97 == 0: // a peek
				a[0].N, a[1].N = 0, 0
				_, _ = m.Take(t.Context(), a, d)
			case k < 2:
				if m.Allow(a[k].Key, a[k].Limit, 1) {
					passed[k].Add(1)
				}
			default:
				if rng.IntN(2) == 0 {
					a[0], a[1] = a[1], a[0]
				}
				if ok, err := m.Take(t.Context(), a, d); err != nil {
					t.Error(err)
				} else if ok {
					passed[0].Add(1)
					passed[1].Add(1)
				}
			}
		}
	})
	for k := range passed {
		l := limit.Limit{Count: 3000, Period: 2400 * limit.Month}
		used := 3000 - m.Decide(limit.Ask{Key: fmt.Sprint(k), Limit: l}).Remaining
		if n := passed[k].Load(); n > used || n < 2400 || used > 3000 {
			t.Errorf("key %d: %d passed, and %d are used; want as much, from 2500 to 3000", k, n, used)
		}
	}
	if n := m.Len(); n != 2 {
		t.Errorf("Len() = %d, want 2", n)
	}
}

// TestMemoryCarriesMany: thousands of logs become buckets and logs again, and
// each is found.
func TestMemoryCarriesMany(t *testing.T) {
	log := limit.Limit{Kind: limit.SlidingLog, Count: 5, Period: time.Hour}
	bucket := limit.Limit{Count: 5, Period: time.Hour}
	m := memory.Store{MaxKeys: 100_000}
	now, d := m.Start(), make([]limit.Decision, 1)
	const keys = 6000
	for round, l := range []limit.Limit{log, bucket, log, bucket, bucket} {
		for i := range keys {
			m.DecideAt(now, []limit.Ask{{Key: fmt.Sprint(i), Limit: l, N: 1}}, d)
			if want := int64(4 - round); d[0].Remaining != want {
				t.Fatalf("round %d, key %d as %v: %d remain, want %d", round, i, l, d[0].Remaining, want)
			}
		}
		astray := 0
		for i := range 4000 {
			if m.MayHaveRing(fmt.Sprint("none ", i)) {
				astray++
			}
		}
		if astray > 600 { // an eighth, and what chance adds
			t.Errorf("round %d: %d of 4000 other keys would look for a log, want an eighth at most", round, astray)
		}
		inRings, _ := m.Rings()
		if n := m.Len(); n != keys || inRings != map[bool]int{true: keys}[l == log] {
			t.Errorf("round %d: Len() = %d, %d of them rings, want each key once", round, n, inRings)
		}
	}
}

// TestMemoryCarriesUnnumbered: a state of which the limit has no number is read
// as that of a bucket.
func TestMemoryCarriesUnnumbered(t *testing.T) {
	var m memory.Store
	now, d := m.Start(), make([]limit.Decision, 1)
	take := func(key string, l limit.Limit, n int64) limit.Decision {
		m.DecideAt(now, []limit.Ask{{Key: key, Limit: l, N: n}}, d)
		return d[0]
	}
	for i := range int64(5000) {
		take("many", limit.Limit{Count: 1000 + i, Period: time.Hour}, 0)
	}
	bucket := limit.Limit{Count: 10, Period: time.Hour, Burst: 20}
	log := limit.Limit{Kind: limit.SlidingLog, Count: 12, Period: time.Hour}
	take("k", bucket, 5)
	if d := take("k", log, 1); !d.OK || d.Remaining != 5 {
		t.Errorf("half an hour owed, then 1 of 12 an hour = %+v, want 5 left", d)
	}
	if d := take("k", bucket, 1); !d.OK || d.Remaining != 12 {
		t.Errorf("and back = %+v, want 12 of 20 left", d)
	}
}

// TestMemoryCarriesToUnnumbered: a limit without a number carries over what was used
// under one that has a number.
func TestMemoryCarriesToUnnumbered(t *testing.T) {
	var m memory.Store
	now, d := m.Start(), make([]limit.Decision, 1)
	take := func(l limit.Limit, n int64) limit.Decision {
		m.DecideAt(now, []limit.Ask{{Key: "k", Limit: l, N: n}}, d)
		return d[0]
	}
	take(limit.Limit{Kind: limit.FirstHitWindow, Count: 10, Period: time.Hour}, 8)
	for i := range int64(5000) {
		m.DecideAt(now, []limit.Ask{{Key: "many", Limit: limit.Limit{Count: 1000 + i, Period: time.Hour}}}, d)
	}
	now = now.Add(59 * time.Minute)
	for i := range int64(2) {
		if d := take(limit.Limit{Count: 20, Period: time.Hour}, i); d.Remaining != 12-i {
			t.Errorf("8 used in a window, then %d of 20 an hour: %+v, want %d left", i, d, 12-i)
		}
	}
}

// TestMemoryBucketsKeepClearOfRings: a key under a bucket waits for no log, be it
// known, new or expired.
func TestMemoryBucketsKeepClearOfRings(t *testing.T) {
	var m memory.Store
	bucket := limit.Limit{Count: 10, Period: time.Second}
	now, d := m.Start(), make([]limit.Decision, 1)
	m.DecideAt(now, []limit.Ask{{Key: "log", Limit: limit.Limit{Kind: limit.SlidingLog, Count: 5, Period: time.Hour}, N: 1}}, d)
	m.DecideAt(now, []limit.Ask{{Key: "known", Limit: bucket, N: 1}}, d)
	m.DecideAt(now, []limit.Ask{{Key: "moved", Limit: limit.Limit{Kind: limit.SlidingLog, Count: 5, Period: time.Hour}, N: 1}}, d)
	m.DecideAt(now, []limit.Ask{{Key: "moved", Limit: bucket, N: 1}}, d)
	unlock := m.LockRings()
	done := make(chan int)
	go func() {
		waited := 0
		for i := range 1000 {
			key := fmt.Sprint(i)
			if m.MayHaveRing(key) { // one in 4096 by mistake
				waited++
				continue
			}
			d := make([]limit.Decision, 1)
			m.DecideAt(now, []limit.Ask{{Key: "known", Limit: bucket, N: int64(i % 2)}}, d)
			m.DecideAt(now, []limit.Ask{{Key: "moved", Limit: limit.Limit{Count: 10 + int64(i), Period: time.Second}, N: 1}}, d)
			m.DecideAt(now, []limit.Ask{{Key: key, Limit: bucket, N: 1}}, d)
			m.DecideAt(now.Add(time.Minute), []limit.Ask{{Key: key, Limit: bucket, N: 1}}, d)
		}
		done <- waited
	}()
	select {
	case waited := <-done:
		if waited > 10 {
			t.Errorf("%d of 1000 keys would look for a log, want next to none", waited)
		}
	case <-time.After(20 * time.Second):
		t.Error("a key under a bucket waits for the lock of the rings")
	}
	unlock()
}

// TestMemoryForgivesNoRing: what a log or slots have used is not forgiven where the
// limit was lowered, and an ask under a third limit is refused.
func TestMemoryForgivesNoRing(t *testing.T) {
	for _, kind := range []limit.Kind{limit.SlidingLog, limit.SlidingSlots} {
		for _, third := range []limit.Kind{limit.TokenBucket, limit.FirstHitWindow, limit.SlidingLog, limit.SlidingSlots} {
			var m memory.Store
			now, d := m.Start(), make([]limit.Decision, 1)
			for i, l := range []limit.Limit{
				{Kind: kind, Count: 1000, Period: time.Hour},
				{Kind: kind, Count: 10, Period: time.Hour},
				{Kind: third, Count: 50, Period: time.Hour},
				{Kind: kind, Count: 1000, Period: time.Hour},
			} {
				n := max(1, l.Count*int64(1-i))
				m.DecideAt(now, []limit.Ask{{Key: "k", Limit: l, N: n}}, d)
				if want := i == 0; d[0].OK != want {
					t.Errorf("%d of %v after those before = %+v, want OK %v", n, l, d[0], want)
				}
				now = now.Add(time.Second)
			}
		}
	}
}
