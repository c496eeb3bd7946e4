package memory

import (
	"slices"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// fewAsks can be answered without allocating.
const fewAsks = 4

// A question is what Take is asked, on the slow way: under the locks of all lines
// where its keys may be. That is for what the fast way cannot do: keys that are
// new or have long expired, several keys at once, another limit than before,
// states that take a pair, rings.
//
// Its slices are on the stack of takeAll, as long as it holds nothing else that
// has pointers, and no method replaces them.
type question struct {
	asks    []limit.Ask
	answers []limit.Decision
	claims  []claim       // one for each ask
	states  []limit.State // what each claim is to hold after the decision
	lines   []uint64      // where the claims may be; the first locked of them are locked
	locked  int

	refused     bool // not all pass
	hasRing     bool // at least one key is asked for under a log or slots
	ringsLocked bool // the lock of the rings is held
}

// A claim is one key of a question.
type claim struct {
	p       *prepared
	h       uint64
	a, b    uint64      // the lines where it may be
	more    uint64      // the line where it may be if they are full
	l       *cacheLine  // the line where it is; nil: in none
	i       int         // its slot there
	busy    bool        // that slot is, and its state was held before
	held    uint64      // see busy
	before  limit.State // what is known of it, under the limit asked for
	charges bool        // more than a peek
	carried bool        // what is known of it was written under another limit
	kept    bool        // and stays so where it is refused: see limit.Forgives

	ring    ring // of a key asked for under a log or slots
	reduced bool // or what is left of that in the table: see reduce
	leaves  bool // it goes from the rings to the table
}

// An outcome is what became of an attempt.
type outcome uint8

const (
	outcomeDecided   outcome = iota
	outcomeMoved             // the table is no longer the one in use
	outcomeFull              // the table is, and may be doubled
	outcomeMayBeRing         // a key may have a ring, and those are not locked
)

// takeAll decides on the slow way, about one key or several.
func (m *Store) takeAll(now time.Time, a []limit.Ask, d []limit.Decision) (ok bool) {
	var few struct {
		claims [fewAsks]claim
		states [fewAsks]limit.State
		lines  [3 * fewAsks]uint64
	}
	q := question{asks: a, answers: d}
	if n := len(a); n <= fewAsks {
		q.claims, q.states, q.lines = few.claims[:n], few.states[:n], few.lines[:3*n]
	} else {
		x := m.scratchOf(n)
		defer m.giveBack(x)
		q.claims, q.states, q.lines = x.claims[:n], x.states[:n], x.lines[:3*n]
	}
	for i := range a {
		q.claims[i] = claim{p: m.limits.get(&a[i].Limit), h: m.tab.Load().hash(a[i].Key)}
		q.hasRing = q.hasRing || q.claims[i].isRing()
	}
	if !q.hasRing {
		if ok, mayBeRing := m.answer(&q, now); !mayBeRing {
			return ok
		}
	}
	m.rings.mu.Lock() // before any line is locked
	defer m.rings.mu.Unlock()
	q.ringsLocked = true
	ok, _ = m.answer(&q, now)
	if q.hasRing {
		m.shrinkRings(now, ringKey(a[len(a)-1].Key))
	}
	return ok
}

// scratch is what a question of many asks is worked out on.
type scratch struct {
	claims []claim
	states []limit.State
	lines  []uint64
}

// scratchOf returns a scratch for n asks.
func (m *Store) scratchOf(n int) *scratch {
	x, _ := m.scratches.Get().(*scratch)
	if x == nil || len(x.claims) < n {
		x = &scratch{make([]claim, n), make([]limit.State, n), make([]uint64, 3*n)}
	}
	return x
}

// giveBack keeps x for another question.
func (m *Store) giveBack(x *scratch) {
	clear(x.claims) // they point to lines of a table that may be replaced
	m.scratches.Put(x)
}

// answer attempts until q is decided, or may be about a ring while those are not
// locked.
func (m *Store) answer(q *question, now time.Time) (ok, mayBeRing bool) {
	for {
		t := m.tab.Load()
		ok, became := t.attempt(q, now)
		switch became {
		case outcomeDecided:
			return ok, false
		case outcomeFull:
			m.double(t)
		case outcomeMayBeRing:
			return false, true
		case outcomeMoved: // to the table that is in use by now
		}
	}
}

// attempt decides, if t and the locks that are held allow it.
func (t *table) attempt(q *question, now time.Time) (ok bool, became outcome) {
	if !t.lock(q) {
		return false, outcomeMoved
	}
	defer t.unlock(q) // also after a panic
	if !t.read(q, now) {
		return false, outcomeMayBeRing
	}
	ok = q.decide(now)
	q.refused = !ok
	if !t.fits(q, now) && t.m.mayDouble(t) {
		return false, outcomeFull
	}
	t.write(q, now, ok)
	return ok, outcomeDecided
}

// lock locks all lines where the keys of q may be, or none if one has moved on.
func (t *table) lock(q *question) bool {
	for i := range q.claims {
		c, lines := &q.claims[i], q.lines[3*i:3*i+3]
		*c = claim{p: c.p, h: c.h, charges: q.asks[i].N != 0}
		if t.from.Load() != nil {
			t.settle(c.h)
		}
		c.a, c.b = t.home(c.h)
		c.more = t.spare(c.h)
		lines[0], lines[1], lines[2] = c.a, c.b, c.more
	}
	slices.Sort(q.lines) // so that no two questions wait for each other
	lines := slices.Compact(q.lines)
	for q.locked = 0; q.locked < len(lines); q.locked++ {
		if !t.lines[lines[q.locked]].lock() {
			t.unlock(q)
			return false
		}
	}
	return true
}

// unlock gives back all slots that are still busy, and the locks.
func (t *table) unlock(q *question) {
	for i := range q.claims {
		if c := &q.claims[i]; c.busy {
			c.l[c.i+1].Store(c.held)
			c.busy = false
		}
	}
	for _, n := range q.lines[:q.locked] {
		t.lines[n].unlock()
	}
}

// read finds what is known of each key, makes it stand still, and carries it over
// to the limit asked for. It reports whether all could be read: not if a key may
// have a ring, and those are not locked.
func (t *table) read(q *question, now time.Time) bool {
	rings := &t.m.rings
	for i := range q.claims {
		c, key := &q.claims[i], q.asks[i].Key
		from, s := t.findClaim(c)
		live := c.l != nil && s.T > now.UnixMicro()
		switch c.p.keeps {
		case keepsState:
			if from != nil && from != c.p {
				c.carried, c.kept = true, limit.Forgives(s, now, from.states, c.p.limit)
				s = from.carry(s, now, c.p)
			}
			if !live && rings.filter.mayHave(c.h) {
				if !q.ringsLocked {
					return false
				}
				s = rings.toState(c, key, now, s)
			}
		case keepsRing:
			if c.reduced = live && from != nil && from.is(&c.p.limit) && !rings.has(c, key); c.reduced {
				c.p = from // which has a number
				break
			}
			rings.toRing(c, key, now, live)
			if live {
				under := writtenUnder(from, c.p)
				c.kept = c.kept || limit.Forgives(s, now, under, c.p.limit)
				c.chargeRing(now, limit.Used(s, now, under))
			}
		case keepsNothing:
		}
		c.before, q.states[i] = s, s
	}
	return true
}

// findClaim returns the state that c has in the table, made to stand still, and
// the limit under which it was written; nil if that has no number.
func (t *table) findClaim(c *claim) (from *prepared, s limit.State) {
	for _, n := range [...]uint64{c.a, c.b, c.more} {
		l := &t.lines[n]
		i := l.at(c.h & tagFingerprint)
		if i < 0 {
			continue
		}
		c.l, c.i = l, i
		from = t.m.limits.of(l[i].Load())
		if l.isPair(i) {
			return from, t.state(l.four(i))
		}
		c.held = l[i+1].Swap(stateBusy)
		c.busy = c.held != stateBusy // by the twin of this key in this question
		return from, t.unpack(from, c.held)
	}
	return nil, s
}

// decide fills in the answers, and the states that the keys are to hold.
func (q *question) decide(now time.Time) (ok bool) {
	if q.hasRing {
		return q.decideWithRings(now)
	}
	return limit.TakeAll(q.states, now, q.asks, q.answers)
}

// changes reports whether the state of claim i is to be written. One that was
// carried over to another limit is, also where it is refused: what RetryAfter says
// holds only if the debt is paid off under the new limit from now on. But where
// that would forgive usage, a refusal writes nothing.
func (q *question) changes(i int) bool {
	c := &q.claims[i]
	return !q.keeps(c) && (q.states[i] != c.before || c.carried && c.charges)
}

// keeps reports whether what is known of c stays as it is under the other limit.
func (q *question) keeps(c *claim) bool { return q.refused && c.kept }

// fits reports whether all states can be kept without displacing another key.
func (t *table) fits(q *question, at time.Time) bool {
	now := t.since(at)
	for i := range q.claims {
		if q.changes(i) && !t.hasRoom(&q.claims[i], q.states[i], now) {
			return false
		}
	}
	return true
}

// hasRoom reports whether s can be kept for c without displacing another key.
func (t *table) hasRoom(c *claim, s limit.State, now uint64) bool {
	w, single := t.pack(c.p, s, now)
	if w == 0 && single || c.l != nil && (single || c.l.isPair(c.i)) {
		return true
	}
	asPair := !single || c.p.fast.Wide() // as it may soon be, if it is not yet
	return t.lines[c.a].hasRoom(asPair, now) || t.lines[c.b].hasRoom(asPair, now)
}

// write keeps what the keys are to hold.
func (t *table) write(q *question, now time.Time, ok bool) {
	since := t.since(now)
	for i := range q.claims {
		c := &q.claims[i]
		if q.changes(i) {
			t.m.forgotten.Add(t.keep(c, q.states[i], since, q.claims))
		}
		if c.leaves && c.charges && !q.keeps(c) {
			t.m.rings.remove(ringKey(q.asks[i].Key))
		}
	}
	if q.hasRing {
		t.m.rings.write(q, now, ok)
	}
}

// keep writes s for c, and returns how many other keys were displaced by it. The
// claims of the others stay where they are.
func (t *table) keep(c *claim, s limit.State, now uint64, others []claim) (displaced int64) {
	w, single := t.pack(c.p, s, now)
	tag := c.p.tag | c.h&tagFingerprint
	a, b := &t.lines[c.a], &t.lines[c.b]
	if l, i := c.l, c.i; l != nil && (c.busy || l.isPair(i) && l[i].Load()&tagFingerprint == c.h&tagFingerprint) {
		// If neither, it was a pair that an earlier claim has displaced.
		c.busy = false
		switch wasPair := l.isPair(i); {
		case single && w != 0 && !wasPair:
			l.setTag(i, tag|choice(l, a, b))
			l[i+1].Store(w)
			return 0
		case !single && wasPair:
			l.setPair(i, tag|choice(l, a, b), t.words(s))
			return 0
		}
		l.clear(i)
	}
	x := newcomer{a: a, b: b, more: &t.lines[c.more], tag: tag, p: c.p, now: now, others: others}
	switch {
	case !single:
		return t.putPair(&x, s)
	case w != 0:
		return t.putSingle(&x, w)
	}
	return 0
}
