// Package throttletest tests stores: [TestStore] is what everything that calls
// itself a throttle.Store must pass.
package throttletest

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// Store has the shape of throttle.Store.
type Store interface {
	Take(ctx context.Context, a []limit.Ask, d []limit.Decision) (ok bool, err error)
}

// TestStore tests that store decides exactly as package limit does, by the time
// that it says it decided at; that it charges all or nothing, also under
// concurrency; that no two keys are mixed up, whatever is in them; and that it
// refuses what it must refuse.
//
// It uses keys that begin with "throttletest/" and a random number, so a store
// that is not empty will do, and leaves some of them behind for up to two days.
// The clock of the store must run: not for a synctest bubble.
func TestStore(t *testing.T, store Store) {
	t.Helper()
	s := suite{store, fmt.Sprintf("throttletest/%016x/", rand.Uint64())}
	t.Run("steps", s.steps)
	t.Run("all or nothing", s.allOrNothing)
	t.Run("amounts", s.amounts)
	t.Run("idle", s.idle)
	t.Run("names", s.names)
	t.Run("one limit under concurrency", s.concurrent)
	t.Run("two limits under concurrency", s.concurrentPairs)
	t.Run("bad questions", s.bad)
}

type suite struct {
	store  Store
	prefix string
}

const day = 24 * time.Hour

// take asks one question.
func (s suite) take(t *testing.T, a limit.Ask) limit.Decision {
	t.Helper()
	d := make([]limit.Decision, 1)
	ok, err := s.store.Take(t.Context(), []limit.Ask{a}, d)
	if err != nil {
		t.Fatalf("Take(%+v): error %v", a, err)
	}
	if ok != d[0].OK {
		t.Fatalf("Take(%+v) = ok %v, but the decision is %+v", a, ok, d[0])
	}
	return d[0]
}

// key is name made this run's own.
func (s suite) key(name string) string { return s.prefix + name }

// amounts asks for nothing, for too much, for less than nothing, and of limits
// that allow everything or nothing.
func (s suite) amounts(t *testing.T) {
	ten := limit.Limit{Count: 10, Period: day}
	window := limit.Limit{Kind: limit.FixedWindow, Count: 10, Period: 365 * day}
	for _, l := range []limit.Limit{ten, window} {
		ask := func(n int64) limit.Ask {
			return limit.Ask{Key: s.key("amounts " + l.Kind.String()), Limit: l, N: n}
		}
		for _, step := range []struct {
			n         int64
			ok        bool
			charged   int64
			remaining int64
		}{
			{0, true, 0, 10},
			{11, false, 0, 10},
			{math.MaxInt64, false, 0, 10},
			{10, true, 10, 0},
			{0, true, 0, 0},
			{1, false, 0, 0},
			{-3, true, -3, 3},
			{4, false, 0, 3},
			{3, true, 3, 0},
		} {
			d := s.take(t, ask(step.n))
			got := [...]any{d.OK, d.N, d.Remaining}
			want := [...]any{step.ok, step.charged, step.remaining}
			if got != want {
				t.Errorf("%v, N %d: OK, N, Remaining = %v, want %v", l.Kind, step.n, got, want)
			}
			if never := d.RetryAfter == limit.Never; never != (step.n > 10) {
				t.Errorf("%v, N %d: RetryAfter = %v", l.Kind, step.n, d.RetryAfter)
			}
		}
	}
	for _, c := range []struct {
		l  limit.Limit
		ok bool
	}{
		{limit.Limit{}, true},
		{limit.Limit{Period: time.Minute}, false},
		{limit.Limit{Kind: limit.FixedWindow, Period: time.Minute}, false},
	} {
		key := s.key(fmt.Sprintf("amounts %+v", c.l))
		if d := s.take(t, limit.Ask{Key: key, Limit: c.l, N: 1}); d.OK != c.ok {
			t.Errorf("%+v: OK = %v, want %v", c.l, d.OK, c.ok)
		}
	}
}

// idle lets keys expire and asks whether they are as new.
func (s suite) idle(t *testing.T) {
	for _, kind := range []limit.Kind{limit.TokenBucket, limit.FixedWindow} {
		l := limit.Limit{Kind: kind, Count: 5, Period: 2 * time.Millisecond}
		ask := limit.Ask{Key: s.key("idle " + kind.String()), Limit: l, N: 5}
		first := s.take(t, ask)
		end := first.At.Add(first.ResetAfter + time.Microsecond)
		// Watching another key tells the store's time, and leaves this one be.
		for i := 0; ; i++ {
			if now := s.take(t, limit.Ask{Key: s.key("clock"), Limit: l}); now.At.After(end) {
				break
			}
			if i == 10_000_000 {
				t.Fatalf("%v: the clock of the store stands at %v", kind, first.At)
			}
		}
		if d := s.take(t, ask); !d.OK || d.N != 5 {
			t.Errorf("%v, after it was idle: %+v, want 5 granted", kind, d)
		}
	}
}

// names gives one event to each of many keys: each must have its own.
func (s suite) names(t *testing.T) {
	names := []string{
		"", " ", "  ", "a", "A", "a ", " a", "á", "a\u0301", "a\x00", "\x00", "a\n", "\n", "\t",
		"a:b", "a::b", "a/b", "a.b", "a_b", "a%b", "a%", "*", "a*", "?", "[a]", "{a}", "{", "}{",
		"'", "''", `"`, "`", "\\", "\\\\", "$1", "%s", "'; DROP TABLE throttle; --",
		"\xff", "\xfe\xff", "\u2028", "😀", "null", "NULL", "0", "00", "1e0", "1",
		strings.Repeat("x", 255), strings.Repeat("x", 256), strings.Repeat("x", 257),
		strings.Repeat("x", 10_000), strings.Repeat("x", 9_999) + "y",
	}
	l := limit.Limit{Count: 1, Period: day}
	for _, name := range names {
		if d := s.take(t, limit.Ask{Key: s.key(name), Limit: l, N: 1}); !d.OK {
			t.Errorf("key %.40q is taken for another, used before", name)
		}
	}
	for _, name := range names {
		if d := s.take(t, limit.Ask{Key: s.key(name), Limit: l, N: 1}); d.OK {
			t.Errorf("key %.40q is not remembered", name)
		}
	}
}

// bad asks what no store may answer, and nothing at all, which passes.
func (s suite) bad(t *testing.T) {
	l := limit.Limit{Count: 10, Period: day}
	a := []limit.Ask{
		{Key: s.key("twice"), Limit: l, N: 1},
		{Key: s.key("once"), Limit: l, N: 1},
		{Key: s.key("twice"), Limit: l, N: 1},
	}
	if ok, err := s.store.Take(t.Context(), a, make([]limit.Decision, 3)); err == nil {
		t.Errorf("Take with the first and the third key alike = %v, want an error", ok)
	}
	for _, ask := range a[:2] {
		ask.N = 0
		if d := s.take(t, ask); d.Remaining != 10 {
			t.Errorf("after a question that was refused, %q has %d remaining, want 10", ask.Key, d.Remaining)
		}
	}
	for _, n := range []int{0, 1, 3} {
		if ok, err := s.store.Take(t.Context(), a[:2], make([]limit.Decision, n)); err == nil {
			t.Errorf("Take of 2 asks with %d decisions = %v, want an error", n, ok)
		}
	}
	if ok, err := s.store.Take(t.Context(), nil, nil); !ok || err != nil {
		t.Errorf("Take of nothing = %v, %v, want true", ok, err)
	}
}
