package store

import (
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
