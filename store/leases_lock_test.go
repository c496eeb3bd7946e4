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

// A caller that stands still while its tokens are collected and lent again uses none of them.
func TestLeasesLendAnew(t *testing.T) {
	l := &Leases{Store: new(memory.Store), Life: time.Hour}
	plenty := limit.Limit{Count: 1 << 40, Period: time.Second}
	for range 20 {
		_, _ = Take(t.Context(), l, "a", plenty, 1)
	}
	s, slot := l.table().shard("a")
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.keys["a"]
	before := k.hot.main.left.Load()
	k.collect()
	k.lend(s, slot, false)
	if after := k.hot.main.left.Load(); before&mostHot == 0 || after&mostHot != before&mostHot || after == before {
		t.Errorf("lent %x, then %x; want as many tokens, and another epoch", before, after)
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

// Tokens that several parts hold between them are collected under the lock: no part
// spends them, nor refuses what they suffice for.
func TestLeasesOfSeveralParts(t *testing.T) {
	now := time.Now()
	a := limit.Ask{Limit: limit.Limit{Count: 1, Period: time.Hour, Burst: 100}, N: 1}
	var refuses limit.Lease
	refuses.Answer(now, now, a, a, limit.Decision{RetryAfter: time.Second}, time.Hour, 0)
	for n, known := range map[int64]bool{5: false, 7: false, 8: false, 9: true} {
		h := hotLease{epoch: 2}
		h.divide()
		parts := h.more.Load()
		h.main.left.Store(h.word())
		for i := range parts {
			parts[i].left.Store(h.word())
		}
		parts[0].left.Store(h.word() | 4)
		parts[1].left.Store(h.word() | 4)
		a.N = n
		var d limit.Decision
		if got := h.takePart(&refuses, now, &a, &d, &parts[0]); got != known || d.OK {
			t.Errorf("%d of 4 here and 4 elsewhere: known %v, %+v; want %v, and none granted", n, got, d, known)
		}
		if left, _ := parts[0].close(h.word()); left != 4 {
			t.Errorf("%d of 4 here and 4 elsewhere: %d are left here, want 4", n, left)
		}
	}
}
