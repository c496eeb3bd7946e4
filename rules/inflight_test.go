package rules_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/rules"
	"github.com/throttle-go/throttle/store"
)

const busyRules = `{"allow": "client=free", "rules": [
	{"name": "op", "key": "client+path:1", "in_flight": 2, "limits": "5/h", "overrides": [
		{"key": ["acme", "*"], "in_flight": 3}, {"key": ["one", "export"], "limits": "unlimited"}]},
	{"name": "all", "in_flight": 4}
]}`

// admit is Admit, which must not fail.
func admit(t *testing.T, c *rules.Compiled, b *book, f *store.InFlight, client string) (rules.Answer, rules.Hold) {
	t.Helper()
	a, h, err := c.Admit(t.Context(), b, f, rules.Request{Client: client, Path: "/export"})
	if err != nil {
		t.Fatalf("Admit(%s) = %v", client, err)
	}
	return a, h
}

func TestInFlight(t *testing.T) {
	c, b, f := mustParse(t, busyRules), newBook(), new(store.InFlight)
	used := func() int64 { return b.used("op/0/client=x/path:1=export") }
	_, first := admit(t, c, b, f, "x")
	_, second := admit(t, c, b, f, "x")
	a, third := admit(t, c, b, f, "x")
	if a.OK || a.Reason != rules.Busy || a.Rule != "op" || a.Decision != (limit.Decision{}) || a.KeyID() == "" || used() != 2 {
		t.Errorf("third at once = %+v, %d used; want it busy by op, and not charged", a, used())
	}
	third.Release()
	first.Release()
	first.Release() // once is enough
	if a, h := admit(t, c, b, f, "x"); !a.OK || a.Reason != rules.Within || a.Rule != "op" || a.Decision.Remaining != 2 {
		t.Errorf("after a release = %+v, want it to pass with 2 left", a)
	} else {
		defer h.Release()
	}
	if a, _ := admit(t, c, b, f, "x"); a.Reason != rules.Busy {
		t.Errorf("two in flight again, and one more = %+v, want it busy: a Hold releases once", a)
	}
	second.Release()
	for range 2 {
		_, h := admit(t, c, b, f, "x")
		h.Release()
	}
	if a, _ := admit(t, c, b, f, "x"); a.Reason != rules.Over || used() != 5 {
		t.Errorf("sixth in the hour = %+v, want it over", a)
	}
	if n := f.Stats().Holds; n != 1 {
		t.Errorf("%d held, want 1: what the limits refused is not in flight", n)
	}
}

func TestInFlightOverride(t *testing.T) {
	c, f := mustParse(t, busyRules), new(store.InFlight)
	for client, want := range map[string]int{"x": 2, "acme": 3, "one": 2, "free": 9} {
		b, got := newBook(), 0
		var holds []rules.Hold
		for range 9 {
			a, h := admit(t, c, b, f, client)
			if a.OK {
				got++
			}
			holds = append(holds, h)
		}
		if got != want {
			t.Errorf("%s: %d of 9 at once, want %d", client, got, want)
		}
		for _, h := range holds {
			h.Release()
		}
	}
	if n := f.Stats().Holds; n != 0 {
		t.Errorf("%d held after all were released", n)
	}
	b, passed := newBook(), 0
	for range 9 {
		a, h := admit(t, c, b, f, "acme")
		if h.Release(); a.OK {
			passed++
		}
	}
	if passed != 5 {
		t.Errorf("acme: %d of 9 one after the other, want the 5 of the rule's limit, which is not overridden", passed)
	}
	r := rules.Request{Client: "x", Path: "/export"}
	for i := range 5 { // Decide counts nothing under way
		if a := ask(t, c, newBook(), r); !a.OK {
			t.Errorf("Decide %d = %+v, want it to pass", i, a)
		}
	}
}

// TestInFlightOnly: without limits the Store is not asked; all scopes count.
func TestInFlightOnly(t *testing.T) {
	c := mustParse(t, `{"rules": [{"name": "client", "key": "client", "in_flight": 2}, {"name": "all", "in_flight": 3}]}`)
	f := new(store.InFlight)
	var got []string
	for _, client := range []string{"a", "a", "a", "b", "b"} {
		a, _, err := c.Admit(t.Context(), nil, f, rules.Request{Client: client})
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, a.Reason.String()+" "+a.Rule)
	}
	if want := "within ,within ,busy client,within ,busy all"; strings.Join(got, ",") != want {
		t.Errorf("answers %q, want %s", got, want)
	}
}

// TestInFlightShadow: a shadow rule counts what is in flight until it is done,
// and refuses nothing.
func TestInFlightShadow(t *testing.T) {
	c := mustParse(t, `{"rules": [{"name": "real", "in_flight": 9}, {"name": "tried", "shadow": true, "in_flight": 1, "limits": "9/h"}]}`)
	f, b := new(store.InFlight), newBook()
	first, h := admit(t, c, b, f, "x")
	second, h2 := admit(t, c, b, f, "x")
	h.Release()
	third, h3 := admit(t, c, b, f, "x")
	if !first.OK || !second.OK || !third.OK || len(first.Shadow) != 0 || len(second.Shadow) != 1 || len(third.Shadow) != 0 {
		t.Errorf("answers %+v, %+v, %+v; want the second alone to be refused in shadow", first, second, third)
	}
	h2.Release()
	h3.Release()
	if n := f.Stats().Holds; n != 0 || b.used("tried/0") != 2 {
		t.Errorf("%d held after all were released, %d charged in shadow; want 0 and 2", n, b.used("tried/0"))
	}
}

// TestNothingLeaks: not when the Store fails or panics, wherever.
func TestNothingLeaks(t *testing.T) {
	c := mustParse(t, `{"rules": [{"name": "real", "in_flight": 9, "limits": "9/h"},
		{"name": "one", "shadow": true, "in_flight": 9, "limits": "9/h"}, {"name": "two", "shadow": true, "in_flight": 9, "limits": "9/h"}]}`)
	for call := 1; call <= 3; call++ {
		for _, panics := range []bool{false, true} {
			f, n := new(store.InFlight), 0
			s := store.Func(func(_ context.Context, _ []limit.Ask, d []limit.Decision) (bool, error) {
				n++
				if n == call && panics {
					panic("at the disco")
				}
				if n == call {
					return false, errors.New("away")
				}
				d[0].OK = true
				return true, nil
			})
			func() {
				defer func() { _ = recover() }()
				_, h, _ := c.Admit(t.Context(), s, f, rules.Request{})
				h.Release()
			}()
			if got := f.Stats().Holds; got != 0 || n < call {
				t.Errorf("call %d fails, by panic %t: %d held after %d calls, want none", call, panics, got, n)
			}
		}
	}
}
