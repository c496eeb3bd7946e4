package throttletest_test

import (
	"context"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/store"
	"github.com/throttle-go/throttle/throttletest"
)

// asBroken has the tests of broken stores run, which must fail.
const asBroken = "THROTTLETEST_BROKEN"

// TestSuiteBites: each broken store fails, in a process of its own.
func TestSuiteBites(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), self, "-test.run=^TestBroken(|Clock)$", "-test.v", "-test.parallel=100")
	c.Env = append(os.Environ(), asBroken+"=1")
	out, err := c.CombinedOutput()
	if err == nil {
		t.Errorf("the tests of broken stores pass")
	}
	text := string(out)
	if strings.Contains(text, "panic:") || strings.Contains(text, "DATA RACE") {
		t.Fatalf("the tests of broken stores end with\n%s", text[max(0, len(text)-5000):])
	}
	if !strings.Contains(text, "--- PASS: TestBroken/sound ") {
		t.Errorf("among the broken stores the one that is sound fails, too; to see why, run TestBroken with %s=1", asBroken)
	}
	for test, stores := range map[string][]string{
		"TestBroken":      slices.Sorted(maps.Keys(broken)),
		"TestBrokenClock": slices.Sorted(maps.Keys(brokenClocks)),
	} {
		for _, name := range stores {
			if line := "--- FAIL: " + test + "/" + strings.ReplaceAll(name, " ", "_") + " "; !strings.Contains(text, line) {
				t.Errorf("a store that %s passes %s", name, test)
			}
		}
	}
}

func TestBroken(t *testing.T) {
	if os.Getenv(asBroken) == "" {
		return // TestSuiteBites runs it
	}
	throttletest.SetPatience(100 * time.Millisecond)
	t.Run("sound", func(t *testing.T) {
		t.Parallel()
		throttletest.TestStore(t, new(book))
	})
	for name, store := range broken {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // each waits for a second
			throttletest.TestStore(t, store())
		})
	}
}

// A hand is a clock that a test moves.
type hand struct {
	mu  sync.Mutex
	now time.Time
}

func newHand() *hand { return &hand{now: time.Unix(1_800_000_000, 123_456_000)} }

func (h *hand) time() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

func (h *hand) step(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = h.now.Add(d)
}

func TestBookClock(t *testing.T) {
	h := newHand()
	throttletest.TestStoreClock(t, &book{now: h.time}, h.step)
}

// brokenClocks are stores that do not get on with a clock that jumps.
var brokenClocks = map[string]func(*hand) store.Store{
	"forgets when the clock goes back": func(h *hand) store.Store {
		b, last := &book{now: h.time}, time.Time{}
		return store.Func(func(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
			if h.time().Before(last) {
				b.keys = nil
			}
			last = h.time()
			return b.Take(ctx, a, d)
		})
	},
	"waits until the clock is back": func(h *hand) store.Store {
		last := time.Time{}
		b := &book{now: func() time.Time {
			if h.time().After(last) {
				last = h.time()
			}
			return last
		}}
		return store.Func(func(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
			ok, err := b.Take(ctx, a, d)
			for i := range d {
				d[i].At = h.time()
			}
			return ok, err
		})
	},
	"takes the time that has passed for its size": func(h *hand) store.Store {
		last := time.Time{}
		sum := time.Unix(1_800_000_000, 0)
		return &book{now: func() time.Time {
			sum, last = sum.Add(h.time().Sub(last).Abs()), h.time()
			return sum
		}}
	},
}

func TestBrokenClock(t *testing.T) {
	if os.Getenv(asBroken) == "" {
		return // TestSuiteBites runs it
	}
	for name, store := range brokenClocks {
		t.Run(name, func(t *testing.T) {
			h := newHand()
			throttletest.TestStoreClock(t, store(h), h.step)
		})
	}
}

// TestHistory: what was asked and answered is noted, and no more than Most.
func TestHistory(t *testing.T) {
	h := throttletest.History{Store: new(book), Max: 3}
	a := []limit.Ask{{Key: "a", Limit: limit.Limit{Count: 2, Period: time.Hour}, N: 1}}
	for i := range 5 {
		d := make([]limit.Decision, 1)
		ok, err := h.Take(t.Context(), a, d)
		if (err != nil) != (i >= 3) || ok != (i < 2) {
			t.Errorf("question %d of at most 3, of 2 allowed: %v, %v", i, ok, err)
		}
		d[0].N = -1 // what is noted is its own
	}
	a[0].Key = "b"
	all := h.Operations()
	if len(all) != 3 {
		t.Fatalf("noted %d operations, want 3", len(all))
	}
	last := time.Duration(0)
	for i, o := range all {
		if o.Asks[0].Key != "a" || o.Decisions[0].N < 0 || o.OK != (i < 2) || o.Err != nil || o.Call < last || o.Return < o.Call {
			t.Errorf("operation %d is %+v", i, o)
		}
		last = o.Return
	}
	if _, err := new(throttletest.History).Take(t.Context(), nil, nil); err == nil || err.Error() != "throttletest: the History has no Store" {
		t.Errorf("without a Store: %v", err)
	}
}
