package rules_test

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/rules"
	"github.com/throttle-go/throttle/store"
)

var t0 = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// book is a Store at a time that the test tells. It writes down what it was
// asked.
type book struct {
	now    time.Time
	states map[string]limit.State
	limits map[string]limit.Limit
	calls  [][]string // keys of each call
	err    error
}

func newBook() *book {
	return &book{now: t0, states: map[string]limit.State{}, limits: map[string]limit.Limit{}}
}

func (b *book) Take(_ context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
	var keys []string
	s := make([]limit.State, len(a))
	for i, ask := range a {
		if slices.Contains(keys, ask.Key) {
			return false, fmt.Errorf("two asks about %q", ask.Key)
		}
		keys = append(keys, strings.Clone(ask.Key))
		s[i] = b.states[ask.Key]
		if old, ok := b.limits[ask.Key]; ok {
			s[i] = limit.Change(s[i], b.now, old, ask.Limit)
		}
	}
	b.calls = append(b.calls, keys)
	if b.err != nil {
		return false, b.err
	}
	ok := limit.TakeAll(s, b.now, a, d)
	for i := range a {
		b.states[keys[i]], b.limits[keys[i]] = s[i], a[i].Limit
	}
	return ok, nil
}

// used is how much of what a key may use is used.
func (b *book) used(key string) int64 {
	l := b.limits[key]
	_, d := limit.Take(b.states[key], b.now, limit.Ask{Limit: l})
	return d.Max - d.Remaining
}

func mustParse(t testing.TB, text string, known ...string) *rules.Compiled {
	t.Helper()
	c, err := rules.Parse([]byte(text), known...)
	if err != nil {
		t.Fatalf("Parse(%s) = %v", text, err)
	}
	return c
}

// ask decides and must not fail.
func ask(t *testing.T, c *rules.Compiled, b *book, r rules.Request) rules.Answer {
	t.Helper()
	a, err := c.Decide(t.Context(), b, r)
	if err != nil {
		t.Fatalf("Decide(%+v) = %v", r, err)
	}
	return a
}

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

// header is a header as a Request has it.
func header(pairs ...string) func(string) string {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h.Get
}

// Rules may have limits of every kind that the Store keeps.
func TestEveryKind(t *testing.T) {
	for k := limit.Kind(0); k.String() != "unknown"; k++ {
		c := mustParse(t, fmt.Sprintf(`{"rules": [{"name": "r", "limits": {"count": 2, "period": "24h", "kind": %q}}]}`, k))
		s := store.InProcess()
		for i := range 3 {
			a, err := c.Decide(t.Context(), s, rules.Request{})
			if err != nil || a.OK != (i < 2) {
				t.Errorf("%v: request %d: %+v, %v; want two to pass", k, i, a, err)
			}
		}
	}
}

// What is missing is named, where a Store is to be asked.
func TestNilIsNamed(t *testing.T) {
	c := mustParse(t, `{"allow": "client=root", "rules": [{"name": "r", "limits": "1/s"}]}`)
	if a, err := c.Decide(t.Context(), nil, rules.Request{Client: "root"}); err != nil || !a.OK {
		t.Errorf("allowed by the list: %+v, %v; want no Store to be asked", a, err)
	}
	var none context.Context
	for want, decide := range map[string]func(){
		"rules: the Store of a decision is nil":   func() { c.Decide(t.Context(), nil, rules.Request{}) },
		"rules: the context of a decision is nil": func() { c.Decide(none, store.InProcess(), rules.Request{}) },
	} {
		func() {
			defer func() {
				if got := recover(); got != want {
					t.Errorf("panics with %v, want %s", got, want)
				}
			}()
			decide()
		}()
	}
}
