// Package throttletest is the conformance test suite for stores: every
// implementation of store.Store must pass [TestStore], and [TestStoreClock]
// besides if a test can set its clock. [History] records the decisions of a
// store under concurrency, for a checker of linearizability.
package throttletest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// Store has the shape of store.Store.
type Store interface {
	Take(ctx context.Context, a []limit.Ask, d []limit.Decision) (ok bool, err error)
}

// TestStore tests that store decides exactly as package limit does, under every
// Kind and by the time that it says it decided at; that it charges all or
// nothing, also under concurrency; that no two keys are mixed up, whatever is in
// them; that no debt is forgotten before it is paid; and that it refuses
// malformed asks. Three things are left to the store:
//
//   - A limit of numbers above 2^53 may be an error, as long as nothing is
//     charged. A large N is not: under any other limit it has an answer, as an
//     error might let it pass.
//   - A key asked for under another limit than before may be carried over by
//     [limit.Change], or its State read as it stands; if the Kind is another, it
//     may start unused, or be charged the usage under the one before.
//   - A context that has ended may be an error, or be ignored.
//
// It makes some 4,000 calls, with at most 16 keys each, and waits until a second
// has passed in which keys must not expire. The keys begin with "throttletest/"
// and a random number, so a store that is not empty will do; some of them are
// left behind for up to two years. Keys that are asked for together have a part
// in braces in common, as Redis Cluster needs it. The clock of the store must
// run, so it cannot be used in a synctest bubble.
func TestStore(t *testing.T, store Store) {
	t.Helper()
	s := newSuite(store)
	e := s.beginExpiry(t)
	for _, k := range kinds {
		t.Run("steps/"+k.name, func(t *testing.T) { s.steps(t, k.limits, 120, 1) })
	}
	t.Run("steps/of three keys", func(t *testing.T) { s.steps(t, allLimits(), 300, 3) })
	t.Run("all or nothing", s.allOrNothing)
	t.Run("amounts", s.amounts)
	t.Run("overflow", s.overflow)
	t.Run("idle", s.idle)
	t.Run("edges", s.edges)
	t.Run("another limit", s.change)
	t.Run("names", s.names)
	t.Run("concurrency", s.concurrent)
	t.Run("concurrency of pairs", s.concurrentPairs)
	t.Run("ended context", s.ended)
	t.Run("bad questions", s.bad)
	t.Run("expiry", e.check)
}

type suite struct {
	store Store
	run   string // a name of its own
}

func newSuite(store Store) suite { return suite{store, fmt.Sprintf("%016x", rand.Uint64())} }

const day = 24 * time.Hour

// key is name made this run's own.
func (s suite) key(name string) string { return "throttletest/" + s.run + "/" + name }

// together is the key for a name that is asked for with others of this form.
func (s suite) together(name string) string { return "throttletest/{" + s.run + "}/" + name }

// garbage is a Decision that no store returns, to see that every field is
// written.
var garbage = limit.Decision{N: -77, Max: -77, Remaining: -77, RetryAfter: -77, ResetAfter: -77}

// ask asks the store, which must leave the question as it is.
func (s suite) ask(t *testing.T, a ...limit.Ask) (d []limit.Decision, ok bool, err error) {
	t.Helper()
	d = make([]limit.Decision, len(a))
	for i := range d {
		d[i] = garbage
	}
	asked := append([]limit.Ask(nil), a...)
	ok, err = s.store.Take(t.Context(), asked, d)
	for i := range a {
		if asked[i] != a[i] {
			t.Errorf("Take(%s) changed the question to %+v", told(a), asked)
		}
	}
	return d, ok, err
}

// take asks one question, which must have an answer.
func (s suite) take(t *testing.T, a limit.Ask) limit.Decision {
	t.Helper()
	d, ok, err := s.ask(t, a)
	if err != nil {
		t.Fatalf("Take(%s): error %v", told([]limit.Ask{a}), err)
	}
	if ok != d[0].OK {
		t.Fatalf("Take(%s) = ok %v, but the decision is %+v", told([]limit.Ask{a}), ok, d[0])
	}
	return d[0]
}

// told describes a question in few words.
func told(a []limit.Ask) (text string) {
	for i, q := range a {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%.60q: %d of %v", q.Key, q.N, q.Limit)
		if q.Min != 0 {
			text += fmt.Sprintf(", at least %d", q.Min)
		}
		if q.Debt {
			text += ", on credit"
		}
	}
	return text
}
