package memory

import (
	"slices"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// A claim is one key of a decision under locks.
type claim struct {
	p    *prepared
	h    uint64
	a, b uint64     // the lines where it may be
	more uint64     // the one where it may be if they are full
	l    *cacheLine // the one where it is; nil: in none
	i    int        // its place there
	busy bool       // its slot is, and said held before
	held uint64
	asks bool // more than a peek
	anew bool // what is known of it was written under another limit

	keep   window // of a window: what the ask is about
	leaves bool   // it goes from the windows to the table
}

// dirty tells whether a state is to be written. One that was carried over to
// another limit is, also where it is refused: what RetryAfter says holds only
// if the debt is paid off under the new limit from now on.
func (c *claim) dirty(before, after limit.State) bool {
	return after != before || c.anew && c.asks
}

// takeAll decides under locks. It is for what take cannot do: keys that are new
// or have long expired, several keys at once, another limit than before.
func (m *Store) takeAll(now time.Time, a []limit.Ask, d []limit.Decision) (ok bool) {
	var few [fewAsks]claim
	c := few[:0]
	for i := range a {
		p := m.limits.get(&a[i].Limit)
		c = append(c, claim{p: p})
	}
	if !anyWindow(c) {
		if ok, apart := m.decideAll(now, c, a, d, false); !apart {
			return ok
		}
	}
	m.windows.mu.Lock() // before any line is locked
	defer m.windows.mu.Unlock()
	ok, _ = m.decideAll(now, c, a, d, true)
	return ok
}

// decideAll is takeAll, unless a key may be among the windows, which are locked
// or not.
func (m *Store) decideAll(now time.Time, c []claim, a []limit.Ask, d []limit.Decision, locked bool) (ok, apart bool) {
	for {
		t := m.tab.Load()
		ok, how := m.tryAll(t, now, c, a, d, locked)
		switch how {
		case decided:
			return ok, false
		case isFull:
			m.double(t)
		case mayBeApart:
			return false, true
		case hasMoved: // to the table that is in use by now
		}
	}
}

// outcome is what became of an attempt.
type outcome uint8

const (
	decided    outcome = iota
	hasMoved           // the table is no longer the one in use
	isFull             // and may be doubled
	mayBeApart         // a key may be among the windows, which are not locked
)

// tryAll is takeAll, if the table and the locks that are held allow it.
func (m *Store) tryAll(t *table, now time.Time, c []claim, a []limit.Ask, d []limit.Decision, locked bool) (ok bool, how outcome) {
	var few [3 * fewAsks]uint64
	held := few[:0]
	for i := range c {
		h := t.seed.hash(a[i].Key)
		t.settle(h)
		c[i] = claim{p: c[i].p, h: h, asks: a[i].N != 0}
		c[i].a, c[i].b = t.home(h)
		c[i].more = t.spare(h)
		held = append(held, c[i].a, c[i].b, c[i].more)
	}
	slices.Sort(held) // so that no two wait for each other
	held = slices.Compact(held)
	if !t.lockAll(held) {
		return false, hasMoved
	}
	defer t.release(held, c) // whatever happens

	var few1, few2 [fewAsks]limit.State
	before := few1[:0]
	for i := range c {
		state, known := m.hold(t, &c[i], a[i].Key, now, locked)
		if !known {
			return false, mayBeApart
		}
		before = append(before, state)
	}
	after := append(few2[:0], before...)
	ok = m.answer(after, now, c, a, d)
	for i := range c {
		if c[i].dirty(before[i], after[i]) && !t.fits(&c[i], after[i], now) && m.mayDouble(t) {
			return false, isFull
		}
	}
	for i := range c {
		if c[i].dirty(before[i], after[i]) {
			m.forgotten.Add(t.keep(&c[i], after[i], now))
		}
		if c[i].leaves && c[i].asks {
			m.windows.remove(short(a[i].Key))
		}
	}
	if locked {
		m.answerWindows(now, ok, c, a, d)
	}
	return ok, decided
}

// answer is limit.TakeAll, except that windows are only asked whether they let
// pass: what they keep is changed by answerWindows.
func (m *Store) answer(s []limit.State, now time.Time, c []claim, a []limit.Ask, d []limit.Decision) (ok bool) {
	if !anyWindow(c) {
		return limit.TakeAll(s, now, a, d)
	}
	ok = true
	for i := range a {
		if c[i].isWindow() {
			d[i].OK = passes(c[i].keep, now, a[i])
			if c[i].asks {
				s[i] = limit.State{} // what it held in the table is in the window
			}
		} else {
			_, d[i] = limit.Take(s[i], now, a[i])
		}
		ok = ok && d[i].OK
	}
	for i := range a {
		if !c[i].isWindow() {
			passed := d[i].OK
			s[i], d[i] = limit.Take(s[i], now, asAnswered(a[i], ok, passed))
			amend(&d[i], passed)
		}
	}
	return ok
}

func (c *claim) isWindow() bool { return c.p.keeps == keepsWindow }

func anyWindow(c []claim) bool {
	for i := range c {
		if c[i].isWindow() {
			return true
		}
	}
	return false
}

// asAnswered is a, but without cost if it would pass and another did not.
func asAnswered(a limit.Ask, ok, passed bool) limit.Ask {
	if ok || !passed {
		return a
	}
	return limit.Ask{Key: a.Key, Limit: a.Limit}
}

// amend makes the answer to such a question the one to a.
func amend(d *limit.Decision, passed bool) {
	if passed {
		d.OK, d.RetryAfter = true, 0
	}
}

// answerWindows charges the windows if all passed, and fills in their answers.
func (m *Store) answerWindows(now time.Time, ok bool, c []claim, a []limit.Ask, d []limit.Decision) {
	for i := range a {
		if !c[i].isWindow() {
			continue
		}
		passed := d[i].OK
		d[i] = c[i].keep.Take(now, asAnswered(a[i], ok, passed))
		amend(&d[i], passed)
		if c[i].asks {
			e := windowEntry{key: short(a[i].Key), hash: c[i].h, limit: a[i].Limit, keep: c[i].keep}
			m.forgotten.Add(m.windows.put(m, now, e, d[i].ResetAfter))
		}
	}
}

// lockAll locks the lines in the order given, or none if one has moved on.
func (t *table) lockAll(lines []uint64) bool {
	for i, n := range lines {
		if !t.lines[n].lock() {
			for _, n := range lines[:i] {
				t.lines[n].unlock()
			}
			return false
		}
	}
	return true
}

// release gives back all slots that are still busy, and the locks.
func (t *table) release(lines []uint64, c []claim) {
	for i := range c {
		if c[i].busy {
			c[i].l[c[i].i+1].Store(c[i].held)
			c[i].busy = false
		}
	}
	for _, n := range lines {
		t.lines[n].unlock()
	}
}

// find is the state that a claim has in the table, made to stand still, and the
// limit under which it was written; nil if that has no number.
func (m *Store) find(t *table, c *claim) (from *prepared, s limit.State) {
	for _, n := range [...]uint64{c.a, c.b, c.more} {
		l := &t.lines[n]
		i := l.at(c.h & fpMask)
		if i < 0 {
			continue
		}
		c.l, c.i = l, i
		from = m.limits.of(l[i].Load())
		if l.isPair(i) {
			return from, t.state(l.four(i))
		}
		c.held = l[i+1].Swap(busy)
		c.busy = c.held != busy // by the twin of this key in this decision
		return from, unpack(from, c.held, t.start)
	}
	return nil, s
}

// unpack is the state in the word of a slot; from is nil if its tag has no number.
func unpack(from *prepared, w uint64, start int64) limit.State {
	if from == nil {
		var plain limit.Fast
		return plain.Unpack(w, start)
	}
	return from.fast.Unpack(w, start)
}

// since is now in µs after the start of the table.
func (t *table) since(now time.Time) uint64 { return uint64(max(now.UnixMicro()-t.start, 0)) }

// pack is s as one word, zero if it has expired, if one can hold it.
func (t *table) pack(p *prepared, s limit.State, now uint64) (w uint64, ok bool) {
	if s.T <= t.start || uint64(s.T)-uint64(t.start) <= now {
		return 0, true
	}
	return p.fast.Pack(s, t.start)
}

// fits tells whether s can be kept without displacing another key.
func (t *table) fits(c *claim, s limit.State, at time.Time) bool {
	now := t.since(at)
	w, single := t.pack(c.p, s, now)
	if w == 0 && single || c.l != nil && (single || c.l.isPair(c.i)) {
		return true
	}
	asPair := !single || c.p.fast.Wide() // as it may soon be, if it is not yet
	return t.lines[c.a].room(asPair, now) || t.lines[c.b].room(asPair, now)
}

// keep writes s, and returns how many other keys were displaced by it.
func (t *table) keep(c *claim, s limit.State, at time.Time) (displaced int64) {
	now := t.since(at)
	w, single := t.pack(c.p, s, now)
	tag := c.p.tag | c.h&fpMask
	a, b := &t.lines[c.a], &t.lines[c.b]
	if l, i := c.l, c.i; l != nil && (c.busy || l.isPair(i) && l[i].Load()&fpMask == c.h&fpMask) {
		// If neither, it was a pair that an earlier claim has displaced.
		c.busy = false
		switch wasPair := l.isPair(i); {
		case single && w != 0 && !wasPair:
			l.tag(i, tag|choice(l, a, b))
			l[i+1].Store(w)
			return 0
		case !single && wasPair:
			l.writePair(i, tag|choice(l, a, b), t.words(s))
			return 0
		}
		l.clear(i)
	}
	if more := &t.lines[c.more]; !a.room(!single, now) && !b.room(!single, now) && more.room(!single, now) {
		a, b = more, more
	}
	switch {
	case !single:
		return t.putPair(a, b, tag, s, now)
	case w != 0:
		return t.putSingle(a, b, tag, w, now)
	}
	return 0
}
