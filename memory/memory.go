package memory

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// Store decides by rate limits and remembers the state of every key in this
// process. The zero value is ready. It is safe for concurrent use, starts no
// goroutine and needs no closing; it must not be copied after first use. The
// package comment says what it keeps, what it forgets, and when.
type Store struct {
	// MaxKeys is the number of keys that the table has room for; twice as many
	// would fill every slot. A key takes the room of two if its State does not
	// fit one word: under a TokenBucket if Count, divided by its greatest common
	// divisor with the Period in microseconds, is above 65,536; under a window if
	// more than 65,535 were used. If zero or below, 1,000,000, or what MaxBytes
	// allows. It must not change after first use.
	MaxKeys int
	// MaxBytes bounds the size of the table. If zero or below, 32 for each of
	// MaxKeys. If both are set, the smaller bound holds. It must not change after
	// first use. After Restore the table may have 16 KiB, if that is more.
	MaxBytes int64

	tab       atomic.Pointer[table]
	limits    limits
	rings     rings
	forgotten atomic.Int64
	scratches sync.Pool // of *scratch

	mu sync.Mutex // held to make a table
}

const (
	defaultKeys   = 1_000_000
	keyBytes      = 32 // two slots
	maxTableBytes = min(1<<38, math.MaxInt)
)

// Allow charges n tokens for key, if l allows, and reports whether it did: it
// returns the OK of Take. With an n of 1 and a TokenBucket or a FixedWindow it
// is the fastest way to ask.
func (m *Store) Allow(key string, l limit.Limit, n int64) bool {
	t := m.table()
	h, since := t.hashAndTime(key)
	p := m.limits.first.Load()
	if p == nil || !p.is(&l) {
		p = m.limits.get(&l)
	}
	if n == 1 {
		now := t.microsIn(since)
		if ok, known := t.allow(p, h, now); known {
			return ok
		}
		if t.allowFirst(p, h, now) {
			return true
		}
	}
	return m.takeOne(p, h, t.base.Add(since), &limit.Ask{Key: key, Limit: l, N: n}).OK
}

// TakeKey decides as Take does for n tokens of one key, and returns the fields
// of the Decision in their order. They come in registers, so it is faster than
// TakeOne.
func (m *Store) TakeKey(key string, l limit.Limit, n int64) (ok bool, charged, most, remaining int64, retryAfter, resetAfter time.Duration, at time.Time) {
	var d limit.Decision
	m.takeKey(key, &l, n, &d)
	return d.OK, d.N, d.Max, d.Remaining, d.RetryAfter, d.ResetAfter, d.At
}

// TakeOne decides one ask as Take does. It allocates nothing, but for limits
// that keep more than a State, and its error is always nil.
func (m *Store) TakeOne(_ context.Context, a limit.Ask) (d limit.Decision, _ error) {
	m.takeNow(&a, &d)
	return d, nil
}

// Take charges every ask of a or none of them, and writes the decision about
// a[i] to d[i], as [limit.TakeAll] does. ok reports whether all pass. An error
// says that a and d differ in length, or that two asks are about one key. The
// context is not used, as nothing waits.
func (m *Store) Take(_ context.Context, a []limit.Ask, d []limit.Decision) (ok bool, err error) {
	if len(a) == 1 && len(d) == 1 {
		m.takeNow(&a[0], &d[0])
		return d[0].OK, nil
	}
	if err := limit.CheckAsks(a, d); err != nil {
		return false, err
	}
	return m.takeAll(m.table().now(), a, d), nil
}

// Itself reports whether s is m, and not a Store that embeds it.
func (m *Store) Itself(s any) bool { return s == any(m) }

// Len counts the keys that have not expired. It looks at the whole table: some
// 10 ms for a million keys.
func (m *Store) Len() int { return m.table().len() + m.rings.len() }

// Forgotten counts the keys that were displaced before they had expired.
func (m *Store) Forgotten() int64 { return m.forgotten.Load() }

// table returns the table in use; the first call makes it.
func (m *Store) table() *table {
	if t := m.tab.Load(); t != nil {
		return t
	}
	return m.firstTable(time.Now())
}

// maxBytes returns how large the table may become.
func (m *Store) maxBytes() int64 {
	most := int64(maxTableBytes)
	if m.MaxBytes > 0 {
		most = min(m.MaxBytes, most)
	}
	switch keys := int64(m.MaxKeys); {
	case keys > 0:
		most = min(most, min(keys, maxTableBytes/keyBytes)*keyBytes)
	case m.MaxBytes <= 0:
		most = defaultKeys * keyBytes
	}
	return most
}

// takeNow decides about a at the present time, in d.
func (m *Store) takeNow(a *limit.Ask, d *limit.Decision) {
	if a.Min <= 0 && !a.Debt {
		m.takeKey(a.Key, &a.Limit, a.N, d)
		return
	}
	t := m.table()
	h, since := t.hashAndTime(a.Key)
	*d = m.takeOne(m.limits.get(&a.Limit), h, t.base.Add(since), a)
}

// takeKey decides about n tokens of one key at the present time, in d.
func (m *Store) takeKey(key string, l *limit.Limit, n int64, d *limit.Decision) {
	t := m.table()
	h, since := t.hashAndTime(key)
	p := m.limits.first.Load()
	if p == nil || !p.is(l) {
		p = m.limits.get(l)
	}
	now := t.microsIn(since)
	if t.takeFast(p, h, now, n, d) || t.takeFirst(p, h, now, n, d) {
		d.At = t.base.Add(since)
		return
	}
	*d = m.takeOne(p, h, t.base.Add(since), &limit.Ask{Key: key, Limit: *l, N: n})
}

// takeOne decides about the key of a, of hash h, under p: without a lock if it can,
// under locks if not.
func (m *Store) takeOne(p *prepared, h uint64, now time.Time, a *limit.Ask) (d limit.Decision) {
	switch p.keeps {
	case keepsNothing:
		_, d = limit.Take(limit.State{}, now, *a)
		return d
	case keepsState:
		if d, known := m.tab.Load().take(p, h, now, a); known {
			return d
		}
	}
	asks, ds := [1]limit.Ask{*a}, [1]limit.Decision{}
	m.takeAll(now, asks[:], ds[:])
	return ds[0]
}

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
