package memory_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
)

// What limiters that keep keys in memory have been found to do wrong.

// A peek that lost a race took a token in throttled 2.15: it was tried again
// with an amount of one.
func TestTrapPeekUnderRaceTakesNothing(t *testing.T) {
	l := limit.Limit{Count: 1_000_000, Period: 365 * 24 * time.Hour}
	var m memory.Store
	var taken atomic.Int64
	all(8, func(g int) {
		for range size(100_000) {
			if g%2 == 0 {
				m.Decide(limit.Ask{Key: "k", Limit: l})
			} else if m.Allow("k", l, 1) {
				taken.Add(1)
			}
		}
	})
	d := m.Decide(limit.Ask{Key: "k", Limit: l})
	if used := d.Max - d.Remaining; used > taken.Load() || used < taken.Load()-10 { // 2 refill a minute
		t.Errorf("%d were taken, and %d are used: peeks take", taken.Load(), used)
	}
}

// A decision that was made before the edge of a window and written behind it
// set all counters of go-chi/httprate to zero.
func TestTrapLateDecisionAtAnEdgeForgetsNothing(t *testing.T) {
	l := limit.Limit{Kind: limit.FixedWindow, Count: 50, Period: time.Second}
	var m memory.Store
	at := func(now time.Time, key string, n int64) limit.Decision {
		d := make([]limit.Decision, 1)
		m.DecideAt(now, []limit.Ask{{Key: key, Limit: l, N: n}}, d)
		return d[0]
	}
	edge := m.Start().Truncate(time.Second).Add(5 * time.Second)
	at(edge.Add(time.Millisecond), "victim", 50)
	at(edge.Add(-time.Millisecond), "other", 1)
	at(edge.Add(-time.Millisecond), "victim", 1)
	if d := at(edge.Add(2*time.Millisecond), "victim", 1); d.OK || d.Remaining != 0 {
		t.Errorf("after one that is late, the key that used all has %+v, want refused", d)
	}
}

// Keys kept as an unseeded hash can be made to collide by anybody.
func TestTrapHashIsSeeded(t *testing.T) {
	one := limit.Limit{Count: 1, Period: time.Hour}
	var size int
	for range 8 {
		var a memory.Store
		for i := range 100 {
			a.Allow(fmt.Sprint(i), one, 1)
		}
		size += len(uniqueTags(&a))
	}
	if size != 800 {
		t.Errorf("8 memories of the same 100 keys have %d tags, want 800: the hash has no seed of its own", size)
	}
}

var seenTags = map[uint64]bool{}

// uniqueTags are those that no Memory has had before.
func uniqueTags(m *memory.Store) (tags []uint64) {
	for _, tag := range m.Tags() {
		if !seenTags[tag] {
			seenTags[tag] = true
			tags = append(tags, tag)
		}
	}
	return tags
}

// The time to live counted from the first use in tollbooth, so that a key in
// constant use was reset again and again.
func TestTrapKeyInUseIsNotForgotten(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := limit.Limit{Count: 1, Period: time.Hour, Burst: 5}
		var m memory.Store
		admitted := 0
		for range 1000 {
			if m.Allow("k", l, 1) {
				admitted++
			}
			time.Sleep(time.Second)
		}
		if admitted != 5 {
			t.Errorf("%d admitted in 17 minutes at 1 an hour and 5 at once, want 5", admitted)
		}
	})
}

// A raised limit did not reach keys that were known, in tollbooth.
func TestTrapNewLimitReachesKnownKeys(t *testing.T) {
	m, now := new(memory.Store), time.Time{}
	now = m.Start()
	admitted := func(l limit.Limit) (n int) {
		for m.AllowAt(now, "k", l) {
			n++
		}
		return n
	}
	if n := admitted(limit.Limit{Count: 10, Period: time.Second}); n != 10 {
		t.Errorf("%d admitted, want 10", n)
	}
	if n := admitted(limit.Limit{Count: 1000, Period: time.Second}); n != 990 {
		t.Errorf("after raising 10 to 1000, of which 10 are used, %d admitted, want 990", n)
	}
}

// What was dropped stayed reachable in mennanov's registry: no memory came back.
func TestTrapMemoryHoldsNothingForGoneKeys(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := limit.Limit{Count: 1, Period: time.Second}
		m := memory.Store{MaxKeys: 10_000}
		var before, after runtime.MemStats
		use := func() {
			for range 10 {
				for i := range 5000 {
					m.Allow(fmt.Sprint("a key of some length ", i), l, 1)
				}
				time.Sleep(2 * time.Second)
			}
			runtime.GC()
		}
		use()
		runtime.ReadMemStats(&before)
		use()
		runtime.ReadMemStats(&after)
		if n, grown := m.Len(), int64(after.HeapAlloc)-int64(before.HeapAlloc); n != 0 || grown > 200_000 {
			t.Errorf("after all keys have expired Len() = %d, and the heap has grown by %d bytes", n, grown)
		}
	})
}

// Two limits that equal each other, and two keys in either order, locked
// clipperhouse/rate up for good.
func TestTrapSameKeysInEitherOrder(t *testing.T) {
	l := limit.Limit{Count: 10_000_000, Period: 365 * 24 * time.Hour}
	var m memory.Store
	all(8, func(g int) {
		a := []limit.Ask{{Key: "a", Limit: l, N: 1}, {Key: "b", Limit: l, N: 1}}
		if g%2 == 0 {
			a[0], a[1] = a[1], a[0]
		}
		d := make([]limit.Decision, 2)
		for range size(100_000) {
			if ok, err := m.Take(t.Context(), a, d); !ok || err != nil {
				t.Errorf("Take(%+v) = %v, %v, want true", a, ok, err)
				return
			}
		}
	})
	a, b := m.Decide(limit.Ask{Key: "a", Limit: l}), m.Decide(limit.Ask{Key: "b", Limit: l})
	if a.Remaining-b.Remaining > 1 || b.Remaining-a.Remaining > 1 {
		t.Errorf("%d and %d remain, want the same", a.Remaining, b.Remaining)
	}
}

// The limit was part of the key in clipperhouse/rate: another limit, another
// full bucket.
func TestTrapChangedLimitIsNoFreshBucket(t *testing.T) {
	ten, eleven := limit.Limit{Count: 10, Period: time.Hour}, limit.Limit{Count: 11, Period: time.Hour}
	var m memory.Store
	admitted := 0
	for i := range 100 {
		l := ten
		if i%2 == 1 {
			l = eleven
		}
		if m.Allow("k", l, 1) {
			admitted++
		}
	}
	if admitted != 11 {
		t.Errorf("%d admitted under 10 and 11 an hour in turn, want 11", admitted)
	}
}

// A bucket shared by all keys of one hash refuses many a key at its first
// touch, as in webriots/rate.
func TestTrapFreshKeysAreNotRefused(t *testing.T) {
	one := limit.Limit{Count: 1, Period: 24 * time.Hour}
	keys := size(1_000_000)
	m := memory.Store{MaxKeys: keys}
	refused := 0
	for i := range keys {
		if !m.Allow(fmt.Sprint("fresh ", i), one, 1) {
			refused++
		}
	}
	if refused != 0 {
		t.Errorf("%d of %d fresh keys are refused at first touch, in a table made for as many", refused, keys)
	}
	if n := m.Forgotten(); n > int64(keys)/100_000+4 {
		t.Errorf("Forgotten() = %d of %d keys, want one in 100,000", n, keys)
	}
}

// A flood of one-shot keys washes the offender out of a table that forgets what
// was used longest ago.
func TestTrapFloodDoesNotFreeTheOffender(t *testing.T) {
	memory.OneGoroutine(t)
	ten := limit.Limit{Count: 10, Period: time.Hour}
	m := memory.Store{MaxKeys: 10_000}
	now := m.Start()
	offender := func() (n int) {
		for m.AllowAt(now, "offender", ten) {
			n++
		}
		return n
	}
	if n := offender(); n != 10 {
		t.Fatalf("%d admitted, want 10", n)
	}
	flood := size(10_000_000)
	if flood < 10_000_000 {
		flood = 100_000 // a million takes 20 s with the race detector
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for range flood {
		m.AllowAt(now, fmt.Sprint("flood ", rng.Uint64()), ten)
	}
	if n := offender(); n != 0 {
		t.Errorf("after a flood of %d keys the offender is admitted %d times more, want 0", flood, n)
	}
	if n := m.Size(); n > 10_000*32 {
		t.Errorf("the table has %d bytes after the flood, want at most 320000", n)
	}
}
