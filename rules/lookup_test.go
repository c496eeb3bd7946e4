package rules_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/rules"
)

// database is a function that looks overrides up.
type database struct {
	mu    sync.Mutex
	took  time.Duration
	limit rules.Limit
	err   error
	calls map[string]int
}

func (d *database) find(ctx context.Context, rule string, key []string) (o rules.Override, ok bool, err error) {
	d.mu.Lock()
	d.calls[fmt.Sprint(rule, key)]++
	took, l, err := d.took, d.limit, d.err
	d.mu.Unlock()
	select {
	case <-time.After(took):
	case <-ctx.Done():
		return o, false, ctx.Err()
	}
	return rules.Override{Limits: []rules.Limit{l}}, l != rules.Limit{} && key[0] != "none", err
}

func (d *database) set(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
}

func TestLookup(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := mustParse(t, `{"rules": [
			{"name": "r", "key": "client+address", "limits": "1/h", "lookup": true, "overrides": {"key": ["file", "*"], "limits": "2/h"}},
			{"name": "other", "match": {"paths": "/other"}, "key": "client", "limits": "1/h"}
		]}`)
		d := &database{calls: map[string]int{}, took: time.Millisecond, limit: rules.Limit{Count: 7, Period: time.Hour}}
		var failed []error
		x := &rules.Overrides{Find: d.find, OnError: func(err error) { failed = append(failed, err) }}
		limitOf := func(client string) int64 {
			t.Helper()
			a := ask(t, c, newBook(), rules.Request{Client: client, Address: addr("2001:db8::1"), Override: x.Override})
			return a.Limit.Count
		}
		expect := func(what string, got, want int64) {
			t.Helper()
			if got != want {
				t.Errorf("%s: the limit is %d, want %d", what, got, want)
			}
		}
		for range 3 {
			expect("one that is looked up", limitOf("acme"), 7)
			expect("one that has none", limitOf("none"), 1)
			expect("one in the file", limitOf("file"), 2)
		}
		if n := d.calls["r[acme 2001:db8::/64]"]; n != 1 || len(d.calls) != 2 {
			t.Errorf("calls %v, want one for each of two keys", d.calls)
		}
		d.set(func() { d.limit.Count = 8 })
		time.Sleep(59 * time.Second)
		expect("within the TTL", limitOf("acme"), 7)
		time.Sleep(time.Second)
		expect("after the TTL", limitOf("acme"), 8)
		d.set(func() { d.err = errors.New("away") })
		time.Sleep(time.Minute)
		expect("while it is away", limitOf("acme"), 8)
		expect("one never found", limitOf("new"), 1)
		if len(failed) != 2 {
			t.Errorf("errors %v, want two", failed)
		}
		d.set(func() { d.err = nil })
		time.Sleep(6 * time.Second)
		expect("soon after it was away", limitOf("new"), 8)
		d.set(func() { d.took = time.Hour })
		begun := time.Now()
		expect("while it hangs", limitOf("slow"), 1)
		if took := time.Since(begun); took != 20*time.Millisecond {
			t.Errorf("a lookup that hangs took %v, want 20ms", took)
		}
		d.set(func() { d.took, d.limit.Count = 0, -1 })
		expect("a bad one", limitOf("bad"), 1)
	})
}

// Many requests for one key wait for one lookup, and keys are bounded.
func TestLookupTogether(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := &database{calls: map[string]int{}, took: 10 * time.Millisecond, limit: rules.Limit{Count: 7, Period: time.Hour}}
		x := &rules.Overrides{Find: d.find, Max: 10}
		var all sync.WaitGroup
		gone, cancel := context.WithCancel(t.Context())
		for i := range 20 {
			all.Go(func() {
				ctx := t.Context()
				if i == 0 {
					ctx = gone
				}
				_, ok := x.Override(ctx, "r", []string{"hot"})
				if !ok && i > 0 {
					t.Error("a request that waited for another's lookup got nothing")
				}
			})
			synctest.Wait() // the first looks it up, and the others wait for it
		}
		time.Sleep(time.Millisecond)
		cancel() // the one that looks it up may have gone: the others get the result
		all.Wait()
		if n := d.calls["r[hot]"]; n != 1 {
			t.Errorf("%d calls for one key, want 1", n)
		}
		for i := range 100 {
			x.Override(t.Context(), "r", []string{fmt.Sprint(i)})
			x.Override(t.Context(), "r", []string{"hot"})
		}
		x.Override(t.Context(), "r", []string{"0"})
		if hot, first := d.calls["r[hot]"], d.calls["r[0]"]; hot > 2 || first != 2 {
			t.Errorf("%d calls for the key in use and %d for the first of many, want at most 2 (its TTL has passed) and 2", hot, first)
		}
	})
}

// Results are bounded by Max, however small, and the last used one is remembered; of a
// large Max, the last half.
func TestLookupBounds(t *testing.T) {
	for most := 1; most <= 5; most++ {
		calls := 0
		x := &rules.Overrides{Max: most, Find: func(context.Context, string, []string) (rules.Override, bool, error) {
			calls++
			return rules.Override{}, false, nil
		}}
		for i := range 10 {
			for range 2 {
				x.Override(t.Context(), "r", []string{fmt.Sprint(i)})
			}
		}
		if calls != 10 {
			t.Errorf("Max %d: %d calls for 10 keys twice in a row, want 10", most, calls)
		}
		x.Override(t.Context(), "r", []string{fmt.Sprint(9 - most)}) // that of so many others ago
		if calls != 11 {
			t.Errorf("Max %d: a key used before %d others is remembered", most, most)
		}
	}
	calls := 0
	x := &rules.Overrides{Max: 100, Find: func(context.Context, string, []string) (rules.Override, bool, error) {
		calls++
		return rules.Override{}, false, nil
	}}
	for i := range 100 {
		x.Override(t.Context(), "r", []string{fmt.Sprint(i % 50)})
	}
	if calls != 50 {
		t.Errorf("Max 100: %d calls for 50 keys twice in turn, want 50", calls)
	}
}

// An override that is flawed is a lookup that failed: the old one counts, and OnError is
// told.
func TestLookupFlawed(t *testing.T) {
	many := make([]rules.Limit, 20)
	for i := range many {
		many[i] = rules.Limit{Count: 1, Period: time.Hour}
	}
	for what, flawed := range map[string]rules.Override{
		"too many limits": {Limits: many}, "in_flight below zero": {InFlight: -1}, "a limit below zero": {Limits: []rules.Limit{{Count: -1, Period: time.Hour}}},
	} {
		bubble.Test(t, func(t *testing.T) {
			found, failed := rules.Override{InFlight: 7}, 0
			x := &rules.Overrides{
				Find:    func(context.Context, string, []string) (rules.Override, bool, error) { return found, true, nil },
				OnError: func(error) { failed++ },
			}
			x.Override(t.Context(), "r", []string{"a"})
			found = flawed
			time.Sleep(time.Hour)
			if o, ok := x.Override(t.Context(), "r", []string{"a"}); !ok || o.InFlight != 7 || failed != 1 {
				t.Errorf("%s, after a good one: %+v, %t, %d errors; want the good one, and one error", what, o, ok, failed)
			}
		})
	}
}

// Without a Max, or with one below zero, many keys are remembered.
func TestLookupDefaultMax(t *testing.T) {
	for _, most := range []int{0, -1} {
		calls := 0
		x := &rules.Overrides{Max: most, Find: func(context.Context, string, []string) (rules.Override, bool, error) {
			calls++
			return rules.Override{}, false, nil
		}}
		for i := range 2000 {
			x.Override(t.Context(), "r", []string{fmt.Sprint(i % 1000)})
		}
		if calls != 1000 {
			t.Errorf("Max %d: %d calls for 1000 keys twice, want 1000", most, calls)
		}
	}
}

// A function that panics leaves no other request waiting.
func TestLookupPanics(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		x := &rules.Overrides{Find: func(context.Context, string, []string) (rules.Override, bool, error) {
			panic("x")
		}}
		func() {
			defer func() { recover() }()
			x.Override(t.Context(), "r", []string{"a"})
			t.Error("the panic is lost")
		}()
		begun := time.Now()
		if _, ok := x.Override(t.Context(), "r", []string{"a"}); ok || time.Since(begun) != 0 {
			t.Errorf("after a panic: ok %t after %v, want no override at once", ok, time.Since(begun))
		}
	})
}

// Shadow limits are not tried on a key whose override was looked up.
func TestLookupShadowLimit(t *testing.T) {
	c := mustParse(t, `{"rules": {"name": "r", "key": "client", "limits": "9/h", "shadow": {"limits": "1/h"}, "lookup": true}}`)
	plans := func(_ context.Context, _ string, key []string) (rules.Override, bool) {
		return rules.Override{Limits: []rules.Limit{{Count: 99, Period: time.Hour}}}, key[0] == "acme"
	}
	b := newBook()
	for client, shadow := range map[string]bool{"acme": false, "x": true} {
		ask(t, c, b, rules.Request{Client: client, Override: plans})
		a := ask(t, c, b, rules.Request{Client: client, Override: plans})
		if !a.OK || (a.Shadow != nil) != shadow {
			t.Errorf("the second of %s = %+v; want it to pass, shadow %t", client, a, shadow)
		}
	}
	if got := b.used("r/s0/client=acme"); got != 0 {
		t.Errorf("a key with an override has used %d of the shadow limit, want 0", got)
	}
}
