package admit

import (
	"cmp"
	"hash/maphash"
	"sync"
	"time"

	"github.com/throttle-go/throttle/internal/list"
	"github.com/throttle-go/throttle/limit"
)

// promise is what to compute the time of a refused caller from.
type promise struct {
	earliest time.Duration // from now, at which it would pass
	each     time.Duration // in which what it wants is refilled
	room     time.Duration // in which all is refilled that passes at once
	bound    time.Duration // on how much later than the earliest it is told

	// Of a limit that slides: for how long what passes counts, and what part of
	// all it wants. Zero of others.
	counts time.Duration
	part   float64

	window time.Duration // Period of a fixed window; zero of others
}

// wait is the time that a refused caller is told, for those that know whole
// seconds only and for those that know milliseconds. Each is planned by itself,
// as if all callers were of its sort.
type wait struct{ whole, exact time.Duration }

// waitOf returns the wait for d, limit.Never if that is d.
func waitOf(d time.Duration) wait {
	return wait{d, roundUp(d, time.Millisecond)}
}

// trip is more than rounding errors add up to, and less than the travel time of
// an answer: a caller told to come in a second comes later than a second from
// now.
const trip = 100 * time.Microsecond

// promiseOf returns the promise of n under l, which could pass after earliest.
func promiseOf(l limit.Limit, n int64, earliest time.Duration) promise {
	p := promise{earliest: earliest}
	if l.Count <= 0 || l.Unlimited() {
		return p
	}
	n = max(n, 1)
	if l.Kind == limit.TokenBucket {
		one := float64(l.Period) / float64(l.Count)
		p.each, p.room = atMostDay(one*float64(n)), atMostDay(one*float64(l.Max()))
		return p
	}
	p.part = 1 / float64(max(l.Count/n, 1)) // of 5, two of cost 2 fit: what is left of a window is lost
	p.each = atMostDay(float64(periodOf(l)) * p.part)
	switch l.Kind {
	case limit.FixedWindow:
		p.window = l.Period
	case limit.SlidingWindow:
		p.counts = l.Period
	case limit.SlidingSlots: // in Period and one slot more no more than Count pass
		slots := float64(cmp.Or(max(l.Slots, 0), usualSlots))
		p.counts = atMostDay(float64(l.Period) * (1 + 1/min(slots, limit.MaxSlots)))
	}
	return p
}

// usualSlots is how many slots a limit has that does not say.
const usualSlots = 10

// at returns the promise to callers that come at whole grains. In a limit that slides,
// those of one more grain may come in the time in which what passes counts. Where windows
// are shorter than a grain, one of them passes at once, and not all of the grain.
func (p promise) at(grain time.Duration) promise {
	switch {
	case p.counts > 0:
		p.each = atMostDay(p.part * float64(p.counts+grain))
		p.room = p.each + grain // so that rounding to a grain costs none
	case p.window < grain:
		p.room = max(p.room, p.window)
	}
	return p
}

// atMostDay returns ns nanoseconds, at most a day: beyond it nothing is spread.
func atMostDay(ns float64) time.Duration {
	return time.Duration(min(ns, float64(24*time.Hour)))
}

// slot returns what to tell, from now, and until when the tokens promised by
// then take to be refilled, given until when those promised before do: the time
// of the GCRA (ITU-T I.371), run in advance. The next caller comes when its
// cells fit:
//
//	come = until + each - room,  until' = max(until, come) + each
//
// where come is rounded up to a grain. In a limit that is no bucket, what is
// refilled in a grain passes at once.
func (p promise) slot(now, until time.Time, grain time.Duration) (told time.Duration, next time.Time) {
	room := max(p.room, p.each)
	owed := now.Add(p.earliest - p.each + room) // in truth, as it would pass at the earliest
	if p.room == 0 {
		room, owed = max(grain, p.each), now.Add(p.earliest)
	}
	if until.Before(owed) {
		until = owed
	}
	wait := until.Add(p.each - room).Sub(now)
	if wait-p.earliest > p.bound { // a sum might overflow
		until, wait = owed, p.earliest
	}
	told = max(roundUp(wait-trip, grain), p.least(grain))
	if come := now.Add(told); come.After(until) {
		until = come
	}
	return told, until.Add(p.each)
}

// least returns the earliest time that can be told.
func (p promise) least(grain time.Duration) time.Duration {
	return max(roundUp(p.earliest, grain), grain)
}

// roundUp returns d in whole grains.
func roundUp(d, grain time.Duration) time.Duration {
	if d > limit.Never-grain {
		return d
	}
	return max((d+grain-1)/grain*grain, 0)
}

// schedule is until when what was promised takes to be refilled, to callers of
// milliseconds and to callers of whole seconds. These come back at the same
// fraction of a second, and a bucket that holds less than a second refills
// serves few of the same fraction: each part of a second is planned apart.
type schedule struct {
	exact time.Time
	whole [maxParts]time.Time
}

const maxParts = 8

// at returns the schedule of a grain, and the promise as a share of it.
func (u *schedule) at(now time.Time, p promise, grain time.Duration) (*time.Time, promise) {
	if grain != time.Second {
		return &u.exact, p
	}
	parts := time.Duration(1)
	if p.room > 0 {
		parts = min(max(grain/max(p.room, p.each), 1), maxParts)
	}
	p.each, p.room = p.each*parts, p.room*parts
	return &u.whole[time.Duration(now.Nanosecond())*parts/grain], p
}

// over reports whether all of it is refilled.
func (u *schedule) over(now time.Time) bool {
	for _, until := range u.whole {
		if until.After(now) {
			return false
		}
	}
	return !u.exact.After(now)
}

var grains = [2]time.Duration{time.Second, time.Millisecond}

// caller tells callers of a key apart, by hashes: a host, which may be many
// behind one address, and a connection that carries one request after the
// other, zero if there is none.
type caller struct{ host, conn uint64 }

// promised is what a caller was promised.
type promised struct {
	come [2]time.Time
	last time.Time // that it was refused
}

// slots are the promises of a Control. The zero value has none. It is safe for
// concurrent use.
type slots struct {
	mu      sync.Mutex
	keys    recent[schedule]
	callers recent[promised]
}

const maxSpread = 10_000 // keys of promises, of callers, and of crowds

// next returns what to tell the next caller refused for a key.
func (s *slots) next(key uint64, who caller, now time.Time, p promise) wait {
	if p.earliest > 24*time.Hour || p.each <= 0 { // nothing to be spread over
		return wait{p.least(time.Second), p.least(time.Millisecond)}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	until, before := s.keys.at(key, maxSpread), s.before(who, now)
	var after [2]time.Duration
	for i, grain := range grains {
		if left := before.come[i].Sub(now); left > 0 && left+trip >= p.earliest && left-p.earliest-grain <= p.bound {
			after[i] = max(roundUp(left, grain), p.least(grain)) // it came too early
			continue
		}
		last, share := until.at(now, p.at(grain), grain)
		after[i], *last = share.slot(now, *last, grain)
		before.come[i] = now.Add(after[i])
	}
	before.last = now
	s.remember(who, before)
	s.keys.forget(2, key, func(until *schedule) bool { return until.over(now) })
	s.callers.forget(4, who.host, func(t *promised) bool { return !t.come[0].After(now) })
	return wait{after[0], after[1]}
}

// before returns what this caller was told before. Others may have its address:
// those that ask within the same second are taken for others.
func (s *slots) before(who caller, now time.Time) promised {
	if t := s.callers.get(who.conn); t != nil && who.conn != 0 {
		return *t
	}
	if t := s.callers.get(who.host); t != nil && now.Sub(t.last) >= soon {
		return *t
	}
	return promised{}
}

func (s *slots) remember(who caller, t promised) {
	if who.conn != 0 {
		*s.callers.at(who.conn, maxSpread) = t
	}
	*s.callers.at(who.host, maxSpread) = t
}

// crowds estimate how many callers share a key. The zero value is empty. It is
// safe for concurrent use.
type crowds struct {
	mu   sync.Mutex
	keys recent[limit.Cardinality]
}

// size returns how many share the key, including caller.
func (c *crowds) size(key, caller uint64, now time.Time) float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	crowd := c.keys.at(key, maxSpread)
	crowd.Add(now, caller)
	return crowd.Estimate(now)
}

// recent is a bounded map that forgets the key longest unused. The zero value
// is empty.
type recent[V any] struct {
	keys  map[uint64]*kept[V]
	order list.List[kept[V]] // the longest unused first
}

type kept[V any] struct {
	place list.Node[kept[V]]
	key   uint64
	value V
}

// at returns the value of a key, new if there was none, and marks it used.
func (c *recent[V]) at(key uint64, most int) *V {
	e := c.keys[key]
	if e == nil {
		if c.keys == nil {
			c.keys = make(map[uint64]*kept[V])
		}
		if len(c.keys) >= most {
			c.drop()
		}
		e = &kept[V]{key: key}
		c.keys[key] = e
	}
	c.order.Remove(&e.place)
	c.order.Push(&e.place, e)
	return &e.value
}

// get returns the value of a key, nil if there is none, and does not mark it.
func (c *recent[V]) get(key uint64) *V {
	if e := c.keys[key]; e != nil {
		return &e.value
	}
	return nil
}

// forget drops the entries longest unused that are over, at most so many, and
// not that of key: more are forgotten than come.
func (c *recent[V]) forget(most int, key uint64, over func(*V) bool) {
	for range most {
		if e := c.order.Front(); e == nil || e.key == key || !over(&e.value) {
			return
		}
		c.drop()
	}
}

// drop forgets the entry longest unused, if there is one.
func (c *recent[V]) drop() {
	if e := c.order.Front(); e != nil {
		c.order.Remove(&e.place)
		delete(c.keys, e.key)
	}
}

// slot returns a time of the caller's own.
func (a *Admission) slot(key string, now time.Time, p promise) wait {
	c := a.control
	if p.bound = c.Spread; p.bound == 0 {
		p.bound = time.Minute
	}
	w := waitOf(p.earliest)
	if p.bound > 0 && p.earliest != limit.Never {
		w = c.slots.next(c.hash(key), c.caller(key, &a.Request), now, p)
	}
	if c.Milliseconds {
		w.whole = w.exact
	}
	return w
}

// hash hashes a key, differently in each Control.
func (c *Control) hash(text string) uint64 { return maphash.String(c.seed, text) }

// caller returns the caller of a request: its Caller, else the address and the
// fields by which proxies and clients tell callers apart. A client may choose
// these: it gets no sooner time by it than a new caller does.
func (c *Control) caller(key string, q *Request) (who caller) {
	var hash maphash.Hash
	hash.SetSeed(c.seed)
	add := func(text string) { hash.WriteString(text); hash.WriteByte(0) }
	add(key)
	if q.Caller != "" {
		add(q.Caller)
	} else {
		var text [64]byte
		hash.Write(q.Address.AppendTo(text[:0]))
		for _, name := range [...]string{"X-Forwarded-For", "Forwarded", "X-Real-Ip", "Authorization", "User-Agent"} {
			if q.Header != nil {
				add(q.Header(name))
			}
		}
	}
	who.host = hash.Sum64()
	if q.Conn != "" { // one request after the other
		add(q.Conn)
		who.conn = hash.Sum64()
	}
	return who
}
