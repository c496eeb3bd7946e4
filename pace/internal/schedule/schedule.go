// Package schedule keeps even schedules of starts ([Even]), and the arithmetic
// of waits that the controllers of packages pace and peers share: durations
// that do not overflow, and defaults for fields that are zero.
//
//	each := schedule.Interval(rate)
//	line.Wait(now, r.Since, r.Place, each, burst) // how long from now
//	line.Start(now, r.Since, each, burst)         // one more started
package schedule

import (
	"math"
	"time"
)

// Longest is the longest wait that any controller forecasts, 146 years: less
// than the largest Duration, so it can be added to a time.
const Longest time.Duration = math.MaxInt64 / 2

// Or returns v if it is above zero, else standard: also for NaN.
func Or[T ~int | ~int64 | ~float64](v, standard T) T {
	if v > 0 {
		return v
	}
	return standard
}

// Nanoseconds returns ns as a Duration from 0 to Longest, rounded down; Longest
// also for NaN.
func Nanoseconds(ns float64) time.Duration {
	if !(ns < float64(Longest)) {
		return Longest
	}
	return time.Duration(max(ns, 0))
}

// Until returns the wait from now to t, at most Longest.
func Until(t, now time.Time) time.Duration { return min(t.Sub(now), Longest) }

// Interval returns the nanoseconds between two starts at a rate a second, 0 if
// there is no limit.
func Interval(rate float64) float64 {
	if !(rate > 0) {
		return 0
	}
	return min(1e9/rate, float64(Longest/2))
}

// Even is an even schedule. It is kept as the instant of the next start, with
// the fraction of a nanosecond, so that no rounding adds up. The zero value
// starts at once.
type Even struct {
	next time.Time // zero: at once
	frac float64   // nanoseconds, in [0, 1), that next is too early
}

// Shift moves the schedule by ns nanoseconds.
func (s *Even) Shift(ns float64) {
	whole, frac := math.Modf(ns)
	frac += s.frac
	carry := math.Floor(frac)
	s.next = s.next.Add(time.Duration(whole + carry))
	s.frac = frac - carry
}

// due returns the schedule after a pause. Idle time saves up burst starts, including
// the one that ends it. If the driver is late for a request that has waited since
// then, up to one interval more is made up for.
func (s *Even) due(now, since time.Time, interval float64, burst int) Even {
	idle := now.Add(-Nanoseconds(interval))
	if since.After(idle) {
		idle = since
	}
	if idle.After(now) {
		idle = now
	}
	idle = idle.Add(-Nanoseconds(float64(burst-1) * interval))
	if s.next.Before(idle) {
		return Even{next: idle}
	}
	return *s
}

// Wait returns the time until a request that waits since then may start; for a
// place k above zero, that of the k-th start.
func (s *Even) Wait(now, since time.Time, place int, interval float64, burst int) time.Duration {
	at := *s
	switch {
	case interval == 0:
		return 0
	case place > 0:
		at = s.due(now, since, interval, burst)
		at.Shift(min(float64(place-1)*interval, float64(Longest)))
	}
	wait := Until(at.next, now)
	if at.frac > 0 {
		wait++ // not before, so round up
	}
	return wait
}

// Start moves the schedule on by one.
func (s *Even) Start(now, since time.Time, interval float64, burst int) {
	*s = s.due(now, since, interval, burst)
	s.Shift(interval)
}
