package memory

import (
	"math"
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

	// states is by what the states in the table are read: the limit itself, or,
	// of a log or slots, that of the window to which they are reduced.
	states limit.Limit
	most   int64 // of states
}

// keeps says what is remembered of a key under a limit.
type keeps uint8

const (
	keepsState keeps = iota
	keepsNothing
	keepsRing // a limit.Log or limit.Slots, which do not fit a State
)

const (
	maxLimits  = 1<<12 - 2 // numbers there are: 0 is none, and all ones is tagMoved
	cacheBits  = 6         // of the number of a spot in the cache
	cacheSpots = 1 << cacheBits
)

// limits numbers the distinct limits that a Store has seen, so that a slot can
// say in 12 bits under which its state was written. The zero value is ready.
type limits struct {
	first atomic.Pointer[prepared] // the one that came first: most have no other
	cache [1 << cacheBits]atomic.Pointer[prepared]
	all   atomic.Pointer[[]*prepared] // by number, less one

	mu    sync.Mutex
	index map[limit.Limit]*prepared // guarded by mu
}

// get returns the prepared form of l.
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

// is reports whether p was made of l. It compares field by field and in line,
// where == would be a call of a function, and that one of another.
func (p *prepared) is(l *limit.Limit) bool {
	q := &p.limit
	return q.Count == l.Count && q.Period == l.Period && q.Burst == l.Burst &&
		q.Kind == l.Kind && q.Slots == l.Slots && q.Zone == l.Zone
}

// spotOf returns the spot of l in the cache. 2^64 over the golden ratio spreads
// what is multiplied by it over the high bits (Knuth, TAOCP 6.4).
func spotOf(l *limit.Limit) uint64 {
	x := uint64(l.Count) ^ uint64(l.Period)<<20 ^ uint64(l.Burst)<<40 ^ uint64(l.Kind)<<60
	x *= 0x9e3779b97f4a7c15
	return x >> (64 - cacheBits)
}

// add prepares l, and numbers it, if it has no number and there is one left.
func (x *limits) add(l limit.Limit) *prepared {
	x.mu.Lock()
	defer x.mu.Unlock()
	p := x.index[l]
	if p == nil {
		if p = prepare(l); p.keeps == keepsState {
			x.numberLocked(p)
		}
	}
	return p
}

// reduced prepares the limit of a log or slots that is about to be reduced, and
// numbers it, if it has no number and there is one left. The others need none.
func (x *limits) reduced(l limit.Limit) *prepared {
	x.mu.Lock()
	defer x.mu.Unlock()
	p := x.index[l]
	if p == nil {
		p = prepare(l)
		x.numberLocked(p)
	}
	return p
}

func (x *limits) numberLocked(p *prepared) {
	all := x.list()
	if len(all) == maxLimits {
		p.fast = limit.Fast{} // states without a number are all packed alike
		return
	}
	if x.index == nil {
		x.index = make(map[limit.Limit]*prepared)
	}
	x.index[p.limit] = p
	p.tag = uint64(len(all)+1) << tagLimitShift
	all = append(all, p) // readers look at no more than they knew of
	x.all.Store(&all)
}

func prepare(l limit.Limit) *prepared {
	p := &prepared{limit: l, fast: limit.FastOf(l), states: l, most: l.Max()}
	switch {
	case l.Unlimited() || l.Count <= 0:
		p.keeps = keepsNothing
	case l.Kind == limit.SlidingLog || l.Kind == limit.SlidingSlots:
		p.keeps = keepsRing
		// What was taken under slots is there for longer than a Period, for twice
		// as long at most.
		p.states = limit.Limit{Kind: limit.FirstHitWindow, Count: p.most, Period: 2 * min(l.Period, math.MaxInt64/2)}
	}
	return p
}

func (x *limits) list() []*prepared {
	if all := x.all.Load(); all != nil {
		return *all
	}
	return nil
}

// of returns the limit under which the state with the tag was written; nil if
// that had no number.
func (x *limits) of(tag uint64) *prepared {
	n := tag &^ tagLock >> tagLimitShift
	if all := x.list(); n > 0 && n <= uint64(len(all)) {
		return all[n-1]
	}
	return nil
}
