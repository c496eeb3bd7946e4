package limit

import "time"

// Change carries a state over from one limit to another, at the time now. Tokens
// that were used stay used, no more and no less, so that a change grants no free
// burst and forgives no debt: the tokens missing from the old bucket are missing
// from the new one, and the events of a window count in the current window of
// the new limit. Fractions are rounded up to what the new State can hold.
//
// A window stays the one it is where only Count changes. A FirstHitWindow or
// SlidingWindow of another Period has the same share of it left as before; any
// other change into a FirstHitWindow begins one.
//
// As always, at most one Burst (or Count) of the new limit is owed below zero; a
// debt beyond that is forgiven. A limit that allows everything or nothing leaves
// the state as it is: at the next change, pass the limit before it as from. The
// same holds for a Log and Slots, which have no State: charge what was Used of
// one to the other, with Debt.
func Change(s State, now time.Time, from, to Limit) State {
	t := now.UnixMicro()
	if from == to || !s.live(t) || !from.counts() || !to.counts() {
		return s
	}
	switch {
	case to.Kind.isWindow():
		return intoWindow(s, t, &from, &to)
	case to.Kind == SlidingWindow:
		return intoSliding(s, t, &from, &to)
	}
	b := bucketOf(&to)
	debt := owed(usedOf(s, t, &from), b)
	if bottom := b.bottom(); bottom.less(debt) {
		debt = bottom
	}
	return b.state(t, debt)
}

// Used returns how much of l is in use at the time now, in whole events as Take
// counts them: the tokens not refilled yet, or the events of the window, and any
// debt besides. It is zero for a limit that keeps no State.
func Used(s State, now time.Time, l Limit) int64 {
	t := now.UnixMicro()
	if !l.counts() || !s.live(t) {
		return 0
	}
	if l.Kind == SlidingWindow {
		w := slidingAt(s, t, &l)
		return min(w.used(), double(l.Count))
	}
	return usedOf(s, t, &l).ceil()
}

// Forgives reports whether a Store that has refused an ask under the limit to should keep
// s, the state under from, and not write what Change returns. It should if Change forgives
// a part of what was used, because that is more than to can owe: otherwise a key asked for
// under the two limits in turns would be granted the larger one again after each refusal
// under the other.
//
// Forgives is false if that usage lasts longer than twice the time in which all of to is
// refilled (twice its Period, if it is no bucket). Then what Change returns is written: no
// key should wait for a day's usage under a limit a minute.
func Forgives(s State, now time.Time, from, to Limit) bool {
	t := now.UnixMicro()
	if from == to || !s.live(t) || !from.counts() || to.Period <= 0 || to.Count <= 0 {
		return false
	}
	refill := to.micros()
	if to.Kind.isBucket() {
		refill = bucketOf(&to).room.us
	}
	return Used(s, now, from) > double(to.most()) && s.T-t <= double(refill)
}

// usage is what was used: n events and part/of of another.
type usage struct{ n, part, of int64 }

func (u usage) ceil() int64 {
	if u.part > 0 {
		return later(u.n, 1)
	}
	return u.n
}

// usedOf is what was used under l, which counts.
func usedOf(s State, now int64, l *Limit) usage {
	switch {
	case l.Kind.isWindow():
		return usage{windowUsed(s, l.Count), 0, 1}
	case l.Kind == SlidingWindow:
		w := slidingAt(s, now, l)
		n, part := mulDiv(w.prev, w.left, w.period)
		if n = later(w.cur, n); n >= double(l.Count) {
			return usage{double(l.Count), 0, 1}
		}
		return usage{n, part, w.period}
	}
	b := bucketOf(l)
	n, part := b.used(s, now)
	return usage{n, part, b.period}
}

// owed is what was used, as a debt of the bucket b.
func owed(u usage, b bucket) span {
	// part/of of an event is worth that × period/count microseconds.
	parts, rest := mulDiv(u.part, b.period, u.of) // × 1/count
	if rest > 0 {
		parts++
	}
	return b.worth(u.n).plus(span{parts / b.count, parts % b.count}, b.count)
}

func intoWindow(s State, now int64, from, to *Limit) State {
	used := usedOf(s, now, from).ceil()
	switch {
	case from.sameWindows(to):
		return windowState(s.T, used)
	case from.Kind == FirstHitWindow && to.Kind == FirstHitWindow:
		left := min(s.T-now, from.micros())
		return windowState(later(now, scale(left, from.micros(), to.micros())), used)
	}
	return windowState(to.windowEnd(now), used)
}

// sameWindows reports whether the windows of l and o, if both have any, begin
// and end together.
func (l *Limit) sameWindows(o *Limit) bool {
	if l.Kind != o.Kind {
		return false
	}
	if l.Kind == CalendarWindow {
		return calendarUnit(l.Period) == calendarUnit(o.Period) && zoneName(l.Zone) == zoneName(o.Zone)
	}
	return l.micros() == o.micros()
}

func intoSliding(s State, now int64, from, to *Limit) State {
	most := double(to.Count)
	used := min(usedOf(s, now, from).ceil(), most)
	if from.Kind != SlidingWindow {
		w := sliding{period: to.micros(), end: fixedEnd(now, to.micros()), cur: used}
		return w.state()
	}
	w := slidingAt(s, now, from)
	if !from.sameWindows(to) {
		w.left, w.period = scale(w.left, w.period, to.micros()), to.micros()
		w.end = later(now, w.left)
	}
	if max(w.cur, w.prev) > most || w.used() > double(from.Count) { // more than is remembered: let none of it fade sooner
		w.cur, w.prev = used, 0
	}
	return w.state()
}

// scale is the same share of another period, rounded up.
func scale(left, period, other int64) int64 {
	n, rest := mulDiv(left, other, period)
	if rest > 0 {
		n++
	}
	return n
}
