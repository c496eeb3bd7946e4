package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
)

// What is leased, or refused, is answered without the lock of the shard: also
// after two callers have met, and a word for each processor is used.
func TestLeasesNeedNoLock(t *testing.T) {
	l := &Leases{Store: new(memory.Store), Life: time.Hour}
	plenty := limit.Limit{Count: 1 << 40, Period: time.Second}
	none := limit.Limit{Kind: limit.FixedWindow, Count: 1, Period: 10_000 * time.Hour}
	for range 20 {
		_, _ = Take(t.Context(), l, "hot", plenty, 1)
		_, _ = Take(t.Context(), l, "none", none, 1)
	}
	tab := l.table()
	for _, divided := range []bool{false, true} {
		for key, lim := range map[string]limit.Limit{"hot": plenty, "none": none} {
			s, _ := tab.shard(key)
			if divided {
				s.keys[key].hot.divide()
				_, _ = Take(t.Context(), l, key, lim, 1) // it is lent again
			}
			asked := l.Stats().Calls
			s.mu.Lock()
			done := make(chan limit.Decision)
			go func() {
				d, _ := Take(t.Context(), l, key, lim, 1)
				done <- d
			}()
			select {
			case d := <-done:
				s.mu.Unlock()
				if d.OK != (key == "hot") || l.Stats().Calls != asked {
					t.Errorf("%s, divided %v: %+v", key, divided, d)
				}
			case <-time.After(10 * time.Second):
				s.mu.Unlock()
				<-done
				t.Errorf("%s, divided %v: Take waits for the lock", key, divided)
			}
		}
	}
}

// beside is a key that is looked for in the same place as another.
func beside(t *leaseTable, key string) string {
	shard, slot := t.shard(key)
	for i := 0; ; i++ {
		other := fmt.Sprint(i)
		if s, n := t.shard(other); s == shard && n == slot {
			return other
		}
	}
}

// Two keys that are looked for in one place each use the tokens of their own.
func TestLeasesOfOneSlot(t *testing.T) {
	l := &Leases{Store: new(memory.Store), Life: time.Hour}
	plenty := limit.Limit{Count: 1 << 40, Period: time.Second}
	for range 20 {
		_, _ = Take(t.Context(), l, "a", plenty, 1)
	}
	shard, _ := l.table().shard("a")
	held := func() uint64 { return shard.keys["a"].hot.main.left.Load() & mostHot }
	before, asked := held(), l.Stats().Calls
	_, _ = Take(t.Context(), l, beside(l.table(), "a"), plenty, 1)
	if before == 0 || held() != before || l.Stats().Calls != asked+1 {
		t.Errorf("after a Take of another key, %d of %d tokens are held and the Store was called %d times, want all, and once",
			held(), before, l.Stats().Calls-asked)
	}
}

// What was served locally stays counted when its key is forgotten.
func TestLeasesCountWhatIsForgotten(t *testing.T) {
	l := &Leases{Store: new(memory.Store), Life: time.Hour, MaxKeys: 1}
	plenty := limit.Limit{Count: 1 << 40, Period: time.Second}
	for range 1000 {
		_, _ = Take(t.Context(), l, "hot", plenty, 1)
	}
	_, _ = Take(t.Context(), l, beside(l.table(), "hot"), plenty, 1) // displaces it
	if c := l.Stats(); c.Calls+c.Local != 1001 || c.Calls > 100 {
		t.Errorf("after 1001 calls, few of which need the Store, Stats() = %+v", c)
	}
}

// Each processor gets a part of its own, as long as there are enough.
func TestLeasesSpares(t *testing.T) {
	var s spares
	seen := map[int]bool{}
	for range hotParts {
		seen[*s.get()] = true
	}
	for i := range hotParts {
		if !seen[i] {
			t.Errorf("of %d processors none gets part %d: %v", hotParts, i, seen)
		}
	}
}
