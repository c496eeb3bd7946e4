package memory

import (
	"sync"
	"sync/atomic"

	"github.com/throttle-go/throttle/limit"
)

// prepared is a Limit with what a decision would otherwise work out each time.
type prepared struct {
	limit limit.Limit
	fast  limit.Fast
	tag   uint64 // its number, in the place where tags have it; zero: none
	keeps keeps
}

// keeps is what is remembered of a key under a limit.
type keeps uint8

const (
	keepsState keeps = iota
	keepsNothing
	keepsWindow // in a type of its own
)

const (
	mostLimits = 1<<12 - 2 // numbers there are: 0 is none, and all ones is moved
	cacheSize  = 64        // a power of two
)

// limits numbers the distinct limits that a Memory has seen, so that a slot can
// say in 12 bits under which its state was written. The zero value is ready.
type limits struct {
	first atomic.Pointer[prepared] // the one that came first: most have no other
	cache [cacheSize]atomic.Pointer[prepared]
	all   atomic.Pointer[[]*prepared] // by number

	mu    sync.Mutex
	index map[limit.Limit]*prepared // guarded by mu
}

// get is the prepared form of l.
func (x *limits) get(l *limit.Limit) *prepared {
	spot := &x.cache[spotOf(l)]
	if p := spot.Load(); p != nil && p.is(l) {
		return p
	}
	p := x.add(*l)
	spot.Store(p)
	x.first.CompareAndSwap(nil, p)
	return p
}

// is tells whether p is l made ready. It compares field by field and in line,
// where == would be a call of a function, and that one of another.
func (p *prepared) is(l *limit.Limit) bool {
	q := &p.limit
	return q.Count == l.Count && q.Period == l.Period && q.Burst == l.Burst &&
		q.Kind == l.Kind && q.Slots == l.Slots && q.Zone == l.Zone
}

// spotOf is the place of l in the cache. 2^64 over the golden ratio spreads
// what is multiplied by it over the high bits (Knuth, TAOCP 6.4).
func spotOf(l *limit.Limit) uint64 {
	x := uint64(l.Count) ^ uint64(l.Period)<<20 ^ uint64(l.Burst)<<40 ^ uint64(l.Kind)<<60
	x *= 0x9e3779b97f4a7c15
	return x >> (64 - 6)
}

// add numbers l, if it has no number and there is one.
func (x *limits) add(l limit.Limit) *prepared {
	x.mu.Lock()
	defer x.mu.Unlock()
	if p := x.index[l]; p != nil {
		return p
	}
	p := prepare(l)
	all := x.list()
	switch {
	case p.keeps != keepsState:
	case len(all) == mostLimits:
		p.fast = limit.Fast{} // states without a number are all packed alike
	default:
		if x.index == nil {
			x.index = make(map[limit.Limit]*prepared)
		}
		x.index[l] = p
		p.tag = uint64(len(all)+1) << idShift
		all = append(all, p) // readers look at no more than they knew of
		x.all.Store(&all)
	}
	return p
}

func prepare(l limit.Limit) *prepared {
	p := &prepared{limit: l, fast: limit.FastOf(l)}
	switch {
	case l.Unlimited() || l.Count <= 0:
		p.keeps = keepsNothing
	case l.Kind == limit.SlidingLog || l.Kind == limit.SlidingSlots:
		p.keeps = keepsWindow
	}
	return p
}

func (x *limits) list() []*prepared {
	if all := x.all.Load(); all != nil {
		return *all
	}
	return nil
}

// of is the limit under which the state with the tag was written; nil if it had
// no number.
func (x *limits) of(tag uint64) *prepared {
	n := tag &^ lockBit >> idShift
	if all := x.list(); n > 0 && n <= uint64(len(all)) {
		return all[n-1]
	}
	return nil
}
