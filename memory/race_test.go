package memory_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
)

// all runs f in n goroutines, and waits for them.
func all(n int, f func(i int)) {
	var wait sync.WaitGroup
	for i := range n {
		wait.Go(func() { f(i) })
	}
	wait.Wait()
}

// size is n under the soak, a tenth of it otherwise, and a fiftieth with the race
// detector.
func size(n int) int {
	switch {
	case os.Getenv("THROTTLE_SOAK") != "":
		return n
	case raced:
		return n / 50
	}
	return n / 10
}

// TestMemorySoak runs the tests that size makes long, for make soak.
func TestMemorySoak(t *testing.T) {
	if os.Getenv("THROTTLE_SOAK") == "" {
		return // each runs by itself, and shorter
	}
	t.Run("agrees", TestMemoryAgrees)
	t.Run("bound", TestMemoryHoldsTheBound)
	t.Run("first touch", TestMemoryFirstTouch)
	t.Run("all or nothing", TestMemoryAllOrNothingTogether)
	t.Run("changes", TestMemoryChangesUnderRace)
	t.Run("fresh keys", TestTrapFreshKeysAreNotRefused)
	t.Run("flood", TestTrapFloodDoesNotFreeTheOffender)
	t.Run("flood of each kind", TestFloodFreesNoOffender)
	t.Run("flood of mixed kinds", TestFloodOfMixedKinds)
}

// TestMemoryHoldsTheBound: 8 goroutines ask for 64 keys as fast as they can; no
// key gets more than its bound, and busy ones get all of it.
func TestMemoryHoldsTheBound(t *testing.T) {
	l := limit.Limit{Count: 1000, Period: time.Second, Burst: 10}
	var m memory.Store
	var admitted [64]atomic.Int64
	begin := time.Now()
	all(8, func(g int) {
		rng := rand.New(rand.NewPCG(uint64(g), 1))
		for range size(2_000_000) / 8 {
			k := rng.IntN(64)
			var ok bool
			if key := fmt.Sprint(k); g%2 == 0 {
				ok = m.Allow(key, l, 1)
			} else {
				ok = m.Decide(limit.Ask{Key: key, Limit: l, N: 1}).OK
			}
			if ok {
				admitted[k].Add(1)
			}
		}
	})
	bound := int64(time.Since(begin).Seconds()*1000) + 11
	for k := range admitted {
		if n := admitted[k].Load(); n > bound || n < 10 {
			t.Errorf("key %d: %d admitted, want 10 to %d", k, n, bound)
		}
	}
}

// TestMemoryFirstTouch lets 8 goroutines ask for the same new keys, while the
// table grows from its smallest to its largest. Each key passes once, and
// is not lost on the way.
func TestMemoryFirstTouch(t *testing.T) {
	limits := []limit.Limit{
		{Count: 1, Period: 24 * time.Hour},
		{Kind: limit.FixedWindow, Count: 1, Period: 365 * 24 * time.Hour},
		{Count: 99_991, Period: 99_991 * 24 * time.Hour, Burst: 1}, // takes a pair
		{Count: 99_989, Period: 99_990 * 24 * time.Hour, Burst: 1}, // takes a pair
	}
	keys := size(400_000)
	m := memory.Store{MaxKeys: 16 * keys}
	passed := make([]atomic.Int32, keys)
	all(8, func(g int) {
		for i := range keys {
			k := i
			if g%2 == 1 {
				k = keys - 1 - i
			}
			if m.Allow(fmt.Sprint("key ", k), limits[k%len(limits)], 1) {
				passed[k].Add(1)
			}
		}
	})
	for k := range passed {
		if n := passed[k].Load(); n != 1 {
			t.Errorf("key %d under %+v passed %d times, want once", k, limits[k%len(limits)], n)
		}
	}
	if n, lost := m.Len(), m.Forgotten(); n != keys || lost != 0 {
		t.Errorf("Len() = %d, Forgotten() = %d, want %d, 0", n, lost, keys)
	}
}

// TestMemoryAllOrNothingTogether lets 8 goroutines ask for three of six keys at
// once, in any order, of limits of different sizes: no two wait for each other
// for ever, and what is charged is the same everywhere.
func TestMemoryAllOrNothingTogether(t *testing.T) {
	const year = 365 * 24 * time.Hour
	var m memory.Store
	var passed [6]atomic.Int64
	limits := [6]limit.Limit{
		{Count: 5000, Period: 5 * year},
		{Kind: limit.FixedWindow, Count: 3000, Period: 100 * year},
		{Count: 99_991, Period: 100 * year, Burst: 4000},
		{Kind: limit.SlidingLog, Count: 2500, Period: year},
		{Kind: limit.FixedWindow, Count: 100_000, Period: 100 * year},
		{Count: 3500, Period: 5 * year},
	}
	all(8, func(g int) {
		rng := rand.New(rand.NewPCG(uint64(g), 1))
		d := make([]limit.Decision, 3)
		for range size(50_000) {
			var a []limit.Ask
			three := rng.Perm(6)[:3]
			for _, k := range three {
				a = append(a, limit.Ask{Key: fmt.Sprint(k), Limit: limits[k], N: 1})
			}
			ok, err := m.Take(t.Context(), a, d)
			if err != nil {
				t.Errorf("Take(%+v): %v", a, err)
				return
			}
			for _, k := range three {
				if ok {
					passed[k].Add(1)
				}
			}
		}
	})
	for k := range passed {
		d := m.Decide(limit.Ask{Key: fmt.Sprint(k), Limit: limits[k]})
		if used := d.Max - d.Remaining; used != passed[k].Load() || used == 0 {
			t.Errorf("key %d: %d are charged, but %d passed", k, used, passed[k].Load())
		}
	}
}

// TestMemoryChangesUnderRace lets the limit of a key change back and forth, in
// and out of such as pack: not one more passes than the largest allows.
func TestMemoryChangesUnderRace(t *testing.T) {
	const year = 365 * 24 * time.Hour
	var m memory.Store
	var passed atomic.Int64
	limits := []limit.Limit{
		{Count: 100, Period: 200 * year, Burst: 1000},
		{Count: 99_991, Period: 200 * year, Burst: 900},
		{Count: 99_991, Period: 200 * year, Burst: 1000},
		{Count: 1, Period: year, Burst: 800},
	}
	all(8, func(g int) {
		for i := range size(40_000) {
			if m.Allow("k", limits[(g+i/7)%len(limits)], 1) {
				passed.Add(1)
			}
		}
	})
	if n := passed.Load(); n != 1000 {
		t.Errorf("%d passed, want 1000, the most that any of the limits allows", n)
	}
}

// TestMemoryReadsAreWhole: a peek sees a state that was so at some time.
func TestMemoryReadsAreWhole(t *testing.T) {
	l := limit.Limit{Kind: limit.FixedWindow, Count: 1 << 40, Period: 10_000 * 24 * time.Hour}
	var m memory.Store
	var done atomic.Bool
	var wait sync.WaitGroup
	for range 2 {
		wait.Go(func() {
			last := int64(0)
			for !done.Load() {
				d := m.Decide(limit.Ask{Key: "k", Limit: l})
				if used := d.Max - d.Remaining; used < last || used%70_000 != 0 {
					t.Errorf("a peek sees %d used, after %d; always 70000 are taken at once", used, last)
					return
				} else {
					last = used
				}
			}
		})
	}
	for range size(200_000) {
		m.Decide(limit.Ask{Key: "k", Limit: l, N: 70_000})
	}
	done.Store(true)
	wait.Wait()
}
