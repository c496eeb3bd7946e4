package memory

import (
	"math/rand/v2"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// Where there are too many rings, one is reduced to what a slot of the table can
// hold: a FirstHitWindow of the same Count, which has used what the ring had. It
// ends when all events of the ring would have left; or, if the key is refused,
// when it would have passed again, as its refusal said. From then on the key is a
// new one. So no refusal is forgotten with a ring, and the rest that is forgotten
// costs others nothing: whatever the window lets pass before its end, the ring
// would have let pass.

// shrinkRings drops what has expired of a random sample, and, as long as there
// are too many rings, reduces the one of the sample that weighs least. That of
// the given key stays. The lock of the rings is held, and no line is locked.
func (m *Store) shrinkRings(now time.Time, keep string) {
	x, most := &m.rings, m.maxBytes()
	for first := true; len(x.entries) > 1 && (first || x.over(most)); first = false {
		least := x.leastOfSample(now, keep)
		if least >= 0 && x.over(most) {
			m.reduce(least, now)
		}
	}
}

// over reports whether there is more than most bytes allow.
func (x *rings) over(most int64) bool {
	return x.bytes > most || int64(len(x.entries)) > most/keyBytes
}

// leastOfSample returns which of a random sample weighs least, and drops those of
// the sample that have expired; -1 if there is none.
func (x *rings) leastOfSample(now time.Time, keep string) (least int) {
	least = -1
	var lightest weight
	for range min(ringSample, len(x.entries)) {
		i := rand.IntN(len(x.entries))
		e := &x.entries[i]
		switch {
		case e.key == keep:
			continue
		case e.until <= now.UnixMicro():
			x.drop(i)
			if len(x.entries) == 0 {
				return -1
			}
			least = -1 // drop has moved one; what was seen before may be it
			continue
		}
		if w := e.weight(now); least < 0 || w.less(&lightest) {
			least, lightest = i, w
		}
	}
	return least
}

// weight returns the weight of an entry.
func (e *ringEntry) weight(now time.Time) weight {
	return weightOf(e.ring.Used(now, e.limit), e.limit.Max(), uint64(max(e.until, 0)))
}

// reduce moves ring i to the table. Without a number of its limit it is forgotten.
func (m *Store) reduce(i int, now time.Time) {
	e := &m.rings.entries[i]
	p := m.limits.reduced(e.limit)
	if p.tag == 0 {
		m.rings.drop(i)
		m.forgotten.Add(1)
		return
	}
	s := e.window(now, p.most)
	for q := (question{asks: make([]limit.Ask, 1), claims: []claim{{p: p, h: e.hash}}, lines: make([]uint64, 3)}); ; {
		t := m.tab.Load()
		if !t.lock(&q) {
			continue
		}
		c := &q.claims[0]
		t.findClaim(c)
		if room := t.hasRoom(c, s, t.since(now)); room || !m.mayDouble(t) {
			m.forgotten.Add(t.keep(c, s, t.since(now), nil))
			m.rings.drop(i)
			t.unlock(&q)
			return
		}
		t.unlock(&q)
		m.double(t)
	}
}

// window returns what e is reduced to.
func (e *ringEntry) window(now time.Time, most int64) limit.State {
	s := limit.State{T: e.until, N: e.ring.Used(now, e.limit)}
	if s.N >= most {
		d := e.ring.Take(now, limit.Ask{Limit: e.limit, N: 1}) // which is refused
		s.T = now.UnixMicro() + int64(d.RetryAfter/time.Microsecond)
	}
	return s
}
