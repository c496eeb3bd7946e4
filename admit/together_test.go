package admit_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/rules"
	"github.com/throttle-go/throttle/store"
)

// asked is a Store that records what it was asked: KEY N of each key that is remembered, a
// line for each call.
type asked struct {
	memory.Store
	single bool  // it decides about one key at a time
	err    error // about everything, if not nil
	calls  []string
}

var errAway = errors.New("away")

func (s *asked) Take(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
	var keys []string
	for _, ask := range a {
		if ask.Limit.Count > 0 {
			keys = append(keys, fmt.Sprintf("%s %d", ask.Key, ask.N))
		}
	}
	if s.single && len(keys) > 1 {
		return false, fmt.Errorf("several slots: %w", limit.ErrAsks)
	}
	s.calls = append(s.calls, strings.Join(keys, "; "))
	if s.err != nil {
		return false, s.err
	}
	return s.Store.Take(ctx, a, d)
}

// beginAll begins a request of each client, and returns what each may: o or x. The one
// called denied has an address on the deny list.
func beginAll(t *testing.T, c *admit.Control, clients ...string) (oks string, all []*admit.Admission, err error) {
	t.Helper()
	q := make([]admit.Request, len(clients))
	all = make([]*admit.Admission, len(clients))
	for i, client := range clients {
		q[i], all[i] = admit.Request{Request: rules.Request{Client: client}}, new(admit.Admission)
		if client == "denied" {
			q[i].Address = netip.MustParseAddr("203.0.113.7")
		}
	}
	err = c.BeginAll(t.Context(), q, all)
	for _, a := range all {
		oks += map[bool]string{true: "o", false: "x"}[a.OK]
	}
	return oks, all, err
}

// left is how much of l a key may still use.
func left(t *testing.T, s *asked, key string, l limit.Limit) int64 {
	t.Helper()
	d, err := store.Take(t.Context(), &s.Store, key, l, 0)
	if err != nil {
		t.Fatal(err)
	}
	return d.Remaining
}

var twice = limit.Limit{Count: 2, Period: time.Hour}

// TestBeginAll: several requests cost one call, and are charged together or not at all.
func TestBeginAll(t *testing.T) {
	s := new(asked)
	c := &admit.Control{Store: s, Limit: twice, Name: "n", Spread: -1}
	if oks, _, err := beginAll(t, c, "a", "b", "c"); oks != "ooo" || err != nil || len(s.calls) != 1 || s.calls[0] != "n/a 1; n/b 1; n/c 1" {
		t.Errorf("three keys: %s, %v in %q, want one call", oks, err, s.calls)
	}
	beginAll(t, c, "b")
	oks, all, err := beginAll(t, c, "a", "b", "c")
	if wait := all[1].RetryAfter.Round(time.Minute); oks != "oxo" || err != nil || wait != 30*time.Minute || left(t, s, "n/a", twice) != 1 || left(t, s, "n/c", twice) != 1 {
		t.Errorf("b is over: %s, %v, RetryAfter %v, a has %d left", oks, err, wait, left(t, s, "n/a", twice))
	}
	s.calls = nil
	for _, a := range all {
		if err := a.GiveBack(); err != nil || len(s.calls) > 0 {
			t.Errorf("GiveBack of what was not charged: %v, calls %q", err, s.calls)
		}
	}
	if oks, all, _ = beginAll(t, c, "a", "a"); oks != "ox" || len(s.calls) != 2 {
		t.Errorf("one key twice, with 1 left: %s in %q, want a call for each", oks, s.calls)
	}
	if err := all[0].GiveBack(); err != nil || left(t, s, "n/a", twice) != 1 {
		t.Errorf("given back: %v, %d left, want 1", err, left(t, s, "n/a", twice))
	}
	s.err = errAway
	if oks, _, err = beginAll(t, c, "x", "y"); oks != "xx" || !errors.Is(err, errAway) {
		t.Errorf("a Store that fails: %s, %v, want xx and its error", oks, err)
	}
	if oks, _, err = beginAll(t, c); oks != "" || err != nil {
		t.Errorf("no requests: %s, %v", oks, err)
	}
}

// TestBeginAllApart: a Store that cannot decide about all keys is asked about each, charges
// nothing behind a refusal, and is asked no more once it fails.
func TestBeginAllApart(t *testing.T) {
	s := &asked{single: true}
	c := &admit.Control{Store: s, Limit: hourly, Name: "n"}
	beginAll(t, c, "b")
	oks, all, err := beginAll(t, c, "a", "b", "c", "b")
	if oks != "oxox" || err != nil || left(t, s, "n/a", hourly) != 0 || left(t, s, "n/c", hourly) != 1 {
		t.Errorf("b is over: %s, %v in %q", oks, err, s.calls)
	}
	if err := all[0].GiveBack(); err != nil || left(t, s, "n/a", hourly) != 1 {
		t.Errorf("given back: %v, a has %d left, want 1", err, left(t, s, "n/a", hourly))
	}
	s.err, s.calls = errAway, nil
	if oks, _, err := beginAll(t, c, "x", "y", "z"); oks != "xxx" || !errors.Is(err, errAway) || len(s.calls) != 1 {
		t.Errorf("a Store that fails: %s, %v in %q, want one call", oks, err, s.calls)
	}
}

// ruled is a Control by rules of 2 an hour for each client.
func ruled(t *testing.T, s store.Store, more string) *admit.Control {
	t.Helper()
	compiled, err := rules.Parse([]byte(`{"deny": "203.0.113.0/24"` + more + `}`))
	if err != nil {
		t.Fatal(err)
	}
	live := new(rules.Live)
	live.Swap(compiled)
	return &admit.Control{Store: s, Rules: live}
}

// TestBeginAllDenied: one that is denied before the Store is asked keeps the others from
// being charged, also by shadow rules, and no request stays in flight.
func TestBeginAllDenied(t *testing.T) {
	s := new(asked)
	c := ruled(t, s, `, "rules": [
		{"name": "each", "key": "client", "limits": "2/h", "in_flight": 2},
		{"name": "tried", "key": "client", "limits": "2/h", "shadow": true}]`)
	oks, all, err := beginAll(t, c, "a", "denied", "b")
	if oks != "oxo" || err != nil || len(s.calls) != 3 {
		t.Errorf("one is denied: %s, %v in %q, want one call and one for each shadow rule", oks, err, s.calls)
	}
	for _, key := range []string{"each/0/client=a", "each/0/client=b", "tried/0/client=a"} {
		if n := left(t, s, key, twice); n != 2 {
			t.Errorf("one is denied: %s has %d left, want 2", key, n)
		}
	}
	for _, a := range all {
		a.Done()
	}
	for range 2 {
		if oks, _, _ := beginAll(t, c, "a", "b"); oks != "oo" {
			t.Errorf("after Done: %s, want room in flight", oks)
		}
	}
	if oks, _, _ := beginAll(t, c, "a", "c"); oks != "xo" || left(t, s, "each/0/client=c", twice) != 2 {
		t.Errorf("a has two in flight: %s, want xo and nothing charged", oks)
	}
}

// TestBeginAllUncounted: a refusal that does not count, of a shadow rule or where nothing
// is refused, does not keep the others from being charged.
func TestBeginAllUncounted(t *testing.T) {
	for name, text := range map[string]string{
		"shadow": `, "rules": [{"name": "tried", "match": {"client": "known"}, "key": "client", "limits": "1/h", "shadow": true},
			{"name": "all", "match": {"client": "unknown"}, "limits": "2/h"}]`,
		"kill": `, "kill": true, "rules": [{"name": "tried", "match": {"client": "known"}, "key": "client", "limits": "1/h"},
			{"name": "all", "match": {"client": "unknown"}, "limits": "2/h"}]`,
	} {
		s := new(asked)
		c := ruled(t, s, text)
		beginAll(t, c, "a")
		oks, _, err := beginAll(t, c, "a", "")
		if n := left(t, s, "all/0", twice); oks != "oo" || err != nil || n != 1 {
			t.Errorf("%s: %s, %v in %q, and %d left, want oo and 1", name, oks, err, s.calls, n)
		}
	}
}

// TestBeginAllPanics: where a function of the caller's panics, no request stays in flight.
func TestBeginAllPanics(t *testing.T) {
	c := &admit.Control{MaxInFlight: 1, Limit: twice, LimitFor: func(q admit.Request) limit.Limit {
		if q.Client == "panic" {
			panic("boom")
		}
		return twice
	}}
	func() {
		defer func() {
			if p := recover(); p != "boom" {
				t.Errorf("recovered %v, want boom", p)
			}
		}()
		beginAll(t, c, "a", "panic", "b")
	}()
	if oks, _, err := beginAll(t, c, "a", "b"); oks != "oo" || err != nil {
		t.Errorf("after a panic: %s, %v, want room in flight", oks, err)
	}
}
