package store_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/store"
)

// plain is a Store without any method but Take.
type plain struct{ store.Store }

// TestTakeThroughAnyDoor: whatever optional methods a Store has, Take and Allow
// say the same.
func TestTakeThroughAnyDoor(t *testing.T) {
	l := limit.Limit{Count: 2, Period: time.Hour}
	for name, s := range map[string]store.Store{
		"memory":           new(memory.Store),
		"memory, as plain": plain{new(memory.Store)},
		"leases":           &store.Leases{Store: new(memory.Store)},
		"leases, as plain": plain{&store.Leases{Store: new(memory.Store)}},
	} {
		if ok, err := store.Allow(t.Context(), s, "k", l); !ok || err != nil {
			t.Errorf("%s: Allow = %t, %v, want true", name, ok, err)
		}
		if d, err := store.Take(t.Context(), s, "k", l, 1); !d.OK || d.Remaining != 0 || err != nil {
			t.Errorf("%s: Take = %+v, %v, want the last of 2", name, d, err)
		}
		if ok, err := store.Allow(t.Context(), s, "k", l); ok || err != nil {
			t.Errorf("%s: third Allow = %t, %v, want false", name, ok, err)
		}
		if d, err := store.Take(t.Context(), s, "k", l, 0); d.Remaining != 0 || d.Max != 2 || err != nil {
			t.Errorf("%s: peek = %+v, %v, want nothing of 2 left", name, d, err)
		}
		if ok, err := store.Allow(t.Context(), s, "other", l); !ok || err != nil {
			t.Errorf("%s: Allow of another key = %t, %v, want true", name, ok, err)
		}
	}
}

// TestTakeSaysTheSameThroughAnyDoor: every field of a Decision, of limits that pack
// into a word and of others, until they refuse, at peeks and at refunds.
func TestTakeSaysTheSameThroughAnyDoor(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		direct, behind := new(memory.Store), new(memory.Store)
		for i, l := range []limit.Limit{
			{Count: 3, Period: time.Second, Burst: 5},
			{Count: 99_991, Period: time.Hour, Burst: 5},
			{Kind: limit.FixedWindow, Count: 5, Period: time.Minute},
			{Kind: limit.SlidingLog, Count: 5, Period: time.Minute},
			{Count: 0, Period: time.Second},
			{},
		} {
			key := string(rune('a' + i))
			for _, n := range []int64{0, 1, 2, 0, 1, 3, -1, 6, 1, 1, 1, 0} {
				got, err := store.Take(t.Context(), direct, key, l, n)
				want, err2 := store.Take(t.Context(), plain{behind}, key, l, n)
				if got != want || err != nil || err2 != nil || got.At.IsZero() {
					t.Errorf("%v, %d: Take = %+v, %v, want %+v, %v", l, n, got, err, want, err2)
				}
				time.Sleep(70 * time.Millisecond)
			}
		}
	})
}

// counter adds to the Take of the memory.Store that it embeds.
type counter struct {
	memory.Store
	n int
}

func (c *counter) Take(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
	c.n++
	return c.Store.Take(ctx, a, d)
}

// TestTakeOfAnEmbeddedStore: what a wrapper adds to Take is not bypassed.
func TestTakeOfAnEmbeddedStore(t *testing.T) {
	var s counter
	l := limit.Limit{Count: 2, Period: time.Hour}
	store.Take(t.Context(), &s, "k", l, 1)
	store.Allow(t.Context(), &s, "k", l)
	if s.n != 2 {
		t.Errorf("Take of the wrapper was called %d times, want 2", s.n)
	}
}

func TestTakeCannotDecide(t *testing.T) {
	boom := errors.New("boom")
	s := store.Func(func(context.Context, []limit.Ask, []limit.Decision) (bool, error) { return false, boom })
	l := limit.Limit{Count: 2, Period: time.Hour}
	if d, err := store.Take(t.Context(), s, "k", l, 1); d.OK || !errors.Is(err, boom) {
		t.Errorf("Take = %+v, %v, want the error of the Store", d, err)
	}
	if ok, err := store.Allow(t.Context(), s, "k", l); ok || !errors.Is(err, boom) {
		t.Errorf("Allow = %t, %v, want the error of the Store", ok, err)
	}
}

func TestTakeOfMemoryAllocatesNothing(t *testing.T) {
	var m memory.Store
	l := limit.Limit{Count: 1000, Period: time.Second}
	for name, f := range map[string]func(){
		"Take":  func() { store.Take(t.Context(), &m, "k", l, 1) },
		"Allow": func() { store.Allow(t.Context(), &m, "k", l) },
	} {
		if n := testing.AllocsPerRun(1000, f); n != 0 {
			t.Errorf("%s of a memory.Store allocates %v times, want 0", name, n)
		}
	}
}
