package throttlehttp

import (
	"sync"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// promise is what to compute the time of a refused caller from.
type promise struct {
	earliest time.Duration // from now, at which it would pass
	each     time.Duration // in which what it wants is refilled
	room     time.Duration // in which all is refilled that passes at once
	grain    time.Duration // in which times are told
	bound    time.Duration // on how much later than the earliest it is told
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
	one := float64(l.Period) / float64(l.Count)
	p.each = atMostDay(one * float64(max(n, 1)))
	if l.Kind == limit.TokenBucket {
		p.room = atMostDay(one * float64(l.Max()))
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
func (p promise) slot(now, until time.Time) (told time.Duration, next time.Time) {
	room := max(p.room, p.each)
	owed := now.Add(p.earliest - p.each + room) // in truth, as it would pass at the earliest
	if p.room == 0 {
		room, owed = max(p.grain, p.each), now.Add(p.earliest)
	}
	if until.Before(owed) {
		until = owed
	}
	wait := until.Add(p.each - room).Sub(now)
	if wait > p.earliest+p.bound {
		until, wait = owed, p.earliest
	}
	told = max(roundUp(wait-trip, p.grain), roundUp(p.earliest, p.grain), p.grain)
	if come := now.Add(told); come.After(until) {
		until = come
	}
	return told, until.Add(p.each)
}

// roundUp returns d in whole grains.
func roundUp(d, grain time.Duration) time.Duration {
	if d > limit.Never-grain {
		return d
	}
	return max((d+grain-1)/grain*grain, 0)
}

// slots are the promises of a Handler. The zero value has none. It is safe for
// concurrent use.
type slots struct {
	mu   sync.Mutex
	keys recent[time.Time] // until when what was promised takes to be refilled
}

const maxKeys = 10_000 // of promises, and of crowds

// next returns what to tell the next caller refused for a key.
func (s *slots) next(key uint64, now time.Time, p promise) time.Duration {
	if p.earliest > 24*time.Hour || p.each <= 0 { // nothing to be spread over
		return max(roundUp(p.earliest, p.grain), p.grain)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	until := s.keys.at(key, maxKeys)
	told, next := p.slot(now, *until)
	*until = next
	for range 2 { // more are forgotten than come
		if oldest := s.keys.oldest(); oldest == nil || oldest.key == key || oldest.value.After(now) {
			break
		}
		s.keys.drop()
	}
	return told
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
	crowd := c.keys.at(key, maxKeys)
	crowd.Add(now, caller)
	return crowd.Estimate(now)
}

// recent is a bounded map that forgets the key longest unused. The zero value
// is empty.
type recent[V any] struct {
	keys        map[uint64]*kept[V]
	first, last *kept[V] // the longest unused, the last used
}

type kept[V any] struct {
	key        uint64
	value      V
	prev, next *kept[V]
}

// at returns the value of a key, new if there was none, and marks it used.
func (c *recent[V]) at(key uint64, most int) *V {
	e := c.keys[key]
	switch {
	case e != nil:
		c.unlink(e)
	case c.keys == nil:
		c.keys = make(map[uint64]*kept[V])
		fallthrough
	default:
		if len(c.keys) >= most {
			c.drop()
		}
		e = &kept[V]{key: key}
		c.keys[key] = e
	}
	e.prev, e.next = c.last, nil
	if c.last == nil {
		c.first = e
	} else {
		c.last.next = e
	}
	c.last = e
	return &e.value
}

// oldest returns the entry longest unused, nil if there is none.
func (c *recent[V]) oldest() *kept[V] { return c.first }

// drop forgets the entry longest unused, if there is one.
func (c *recent[V]) drop() {
	if e := c.first; e != nil {
		c.unlink(e)
		delete(c.keys, e.key)
	}
}

func (c *recent[V]) unlink(e *kept[V]) {
	if e.prev == nil {
		c.first = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		c.last = e.prev
	} else {
		e.next.prev = e.prev
	}
}
