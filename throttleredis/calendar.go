package throttleredis

import (
	"time"

	"github.com/throttle-go/throttle/limit"
)

// early is how far the clock of Redis may be behind what it is taken to show,
// for a calendar window to be decided in one call. A whole window ahead is
// provided for too.
const early = 5 * time.Second

// edges are what the script has to know of the calendar: from when on it holds,
// when the window of that instant began and ends, and the ends of the next two.
func edges(l *limit.Limit, now time.Time) []int64 {
	first := now.Add(-early)
	begin := windowEnd(l, first.Add(-longest(l.Period)))
	e := windowEnd(l, begin)
	for e.Compare(first) <= 0 {
		begin, e = e, windowEnd(l, e)
	}
	e2 := windowEnd(l, e)
	e3 := windowEnd(l, e2)
	return []int64{first.UnixMicro(), begin.UnixMicro(), e.UnixMicro(), e2.UnixMicro(), e3.UnixMicro()}
}

// longest is how long a calendar window may be.
func longest(period time.Duration) time.Duration {
	for _, unit := range [...]time.Duration{time.Minute, time.Hour, 24 * time.Hour, limit.Week} {
		if period <= unit {
			return unit + 2*time.Hour // clocks may be put back
		}
	}
	return ((period-1)/limit.Month + 1) * limit.Month
}

// windowEnd is the end of the window that holds t.
func windowEnd(l *limit.Limit, t time.Time) time.Time {
	s, _ := limit.Take(limit.State{}, t, limit.Ask{Limit: *l, N: 1})
	return time.UnixMicro(s.T)
}
