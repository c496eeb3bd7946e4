package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
)

// under checks how many are in flight for a key.
func under(t *testing.T, f *InFlight, key string, want, wantPeak int64) {
	t.Helper()
	if n, peak := f.Held(key); n != want || peak != wantPeak {
		t.Errorf("Of(%q) = %d, %d, want %d, %d", key, n, peak, want, wantPeak)
	}
}

func TestInFlight(t *testing.T) {
	const most = math.MaxInt64
	for _, c := range []struct {
		name    string
		counts  []Count
		refused int
	}{
		{"nothing", nil, -1},
		{"zero counts as one", []Count{{"a", 1, 0}}, -1},
		{"as much as there is", []Count{{"a", 3, 3}}, -1},
		{"more than there is", []Count{{"a", 3, 4}}, 0},
		{"below zero", []Count{{"a", 3, -1}}, 0},
		{"the least", []Count{{"a", most, math.MinInt64}}, 0},
		{"nothing is allowed", []Count{{"a", 0, 1}}, 0},
		{"less than nothing is allowed", []Count{{"a", -5, 0}}, 0},
		{"all there is", []Count{{"a", most, most}}, -1},
		{"several", []Count{{"a", 1, 1}, {"b", 2, 2}, {"c", 3, 0}, {"d", 1, 1}, {"e", 1, 1}}, -1},
		{"the last does not fit", []Count{{"a", 1, 1}, {"b", 2, 2}, {"c", 0, 1}}, 2},
		{"one key twice adds up", []Count{{"a", 3, 2}, {"a", 3, 1}}, -1},
		{"one key twice is too much", []Count{{"a", 3, 2}, {"a", 3, 2}}, 1},
		{"no overflow", []Count{{"a", most, most}, {"a", most, most}}, 1},
	} {
		var f InFlight
		h, refused, ok := f.Acquire(c.counts...)
		if refused != c.refused || ok != (refused < 0) {
			t.Errorf("%s: Acquire(%+v) = %d, %v, want %d", c.name, c.counts, refused, ok, c.refused)
		}
		if s := f.Stats(); !ok && s != (InFlightStats{}) {
			t.Errorf("%s: refused, yet %+v", c.name, s)
		}
		h.Release()
		if s := f.Stats(); s.Holds != 0 || s.Keys != 0 {
			t.Errorf("%s: after Release: %+v", c.name, s)
		}
	}
}

func TestInFlightNumbers(t *testing.T) {
	var f InFlight
	a, _, _ := f.Acquire(Count{"a", 5, 2}, Count{"b", 5, 1})
	b, _, _ := f.Acquire(Count{"a", 5, 3})
	if _, refused, ok := f.Acquire(Count{"b", 5, 4}, Count{"a", 5, 1}); ok || refused != 1 {
		t.Errorf("Acquire of too much = %d, %v, want 1, false", refused, ok)
	}
	under(t, &f, "a", 5, 5)
	under(t, &f, "b", 1, 1) // what was refused is no peak
	b.Release()
	under(t, &f, "a", 2, 5)
	if got, want := f.Stats(), (InFlightStats{Keys: 2, Holds: 1, Peak: 2}); got != want {
		t.Errorf("Stats() = %+v, want %+v", got, want)
	}
	// A lower Most takes effect at once, and nothing breaks when what is too
	// much ends.
	if _, _, ok := f.Acquire(Count{"a", 1, 1}); ok {
		t.Error("2 are under way: acquired another where 1 may be")
	}
	if h, _, ok := f.Acquire(Count{"a", 3, 1}); !ok {
		t.Error("2 are under way: refused another where 3 may be")
	} else {
		h.Release()
	}
	a.Release()
	under(t, &f, "a", 0, 0)
	f.Acquire(Count{"a", 5, 1})
	under(t, &f, "a", 1, 1) // the peak is one since there last was nothing
	Hold{}.Release()
}

// A Hold that was released does nothing to the one that came after it.
func TestInFlightReleaseOnce(t *testing.T) {
	var f InFlight
	first, _, _ := f.Acquire(Count{"a", 1, 1})
	again := first
	first.Release()
	second, _, _ := f.Acquire(Count{"a", 1, 1})
	first.Release()
	again.Release()
	under(t, &f, "a", 1, 1)
	var all sync.WaitGroup
	for range 10 {
		all.Go(second.Release)
	}
	all.Wait()
	under(t, &f, "a", 0, 0)
}

func TestInFlightIsReleasedWhateverHappens(t *testing.T) {
	var f InFlight
	for name, work := range map[string]func(){
		"return": func() {},
		"panic":  func() { panic(errBoom) },
		"exit":   runtime.Goexit,
	} {
		var all sync.WaitGroup
		all.Add(1)
		go func() {
			defer all.Done()
			defer func() { _ = recover() }()
			h, _, _ := f.Acquire(Count{Key: "a", Max: 1})
			defer h.Release()
			work()
		}()
		all.Wait()
		if n, _ := f.Held("a"); n != 0 {
			t.Errorf("%s: %d are under way, want none", name, n)
		}
	}
}

func TestInFlightKeysAreBounded(t *testing.T) {
	f := InFlight{MaxKeys: 3}
	var held []Hold
	for i := range 5 {
		h, refused, ok := f.Acquire(Count{Key: "all", Max: 10}, Count{Key: fmt.Sprint(i), Max: 1})
		if ok != (i < 2) || !ok && refused != 1 {
			t.Errorf("key %d of 3: Acquire = %d, %v", i+2, refused, ok)
		}
		held = append(held, h)
	}
	if got, want := f.Stats(), (InFlightStats{Keys: 3, Holds: 2, Peak: 2, Full: 3}); got != want {
		t.Errorf("Stats() = %+v, want %+v", got, want)
	}
	held[0].Release()
	if _, _, ok := f.Acquire(Count{Key: "new", Max: 1}); !ok {
		t.Error("a new key is refused where there is room")
	}
	// What is idle takes no room, and is not kept for ever.
	big := InFlight{MaxKeys: 10}
	for i := range 3 * maxIdle {
		h, _, ok := big.Acquire(Count{Key: fmt.Sprint(i), Max: 1})
		if h.Release(); !ok || len(big.tallies) > maxIdle+1 {
			t.Fatalf("key %d: acquired %v, %d remembered", i, ok, len(big.tallies))
		}
	}
}

func TestInFlightReclaims(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := InFlight{MaxAge: time.Minute}
		lost, _, _ := f.Acquire(Count{"a", 2, 1}, Count{"b", 2, 1})
		time.Sleep(30 * time.Second)
		late, _, _ := f.Acquire(Count{"a", 2, 1})
		time.Sleep(30*time.Second - 1)
		if _, _, ok := f.Acquire(Count{"a", 2, 1}); ok {
			t.Error("reclaimed too early")
		}
		time.Sleep(time.Nanosecond)
		under(t, &f, "a", 1, 2)
		h, _, ok := f.Acquire(Count{"a", 2, 1})
		if !ok {
			t.Error("not acquired what was reclaimed")
		}
		lost.Release() // too late: it is another's now
		under(t, &f, "a", 2, 2)
		if s := f.Stats(); s.Reclaimed != 1 {
			t.Errorf("Stats() = %+v, want 1 reclaimed", s)
		}
		late.Release()
		h.Release()
		under(t, &f, "a", 0, 0)
		if s := f.Stats(); s.Reclaimed != 1 || s.Holds != 0 {
			t.Errorf("Stats() = %+v, want 1 reclaimed and nothing held", s)
		}
	})
}

// A rate and a number in flight decide as one: where one refuses, the other takes
// nothing.
func TestInFlightAdmit(t *testing.T) {
	var f InFlight
	var s memory.Store
	l := limit.Limit{Count: 3, Period: time.Hour}
	a := []limit.Ask{{Key: "rate", Limit: l, N: 1}, {Key: "all", Limit: limit.Limit{Count: 100, Period: time.Hour}, N: 1}}
	d := make([]limit.Decision, 2)
	check := func(what string, counts []Count, wantRefused int, wantOK bool, held, left int64) Hold {
		t.Helper()
		h, refused, ok, err := f.Admit(t.Context(), &s, a, d, counts...)
		if refused != wantRefused || ok != wantOK || err != nil {
			t.Errorf("%s: Admit = %d, %v, %v, want %d, %v", what, refused, ok, err, wantRefused, wantOK)
		}
		peek, _ := Take(t.Context(), &s, "rate", l, 0)
		if n, _ := f.Held("k"); n != held || peek.Remaining != left {
			t.Errorf("%s: %d under way and %d left, want %d and %d", what, n, peek.Remaining, held, left)
		}
		return h
	}
	two := []Count{{"k", 2, 1}, {"other", 9, 1}}
	first := check("first", two, -1, true, 1, 2)
	check("second", two, -1, true, 2, 1)
	d[0] = limit.Decision{OK: true}
	check("too many", two, 0, false, 2, 1)
	if d[0] != (limit.Decision{}) {
		t.Errorf("the store was not asked, yet said %+v", d[0])
	}
	first.Release()
	h := check("third", two, -1, true, 2, 0)
	h.Release()
	check("too often", two, -1, false, 1, 0)
	if d[0].OK || d[0].RetryAfter == 0 || !d[1].OK {
		t.Errorf("refused by the rate, yet decided %+v", d)
	}
	check("nothing to count", nil, -1, false, 1, 0)
}

func TestInFlightAdmitWithoutAnswer(t *testing.T) {
	var f InFlight
	a, d := []limit.Ask{{Key: "rate"}}, make([]limit.Decision, 1)
	count := Count{Key: "k", Max: 1}
	dead, cancel := context.WithCancelCause(t.Context())
	cancel(errBoom)
	fails := Func(func(context.Context, []limit.Ask, []limit.Decision) (bool, error) { return true, errBoom })
	if _, _, ok, err := f.Admit(t.Context(), fails, a, d, count); ok || refusedFor(t, err, ErrUndecided).Err != errBoom {
		t.Errorf("Admit by a store that fails = %v, %v", ok, err)
	}
	var m memory.Store
	if _, _, ok, err := f.Admit(dead, &m, a, d, count); ok || !errors.Is(err, context.Canceled) || !errors.Is(err, errBoom) {
		t.Errorf("Admit with a dead context = %v, %v", ok, err)
	}
	for _, exit := range []func(){func() { panic(errBoom) }, runtime.Goexit} {
		var all sync.WaitGroup
		all.Add(1)
		go func() {
			defer all.Done()
			defer func() { _ = recover() }()
			f.Admit(t.Context(), Func(func(context.Context, []limit.Ask, []limit.Decision) (bool, error) {
				exit()
				return true, nil
			}), a, d, count)
		}()
		all.Wait()
	}
	if s := f.Stats(); s.Holds != 0 {
		t.Errorf("after errors and panics %+v, want nothing held", s)
	}
}

// Never more than allowed, of any of several keys, and nothing left at the end.
func TestInFlightTogether(t *testing.T) {
	var f InFlight
	var all sync.WaitGroup
	var now [3]atomic.Int64
	most := []int64{3, 5, 7}
	for w := range 16 {
		all.Go(func() {
			for i := range 500 {
				x, y := (w+i)%3, (w+2*i+1)%3
				h, _, ok := f.Acquire(Count{fmt.Sprint(x), most[x], 1}, Count{fmt.Sprint(y), most[y], 1})
				if !ok {
					continue
				}
				for _, k := range []int{x, y} {
					if n := now[k].Add(1); n > most[k] {
						t.Errorf("%d under way where %d may be", n, most[k])
					}
				}
				runtime.Gosched()
				now[x].Add(-1)
				now[y].Add(-1)
				go h.Release()
				h.Release()
			}
		})
	}
	all.Wait()
	if s := f.Stats(); s.Holds != 0 || s.Keys != 0 {
		t.Errorf("Stats() = %+v, want nothing held", s)
	}
}

func TestInFlightAllocatesNothing(t *testing.T) {
	var f InFlight
	counts := []Count{{"customer", 10, 1}, {"customer::export", 3, 1}, {"all", 100, 1}}
	if got := testing.AllocsPerRun(1000, func() {
		h, _, _ := f.Acquire(counts...)
		h.Release()
	}); got != 0 {
		t.Errorf("Acquire and Release allocate %v times, want 0", got)
	}
	long := strings.Repeat("x", 1<<20)
	h, _, _ := f.Acquire(Count{Key: long[:3], Max: 1})
	defer h.Release()
	for key := range f.tallies { // a piece of a large string does not keep all of it
		if key == long[:3] && unsafe.StringData(key) == unsafe.StringData(long) {
			t.Error("the key keeps the string that it is a piece of")
		}
	}
}

// FuzzInFlight compares with a model that only adds up.
func FuzzInFlight(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 250, 251, 252})
	f.Add([]byte("several scopes at once, some of them twice, some released twice"))
	f.Fuzz(func(t *testing.T, ops []byte) {
		const keys = 4
		fl := InFlight{MaxKeys: keys - 1}
		type taken struct {
			h      Hold
			counts []Count
		}
		var open, past []taken
		busy := func() (n map[string]int64) {
			n = map[string]int64{}
			for _, o := range open {
				for _, c := range o.counts {
					n[c.Key] += max(c.N, 1)
				}
			}
			return n
		}
		fits := func(counts []Count) int {
			n := busy()
			for i, c := range counts {
				w := max(c.N, 1)
				if c.N < 0 || n[c.Key]+w > c.Max || n[c.Key] == 0 && len(n) >= keys-1 {
					return i
				}
				n[c.Key] += w
			}
			return -1
		}
		for len(ops) >= 3 {
			op, x, y := ops[0], int64(ops[1]), int64(ops[2])
			ops = ops[3:]
			switch {
			case op%3 == 0 && len(open) > 0:
				i := int(x) % len(open)
				open[i].h.Release()
				past = append(past, open[i])
				open = append(open[:i:i], open[i+1:]...)
			case op%3 == 1 && len(past) > 0:
				past[int(x)%len(past)].h.Release()
			default:
				counts := make([]Count, x%5)
				for i := range counts {
					k := (int64(op) + y*int64(i+1)) % keys
					counts[i] = Count{fmt.Sprint("key", k), (x + y) % 11, (y>>i)%5 - 1}
				}
				want := fits(counts)
				h, refused, ok := fl.Acquire(counts...)
				if refused != want || ok != (want < 0) {
					t.Fatalf("Acquire(%+v) = %d, %v, want %d; under way %v", counts, refused, ok, want, busy())
				}
				if ok {
					open = append(open, taken{h, counts})
				}
			}
			n := busy()
			for k := range keys {
				key := fmt.Sprint("key", k)
				if got, peak := fl.Held(key); got != n[key] || peak < got {
					t.Fatalf("Of(%q) = %d, peak %d, want %d", key, got, peak, n[key])
				}
			}
		}
	})
}
