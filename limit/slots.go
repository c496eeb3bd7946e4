package limit

import (
	"math"
	"time"
)

// MaxSlots is the largest number of slots. A larger one counts as MaxSlots.
const MaxSlots = 1000

// Slots is the sliding window in slots of one key: at most Count in any window
// of length Period. The Period is divided into Limit.Slots parts, each part has
// one counter, and the window moves on by whole parts: an event counts until its
// part has wholly left the Period. So a caller that takes all it can gets as
// little as Count in Period × (1 + 1/Slots). It takes eight bytes for each part
// and for one more, and a Take reads all of them.
//
// The zero Slots is of a key never seen. It is not safe for concurrent use, and
// a copy of a used one is no independent Slots: see Clone.
type Slots struct {
	ring  []int64 // what was taken in slot i, at i mod len(ring)
	last  int64   // the newest slot, 0 being the one that begins the epoch
	width int64   // of a slot, microseconds
}

// slots is the width of a slot, in microseconds, and how many make a Period,
// rounded up so that rounding never admits more.
func (l *Limit) slots() (width, n int64) {
	n = 10
	if l.Slots > 0 {
		n = min(int64(l.Slots), MaxSlots)
	}
	period := l.micros()
	width = (period-1)/n + 1
	return width, (period-1)/width + 1
}

// Take decides a at the time now, in whole microseconds rounded down. Of the
// Limit it uses Count, Period and Slots, whatever its Kind. It reads the rest of
// the Ask as the function Take does; a refund goes to the newest slots first. If
// the Limit differs from the one before, its events count under the new one, but
// events that had left the old window are forgotten.
//
// A clock that goes back grants nothing: an Ask from before the last slot with
// an event is decided, and remembered, as of that slot. If it goes back by more
// than a second, events further in the future are moved to a second from now,
// also by a peek or a refusal; so no key is locked out for longer than a Period,
// two slots and a second.
func (s *Slots) Take(now time.Time, a Ask) Decision {
	a.Limit.Kind = SlidingSlots
	d := Decision{Max: a.Limit.Max(), At: now}
	switch {
	case a.Limit.Unlimited():
		d.OK, d.N, d.Remaining = true, a.N, math.MaxInt64
	case a.Limit.Count <= 0:
		takeNothing(&a, &d)
	default:
		s.take(now.UnixMicro(), &a, &d)
	}
	return d
}

// take fills in d.
func (s *Slots) take(now int64, a *Ask, d *Decision) {
	now = withinSlots(now)
	count := a.Limit.Count
	s.fit(now, &a.Limit)
	slot := s.clamp(now)
	used := s.used(slot)
	d.N, d.OK = a.grant(max(count-used, 0), used > count)
	switch {
	case !d.OK && a.least() > count:
		d.RetryAfter = Never
	case !d.OK: // it passes when used + least <= count
		d.RetryAfter = until(s.gone(s.freed(slot, used-(count-a.least()))), now)
	case d.N > 0:
		d.N = charged(d.N, used, count)
		s.add(slot, d.N)
		used += d.N
	case d.N < 0:
		back := s.giveBack(s.oldest(slot), -max(d.N, -math.MaxInt64))
		d.N = -back
		used -= back
	}
	d.Remaining = max(count-used, 0)
	if used > 0 {
		d.ResetAfter = until(s.gone(s.newest()), now)
	}
}

// withinSlots is now, or the end of the time in which slots are distinct:
// 146,000 years.
func withinSlots(now int64) int64 { return min(max(now, -1<<62), 1<<62) }

// at is the counter of a slot, one of len(ring) that follow each other.
func (s *Slots) at(slot int64) *int64 {
	n := int64(len(s.ring))
	return &s.ring[(slot%n+n)%n]
}

// slotOf is the slot that a time falls into.
func slotOf(now, width int64) int64 {
	slot := now / width
	if now%width < 0 {
		slot--
	}
	return slot
}

// oldest is the oldest slot that the last Period touches as of a slot, that is
// as of any time in it.
func (s *Slots) oldest(slot int64) int64 { return slot - int64(len(s.ring)) + 1 }

// gone is when a slot has left the Period wholly.
func (s *Slots) gone(slot int64) int64 { return (slot + int64(len(s.ring))) * s.width }

// used is what the last Period has used as of a slot, not before the newest.
func (s *Slots) used(slot int64) (n int64) {
	for i := s.oldest(slot); i <= s.last; i++ {
		n += *s.at(i)
	}
	return n
}

// freed is the slot with which n or more will have left; so much was used.
func (s *Slots) freed(slot, n int64) int64 {
	i := s.oldest(slot)
	for n -= *s.at(i); n > 0; n -= *s.at(i) {
		i++
	}
	return i
}

// newest is the newest slot in which something was taken, or one long ago.
func (s *Slots) newest() int64 {
	for i := s.last; i >= s.oldest(s.last); i-- {
		if *s.at(i) > 0 {
			return i
		}
	}
	return math.MinInt64
}

// add counts n in a slot, not before the newest, and forgets what has left.
func (s *Slots) add(slot, n int64) {
	if slot-s.last >= int64(len(s.ring)) {
		clear(s.ring)
		s.last = slot
	}
	for s.last < slot {
		s.last++
		*s.at(s.last) = 0
	}
	*s.at(slot) += n
}

// giveBack takes up to n off the slots, the newest first and none before from,
// and returns how much that was.
func (s *Slots) giveBack(from, n int64) (back int64) {
	for i := s.last; i >= from && back < n; i-- {
		part := min(*s.at(i), n-back)
		*s.at(i) -= part
		back += part
	}
	return back
}

// clamp moves what is further ahead than it could honestly be to where it could
// be, and returns the slot to answer as of.
func (s *Slots) clamp(now int64) int64 {
	slot, latest := slotOf(now, s.width), slotOf(now+skew, s.width)
	if s.last > latest {
		ahead := s.giveBack(max(latest+1, s.oldest(s.last)), math.MaxInt64)
		s.last = latest
		*s.at(latest) += ahead
	}
	slot = max(slot, s.newest())
	s.last = min(s.last, slot) // what is newer is empty, as when all was given back
	return slot
}

// fit makes the ring the one of l. What was taken under another limit is put
// where its slot ended, so that none of it leaves early.
func (s *Slots) fit(now int64, l *Limit) {
	width, n := l.slots()
	if s.width == width && int64(len(s.ring)) == n+1 {
		return
	}
	old := *s
	*s = Slots{ring: make([]int64, n+1), last: slotOf(now, width), width: width}
	if old.ring == nil {
		return
	}
	end := func(slot int64) int64 { return slotOf((slot+1)*old.width-1, width) }
	first := old.oldest(old.last)
	s.last = end(first)
	for i := first; i <= old.last; i++ {
		s.add(end(i), *old.at(i))
	}
}

// Used returns the number of events in the last Period of l at the time now,
// including any debt. Use it to change to another Kind, see Change.
func (s *Slots) Used(now time.Time, l Limit) int64 {
	if l.Unlimited() || l.Count <= 0 {
		return 0
	}
	us := withinSlots(now.UnixMicro())
	s.fit(us, &l)
	return s.used(s.clamp(us))
}
