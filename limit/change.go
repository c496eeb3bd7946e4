package limit

import "time"

// Change carries a state over from one limit to another, at the time now. What
// was used stays used, no more and no less, so that a change grants no free
// burst and forgives no debt: the tokens missing from the old bucket are
// missing from the new one, and what a window used is used in the new window
// that holds now. Fractions are rounded up to what the new State can tell.
//
// As ever, no more is owed than one more Burst (or Count) below zero, of the
// new limit; what a lowered limit cannot hold is forgiven. A limit that allows
// everything or nothing, or keeps a Log, leaves the state as it is.
func Change(s State, now time.Time, from, to Limit) State {
	t := now.UnixMicro()
	if from == to || !s.live(t) || !from.counts() || !to.counts() {
		return s
	}
	if to.Kind == FixedWindow {
		return intoWindow(s, t, from, to)
	}
	b := bucketOf(to)
	debt := owed(s, t, from, b)
	if bottom := b.bottom(); bottom.less(debt) {
		debt = bottom
	}
	return b.state(t, debt)
}

// counts reports whether l keeps a State at all.
func (l Limit) counts() bool {
	return !l.Unlimited() && l.Count > 0 && l.Kind != SlidingLog
}

// owed is what was used under from, as a debt of the bucket b.
func owed(s State, now int64, from Limit, b bucket) span {
	if from.Kind == FixedWindow {
		return b.worth(windowUsed(s, from.Count))
	}
	old := bucketOf(from)
	used, part := old.used(s, now)
	debt := b.worth(used)
	// part/old.period of an event is worth that × period/count microseconds.
	parts, rest := mulDiv(part, b.period, old.period) // × 1/count
	if rest > 0 {
		parts++
	}
	return debt.plus(span{parts / b.count, parts % b.count}, b.count)
}

func intoWindow(s State, now int64, from, to Limit) State {
	used, end := windowUsed(s, from.Count), windowEnd(now, to.micros())
	switch {
	case from.Kind != FixedWindow:
		var part int64
		if used, part = bucketOf(from).used(s, now); part > 0 {
			used = later(used, 1)
		}
	case from.micros() == to.micros():
		end = s.T
	}
	return windowState(end, used)
}
