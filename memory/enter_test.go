package memory_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
)

// TestKeysThatOweNothingTakeNoRoom: however many of them there are, each is let
// pass at each of its events, and the table stays near the processor.
func TestKeysThatOweNothingTakeNoRoom(t *testing.T) {
	memory.OneGoroutine(t)
	bubble.Test(t, func(t *testing.T) {
		l := limit.Limit{Count: 1000, Period: time.Second, Burst: 1}
		var m memory.Store
		events := 600_000
		if raced {
			events = 200_000
		}
		for i := range events {
			if i%200 == 0 {
				time.Sleep(time.Millisecond)
			}
			key := fmt.Sprint("key ", i%100_000)
			if d := m.Decide(limit.Ask{Key: key, Limit: l, N: 1}); !d.OK || d.Remaining != 0 || d.ResetAfter != time.Millisecond {
				t.Fatalf("event %d of %s: %+v, want it to pass as the first", i, key, d)
			}
			if m.Allow(key, l, 1) {
				t.Fatalf("event %d of %s passes twice", i, key)
			}
		}
		if m.Size() > 512<<10 || m.Forgotten() != 0 {
			t.Errorf("Size() = %d, Forgotten() = %d, want at most 512 KiB for 200 keys at a time, 0", m.Size(), m.Forgotten())
		}
	})
}

// TestFewKeysKeepTheirSlots: a few thousand keys find their own slots again, though
// they owe nothing in between: what is in the table does not change places.
func TestFewKeysKeepTheirSlots(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := limit.Limit{Count: 1_000_000, Period: time.Second}
		var m memory.Store
		ask := func() (tags []uint64) {
			for i := range 5000 {
				m.Allow(fmt.Sprint("key ", i), l, 1)
				time.Sleep(10 * time.Microsecond)
			}
			return m.Tags()
		}
		for range 3 {
			ask()
		}
		if before, after := ask(), ask(); !slices.Equal(before, after) || len(after) != 5000 {
			t.Errorf("the slots of 5000 keys have changed, or are %d", len(after))
		}
	})
}

// TestKeysInTheirSpareAreFound: in a table that is full a key may be in its spare
// line. It is still there when its two others have room again, also in a table that
// was restored.
func TestKeysInTheirSpareAreFound(t *testing.T) {
	memory.OneGoroutine(t)
	bubble.Test(t, func(t *testing.T) {
		brief := limit.Limit{Count: 1, Period: time.Second}
		lasting := limit.Limit{Count: 1, Period: time.Hour}
		found := 0
		for range 20 {
			m := memory.Store{MaxKeys: 2000}
			for i := range 3000 {
				m.Allow(fmt.Sprint("brief ", i), brief, 1)
			}
			var kept []string
			for i := range 900 {
				if key := fmt.Sprint("lasting ", i); m.Allow(key, lasting, 1) {
					kept = append(kept, key)
				}
			}
			if m.SpareIsUsed() {
				found++
			}
			again := memory.Store{MaxKeys: 2000}
			if err := again.Restore(m.Snapshot()); err != nil {
				t.Fatal(err)
			}
			lost := again.Forgotten()
			time.Sleep(2 * time.Second) // the brief ones have left
			for _, key := range kept {
				if m.Decide(limit.Ask{Key: key, Limit: lasting, N: 1}).OK {
					t.Errorf("%s passes twice", key)
				}
				if again.Decide(limit.Ask{Key: key, Limit: lasting, N: 1}).OK && lost == 0 {
					t.Errorf("%s passes twice after Restore", key)
				}
			}
			for _, m := range []*memory.Store{&m, &again} {
				if err := m.Check(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if found < 10 {
			t.Errorf("%d of 20 tables used a spare line: too few to tell", found)
		}
	})
}

// TestNewKeysTogether lets 8 goroutines ask for the same keys at their first event,
// in a table in which most slots are free again and taken by others all the time:
// one of them passes.
func TestNewKeysTogether(t *testing.T) {
	l := limit.Limit{Count: 1, Period: 24 * time.Hour}
	brief := limit.Limit{Count: 1_000_000, Period: time.Second}
	keys := size(200_000)
	m := memory.Store{MaxKeys: 8 * keys}
	passed := make([]atomic.Int32, keys)
	all(8, func(g int) {
		rng := rand.New(rand.NewPCG(uint64(g), 7))
		for i := range keys {
			m.Allow(fmt.Sprint("brief ", rng.Uint32()), brief, 1)
			if g%2 == 0 && m.Allow(fmt.Sprint("key ", i), l, 1) || g%2 == 1 && m.Decide(limit.Ask{Key: fmt.Sprint("key ", i), Limit: l, N: 1}).OK {
				passed[i].Add(1)
			}
		}
	})
	for i := range passed {
		if n := passed[i].Load(); n != 1 {
			t.Errorf("key %d passed %d times, want once", i, n)
		}
	}
	if err := m.Check(); err != nil {
		t.Error(err)
	}
}
