package linear

import (
	"hash/maphash"
	"slices"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/throttletest"
)

// isApart tells whether a Kind keeps more than a State.
func isApart(k limit.Kind) bool { return k == limit.SlidingLog || k == limit.SlidingSlots }

// taken is what was lately granted of a key of such a Kind, in order.
type taken []grant

type grant struct {
	at time.Time
	n  int64
}

// stepApart is step for such a Kind.
func stepApart(before taken, a limit.Ask, o throttletest.Operation) (bool, any) {
	now := o.Decisions[0].At
	want := before.take(now, a)
	if !same(o.Decisions[0], want) {
		left := before.take(now, limit.Ask{Limit: a.Limit}).ResetAfter
		before, want = nil, taken(nil).take(now, a)
		if left > o.Return-o.Call+time.Microsecond || !same(o.Decisions[0], want) {
			return false, before
		}
	}
	if want.OK != o.OK || want.N == 0 {
		return want.OK == o.OK, before
	}
	if n := len(before); n > 0 && now.Before(before[n-1].at) {
		now = before[n-1].at // it was overtaken, and is remembered as of then
	}
	gone := func(g grant) bool { return g.at.Before(now.Add(-2 * a.Limit.Period)) }
	return true, append(slices.DeleteFunc(slices.Clone(before), gone), grant{now, want.N})
}

// take is the answer to a after what was taken. As nothing is given back, and
// nothing granted on credit, a Log or Slots learns that by being asked for it
// once more.
func (x taken) take(now time.Time, a limit.Ask) limit.Decision {
	take := new(limit.Log).Take
	if a.Limit.Kind == limit.SlidingSlots {
		take = new(limit.Slots).Take
	}
	for _, g := range x {
		take(g.at, limit.Ask{Limit: a.Limit, N: g.n})
	}
	return take(now, a)
}

// equal compares what a model knows.
func equal(a, b any) bool {
	x, ok := a.(taken)
	y, ok2 := b.(taken)
	if !ok || !ok2 {
		return !ok && !ok2 && a == b
	}
	return slices.Equal(x, y)
}

var seed = maphash.MakeSeed()

// hash is the same for what is equal.
func hash(state any) uint64 {
	x, ok := state.(taken)
	switch {
	case !ok:
		return maphash.Comparable(seed, state.(states))
	case len(x) == 0:
		return 0
	}
	return uint64(x[len(x)-1].at.UnixMicro())<<8 + uint64(len(x))
}
