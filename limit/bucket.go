package limit

import (
	"math"
	"time"
)

// takeBucket is the generic cell rate algorithm. The state is the instant at
// which the bucket will be full again; the time until then is the debt, and
// each event adds Period/Count to it:
//
//	debt  = max(0, full - now)
//	cost  = N × Period/Count
//	allow when debt + cost <= Burst × Period/Count
func takeBucket(s State, now int64, a Ask, d Decision) (State, Decision) {
	period, count := a.Limit.periodMicros(), a.Limit.Count
	room := spanOf(d.Most, period, count)
	debt := s.debt(now, count)
	if most := room.plus(room, count); most.less(debt) {
		debt = most // the clock went back, or the limit was lowered
	}
	n := a.N
	if left, _ := room.minus(debt, count).events(period, count); n > left && a.Min > 0 && left >= a.Min {
		n = left
	}
	var after span
	if n < 0 {
		after = debt.minus(spanOf(-max(n, -math.MaxInt64), period, count), count)
	} else {
		after = debt.plus(spanOf(n, period, count), count)
	}
	fits := !room.less(after)
	switch {
	case fits || n < 0:
		d.OK, d.N = true, n
	case a.Debt:
		d.OK, d.N = true, n
		if most := room.plus(room, count); most.less(after) {
			after = most
		}
	default:
		wait := Never
		if n <= d.Most {
			wait = after.minus(room, count).duration()
		}
		d = refuse(d, a, wait)
		after = debt
	}
	d.Remaining, _ = room.minus(after, count).events(period, count)
	d.ResetAfter = after.duration()
	if d.N == 0 {
		return s, d
	}
	return stateOf(now, after, count), d
}

// debt is the time until the bucket is full: T - N/count - now.
func (s State) debt(now, count int64) span {
	if s.T <= now {
		return span{}
	}
	us := s.T - now
	if us < 0 || us > forever { // the subtraction overflowed, or nearly
		us = forever
	}
	if s.N <= 0 || s.N >= count { // written under another limit: round up
		return span{us: us}
	}
	return span{us - 1, count - s.N}
}

// stateOf is the state whose debt at now is the given one. T is rounded up and
// N says by how much, so that T <= now exactly when nothing is owed.
func stateOf(now int64, debt span, count int64) State {
	if debt == (span{}) {
		return State{}
	}
	s := State{T: now + debt.ceil()}
	if s.T < now {
		s.T = math.MaxInt64
	}
	if debt.rem > 0 {
		s.N = count - debt.rem
	}
	return s
}

// Change carries a state over from one limit to another: what was used stays
// used, no more and no less, so that a change grants no free burst and forgives
// no debt. For a token bucket the tokens missing from the old bucket are
// missing from the new one; for a window what it used is used in the new
// window that holds now. A change of Kind carries the used, rounded up.
func Change(s State, now time.Time, from, to Limit) State {
	if s.T <= now.UnixMicro() || from == to || from.Unlimited() || from.Count <= 0 || to.Unlimited() || to.Count <= 0 {
		return s
	}
	if from.Kind == FixedWindow {
		after, _ := Take(State{}, now, Ask{Limit: to, N: s.N, Debt: true})
		return after
	}
	// used = debt × count/period events and a fraction.
	t := now.UnixMicro()
	period, count := from.periodMicros(), from.Count
	used, part := s.debt(t, count).events(period, count)
	if to.Kind == FixedWindow {
		if part > 0 {
			used++
		}
		after, _ := Take(State{}, now, Ask{Limit: to, N: used, Debt: true})
		return after
	}
	// The fraction part/period of an event is worth part/period × period'/count'.
	period2, count2 := to.periodMicros(), to.Count
	debt := spanOf(used, period2, count2)
	micros, left := mulDiv(part, period2, period) // × 1/count' microseconds
	if left > 0 {
		micros++
	}
	debt = debt.plus(span{micros / count2, micros % count2}, count2)
	return stateOf(t, debt, count2)
}
