package limit

import (
	"math"
	"time"
)

// takeWindow counts events in windows of one Period, aligned to the Unix
// epoch. T is the end of the window that N belongs to.
func takeWindow(s State, now int64, a Ask, d Decision) (State, Decision) {
	period, count := a.Limit.periodMicros(), a.Limit.Count
	end, used := windowEnd(now, period), int64(0)
	if s.T > now {
		// A window that lies ahead (the clock went back) is counted as this
		// one: its use is not forgotten, and not held against it for longer.
		used = min(max(s.N, 0), 2*min(count, math.MaxInt64/2))
		if ahead := s.T - now; ahead > 0 && ahead <= period {
			end = s.T
		}
	}
	n, left := a.N, max(count-used, 0)
	if n > left && a.Min > 0 && left >= a.Min {
		n = left
	}
	switch {
	case n < 0:
		used = max(used+max(n, -math.MaxInt64), 0)
		d.OK, d.N = true, n
	case used <= count && n <= left:
		used += n
		d.OK, d.N = true, n
	case a.Debt:
		used = min(used, math.MaxInt64-n) + n
		used = min(used, 2*min(count, math.MaxInt64/2))
		d.OK, d.N = true, n
	default:
		wait := Never
		if n <= d.Most {
			wait = time.Duration(end-now) * time.Microsecond
		}
		d = refuse(d, a, wait)
	}
	d.Remaining = max(count-used, 0)
	if used > 0 {
		d.ResetAfter = time.Duration(end-now) * time.Microsecond
	}
	switch {
	case d.N == 0:
		return s, d
	case used == 0:
		return State{}, d
	}
	return State{T: end, N: used}, d
}

// windowEnd is the first multiple of period after now, both in microseconds.
func windowEnd(now, period int64) int64 {
	into := now % period
	if into < 0 {
		into += period
	}
	return now - into + period
}
