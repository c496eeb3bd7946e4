package memory

import (
	"time"

	"github.com/throttle-go/throttle/limit"
)

// hold finds what is known of the key of a claim, makes it stand still, and
// carries it over to the limit that is asked for. s is its state, of a window
// the one that it has in the table though it should not. If ok is false it may
// be among the windows, which are not locked.
func (m *Store) hold(t *table, c *claim, key string, now time.Time, locked bool) (s limit.State, ok bool) {
	from, s := m.find(t, c)
	live := c.l != nil && s.T > now.UnixMicro()
	switch {
	case c.p.keeps == keepsWindow:
		c.anew = live
		m.holdWindow(c, short(key), now)
		if live {
			c.charge(now, limit.Used(s, now, writtenUnder(from, c.p)))
		}
		return s, true
	case c.p.keeps == keepsNothing:
		return s, true
	case from != nil && from != c.p && c.p.tag != 0:
		c.anew = true
		s = limit.Change(s, now, from.limit, c.p.limit)
	}
	if live || !m.windows.seen.may(c.h) {
		return s, true
	}
	if !locked {
		return s, false
	}
	if e := m.windows.find(short(key)); e != nil {
		c.anew, c.leaves = true, true
		s = owing(c.p.limit, now, e.keep.Used(now, e.limit))
	}
	return s, true
}

// holdWindow finds the window of a claim, as it is under the limit that is asked
// for. What is among the entries only ages by it, so that a peek loses nothing.
func (m *Store) holdWindow(c *claim, key string, now time.Time) {
	kind, e := c.p.limit.Kind, m.windows.find(key)
	switch {
	case e == nil:
		c.keep = newWindow(kind)
		return
	case e.limit != c.p.limit && e.until <= now.UnixMicro(): // it may have been dropped as well
		c.keep = newWindow(kind)
	case e.limit.Kind != kind:
		c.keep = newWindow(kind)
		c.charge(now, e.keep.Used(now, e.limit))
	case c.anew || e.limit != c.p.limit && kind == limit.SlidingSlots: // which would forget by being asked
		c.keep = cloned(e.keep)
	default:
		c.keep = e.keep
	}
	c.anew = c.anew || e.limit != c.p.limit
}

// cloned is another window that remembers the same.
func cloned(w window) window {
	if s, ok := w.(*limit.Slots); ok {
		return s.Clone()
	}
	return w.(*limit.Log).Clone()
}

// charge charges to the window of a claim what was used elsewhere.
func (c *claim) charge(now time.Time, used int64) {
	if used > 0 {
		c.keep.Take(now, limit.Ask{Limit: c.p.limit, N: used, Debt: true})
	}
}

// owing is a state under l of which so much was used.
func owing(l limit.Limit, now time.Time, used int64) limit.State {
	s, _ := limit.Take(limit.State{}, now, limit.Ask{Limit: l, N: used, Debt: true})
	return s
}

// writtenUnder is the limit under which a state was written. Where that had no
// number, it is read as that of a TokenBucket of the Count and Period of p.
func writtenUnder(from, p *prepared) limit.Limit {
	if from == nil {
		return limit.Limit{Count: p.limit.Count, Period: p.limit.Period}
	}
	return from.limit
}
