package limit

import (
	"math"
	"time"
)

// takeWindow counts events in windows that forget all when they end. T is the
// end of the window in which N were taken. It fills in d and returns the state
// to keep. The kinds differ in where a window ends.
func takeWindow(s State, now int64, a *Ask, d *Decision) State {
	count := a.Limit.Count
	s = a.Limit.clampWindow(s, now)
	end, used := s.T, int64(0)
	if s.live(now) {
		used = windowUsed(s, count)
	} else {
		end = a.Limit.windowEnd(now)
	}
	d.N, d.OK = a.grant(max(count-used, 0), used > count)
	switch {
	case !d.OK && a.least() > count:
		d.RetryAfter = Never
	case !d.OK:
		d.RetryAfter = until(end, now)
	case d.N != 0:
		n := comesBack(d.N, used)
		d.N = charged(n, used, count)
		used = plus(used, n)
		s = windowState(end, used)
	}
	d.Remaining = max(count-used, 0)
	if used > 0 {
		d.ResetAfter = until(end, now)
	}
	return s
}

// until is how long from now to end, which is later.
func until(end, now int64) time.Duration { return span{us: end - now}.duration() }

// windowUsed is what s says was used, as far as a window of count can hold it:
// at most one more Count is owed.
func windowUsed(s State, count int64) int64 {
	return min(max(s.N, 0), double(count))
}

func windowState(end, used int64) State {
	if used == 0 {
		return State{}
	}
	return State{T: end, N: used}
}

// windowEnd is the end of the window of l that holds now, or would begin with
// it. No kind but the windows asks.
func (l *Limit) windowEnd(now int64) int64 {
	switch l.Kind {
	case FirstHitWindow:
		return firstHitEnd(now, l.micros())
	case CalendarWindow:
		return calendarEnd(now, l.Period, l.Zone)
	}
	return fixedEnd(now, l.micros())
}

// clampWindow moves a state that is further ahead than an honest one could be
// to the furthest that one could be.
func (l *Limit) clampWindow(s State, now int64) State {
	var latest int64
	switch l.Kind {
	case FirstHitWindow:
		latest = firstHitLatest(now, l.micros())
	case CalendarWindow:
		latest = calendarLatest(s.T, now, l.Period, l.Zone)
	default:
		latest = fixedLatest(now, l.micros())
	}
	if s.live(latest) {
		s.T = latest
	}
	return s
}

// fixedEnd is the first multiple of period after now, both in microseconds.
func fixedEnd(now, period int64) int64 {
	into := now % period
	if into < 0 {
		into += period
	}
	return later(now, period-into)
}

// fixedLatest is the furthest end that an honest state could have, which is
// that of the next window: a caller that read the clock before an edge may be
// answered after one that read it behind. Counting both in the later window
// forgets nothing.
func fixedLatest(now, period int64) int64 {
	return fixedEnd(later(now, max(period, skew)), period)
}

// later is now + us, or the end of time. us is not negative.
func later(now, us int64) int64 {
	if now > math.MaxInt64-us {
		return math.MaxInt64
	}
	return now + us
}

// double is 2 × count, or the largest int64. count is not negative.
func double(count int64) int64 { return later(count, count) }

// plus is used + n, saturating. used is not negative.
func plus(used, n int64) int64 {
	if n < 0 {
		return used + n
	}
	return later(used, n)
}
