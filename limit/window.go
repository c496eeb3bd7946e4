package limit

import "math"

// takeWindow counts events in windows of one Period, aligned to the Unix
// epoch. T is the end of the window in which N were taken. It fills in d and
// returns the state to keep.
func takeWindow(s State, now int64, a *Ask, d *Decision) State {
	count, period := a.Limit.Count, a.Limit.micros()
	s = clampWindow(s, now, period)
	end, used := windowEnd(now, period), int64(0)
	if s.live(now) {
		end, used = s.T, windowUsed(s, count)
	}
	d.N, d.OK = a.grant(max(count-used, 0), used > count)
	switch {
	case !d.OK && a.least() > count:
		d.RetryAfter = Never
	case !d.OK:
		d.RetryAfter = span{us: end - now}.duration()
	case d.N != 0:
		used = max(plus(used, d.N), 0)
		s = windowState(end, used)
	}
	d.Remaining = max(count-used, 0)
	if used > 0 {
		d.ResetAfter = span{us: end - now}.duration()
	}
	return s
}

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

// clampWindow moves a state that is further ahead than an honest one could be
// to the furthest window one could be in, which is the next: a caller that read
// the clock before an edge may be answered after one that read it behind.
// Counting both in the later window forgets nothing.
func clampWindow(s State, now, period int64) State {
	latest := windowEnd(later(now, max(period, skew)), period)
	if s.live(latest) {
		s.T = latest
	}
	return s
}

// windowEnd is the first multiple of period after now, both in microseconds.
func windowEnd(now, period int64) int64 {
	into := now % period
	if into < 0 {
		into += period
	}
	return later(now, period-into)
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
