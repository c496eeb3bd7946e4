package store_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/store"
)

func ExampleClear() {
	var s memory.Store
	perHour := limit.Limit{Count: 2, Period: time.Hour}
	for range 3 {
		store.Take(context.Background(), &s, "user:42", perHour, 1)
	}
	err := store.Clear(context.Background(), &s, "user:42", perHour) // by hand, after a call to support
	d, _ := store.Take(context.Background(), &s, "user:42", perHour, 1)
	fmt.Println(d.OK, d.Remaining, err)
	// Output: true 1 <nil>
}

// A key can be cleared and set by hand, whatever the kind of its limit.
func TestClearAndSet(t *testing.T) {
	for k := limit.Kind(0); k.String() != "unknown"; k++ {
		s, l := new(memory.Store), limit.Limit{Kind: k, Count: 10, Period: 24 * time.Hour}
		left := func() int64 {
			d, err := store.Take(t.Context(), s, "k", l, 0)
			if err != nil {
				t.Fatal(err)
			}
			return d.Remaining
		}
		if _, err := s.Take(t.Context(), []limit.Ask{{Key: "k", Limit: l, N: 1000, Debt: true}}, make([]limit.Decision, 1)); err != nil {
			t.Fatal(err)
		}
		if err := store.Clear(t.Context(), s, "k", l); err != nil || left() != 10 {
			t.Errorf("%v: cleared: %d left, %v; want 10", k, left(), err)
		}
		for _, c := range []struct{ used, left int64 }{{7, 3}, {2, 8}, {1, 9}, {100, 0}, {0, 10}, {-1, 10}} {
			if err := store.SetUsed(t.Context(), s, "k", l, c.used); err != nil || left() != c.left {
				t.Errorf("%v: %d used: %d left, %v; want %d", k, c.used, left(), err, c.left)
			}
		}
	}
	lost := errors.New("lost")
	away := store.Func(func(context.Context, []limit.Ask, []limit.Decision) (bool, error) { return false, lost })
	if err := store.SetUsed(t.Context(), away, "k", limit.Limit{Count: 1, Period: 1}, 1); !errors.Is(err, lost) {
		t.Errorf("SetUsed in a Store that is away: %v, want %v", err, lost)
	}
}

// Clear also forgets what was used before the limit was lowered.
func TestClearLowered(t *testing.T) {
	for from := range limit.CalendarWindow + 1 {
		for to := range limit.CalendarWindow + 1 {
			for name, s := range map[string]store.Store{"memory": new(memory.Store), "leases": &store.Leases{Store: new(memory.Store)}} {
				old, l := limit.Limit{Kind: from, Count: 1000, Period: limit.Month}, limit.Limit{Kind: to, Count: 2, Period: limit.Month}
				if d, err := store.Take(t.Context(), s, "k", old, 1000); err != nil || !d.OK {
					t.Fatalf("%s: Take(%v, 1000) = %+v, %v", name, old, d, err)
				}
				if err := store.Clear(t.Context(), s, "k", l); err != nil {
					t.Fatalf("%s: Clear(%v) = %v", name, l, err)
				}
				if d, err := store.Take(t.Context(), s, "k", l, 2); err != nil || !d.OK {
					t.Errorf("%s: %v used up, lowered to %v and cleared: Take(2) = %+v, %v; want OK", name, old, l, d, err)
				}
			}
		}
	}
}

// What is missing is named, instead of a nil dereference somewhere below.
func TestNilIsNamed(t *testing.T) {
	l := limit.Limit{Count: 1, Period: time.Second}
	var none context.Context
	for want, f := range map[string]func(){
		"store: Take: the Store is nil":             func() { store.Take(t.Context(), nil, "k", l, 1) },
		"store: Allow: the Store is nil":            func() { store.Allow(t.Context(), nil, "k", l) },
		"store: FailOpen: the Store is nil":         func() { store.FailOpen(nil) },
		"store: Func: the function is nil":          func() { store.Func(nil).Take(t.Context(), nil, nil) },
		"store: Take: the context is nil":           func() { store.Take(none, new(memory.Store), "k", l, 1) },
		"store: Allow: the context is nil":          func() { store.Allow(none, new(memory.Store), "k", l) },
		"store: InFlight.Admit: the Store is nil":   func() { new(store.InFlight).Admit(t.Context(), nil, nil, nil) },
		"store: InFlight.Admit: the context is nil": func() { new(store.InFlight).Admit(none, new(memory.Store), nil, nil) },
	} {
		func() {
			defer func() {
				if got := recover(); got != want {
					t.Errorf("panics with %v, want %s", got, want)
				}
			}()
			f()
		}()
	}
}
