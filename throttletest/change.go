package throttletest

import (
	"fmt"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// A witness follows one key where the store may do one thing or another: it
// holds what may be known of the key by all the answers there were.
type witness struct {
	suite
	could []*account
	seen  time.Time // the latest that the clock of the store has shown
}

func newWitness(s suite, l limit.Limit) *witness {
	return &witness{suite: s, could: []*account{newAccount(l)}}
}

// mostCould bounds what a witness thinks of at once.
const mostCould = 64

// agree asks the store, and reports whether anything that it may know explains
// the answer.
func (w *witness) agree(t *testing.T, a limit.Ask) bool {
	t.Helper()
	got, ok, err := w.ask(t, a)
	if err != nil {
		t.Errorf("Take(%s): error %v", told([]limit.Ask{a}), err)
		return false
	}
	var next []*account
	wants := map[limit.Decision]bool{}
	now := got[0].At
	for _, c := range w.could {
		for _, k := range w.readings(c, now, a.Limit) {
			want := []limit.Decision{k.take(now, a)}
			if ok != want[0].OK || !equal(got, want) {
				wants[want[0]] = true
				continue
			}
			next = append(next, k)
			if want[0].N == 0 { // nothing charged: it need not be written
				next = append(next, c)
			}
		}
	}
	if len(next) == 0 {
		t.Errorf("Take(%s)\n got  %+v, want", told([]limit.Ask{a}), got[0])
		for want := range wants {
			t.Logf(" or   %+v", want)
		}
		return false
	}
	w.could = next[:min(len(next), mostCould)]
	if now.After(w.seen) {
		w.seen = now
	}
	return true
}

// readings are what c may mean under the limit l.
func (w *witness) readings(c *account, now time.Time, l limit.Limit) (all []*account) {
	same := c.limit.Kind == l.Kind
	if same || c.apart == nil && newApart(l.Kind) == nil {
		asItStands := c.copied()
		asItStands.limit = l
		all = append(all, asItStands)
	}
	if c.limit != l && len(all) == 1 && c.apart == nil {
		changed := c.copied()
		changed.state, changed.limit = limit.Change(c.state, now, c.limit, l), l
		all = append(all, changed)
	}
	if !same && len(all) == 0 { // a Log or Slots is charged, or was
		carried := newAccount(l)
		carried.take(now, limit.Ask{Limit: l, N: c.used(now), Debt: true})
		all = append(all, carried)
	}
	if !same || !c.until.After(w.seen) {
		fresh := newAccount(l)
		fresh.former = c
		all = append(all, fresh)
	}
	if !same && c.former != nil && c.former.limit == l { // kept elsewhere meanwhile
		all = append(all, c.former.copied())
	}
	return all
}

// change asks about a key under one limit, then another, then the first again.
func (s suite) change(t *testing.T) {
	for i, kind := range allKinds {
		from := limit.Limit{Kind: kind, Count: 10, Period: 365 * day}
		fewer, more, other := from, from, from
		fewer.Count, more.Count = 5, 20
		other.Kind, other.Count = allKinds[(i+1)%len(allKinds)], 15
		for j, to := range []limit.Limit{fewer, more, other} {
			w := newWitness(s, from)
			for _, step := range []struct {
				l limit.Limit
				n int64
			}{{from, 6}, {to, 0}, {to, 1}, {to, 100}, {to, 3}, {to, -1}, {from, 0}, {from, 2}, {from, 11}} {
				a := limit.Ask{Key: s.key(fmt.Sprint("change ", i, " ", j)), Limit: step.l, N: step.n}
				if !w.agree(t, a) {
					t.Errorf("in the change from %v to %v", from, to)
					break
				}
			}
		}
	}
}
