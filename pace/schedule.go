// Package schedule keeps even schedules of starts, and the arithmetic of waits
// that policies of pacing share.
package pace

import (
	"math"
	"time"
)

// most is the longest wait that any policy foresees, 146 years: still short of
// the largest Duration, so it can be added to a time.
const most time.Duration = math.MaxInt64 / 2

// or returns v if it is above zero, else standard: also for what is not a number.
func or[T ~int | ~int64 | ~float64](v, standard T) T {
	if v > 0 {
		return v
	}
	return standard
}

// nanoseconds returns ns as a Duration from 0 to most, rounded down; most also
// for what is not a number.
func nanoseconds(ns float64) time.Duration {
	if !(ns < float64(most)) {
		return most
	}
	return time.Duration(max(ns, 0))
}

// until returns the wait from now to t, at most most: a policy's own wait is
// never endless.
func until(t, now time.Time) time.Duration { return min(t.Sub(now), most) }

// intervalOf returns the nanoseconds between two starts at a rate a second, 0 if
// there is no limit.
func intervalOf(rate float64) float64 {
	if !(rate > 0) {
		return 0
	}
	return min(1e9/rate, float64(most/2))
}

// spacing is an even schedule. It is kept as the instant of the next start,
// with the fraction of a nanosecond, so that no rounding adds up.
type spacing struct {
	next time.Time // zero: at once
	frac float64   // nanoseconds, in [0, 1), that next is too early
}

// shift moves the schedule by ns nanoseconds.
func (s *spacing) shift(ns float64) {
	whole, frac := math.Modf(ns)
	frac += s.frac
	carry := math.Floor(frac)
	s.next = s.next.Add(time.Duration(whole + carry))
	s.frac = frac - carry
}

// due returns the schedule after a pause. Time in which nobody wanted to start
// saves up for burst starts at once, the one that ends it included. Time in
// which a request waited, since then, and its driver was late is made up for, as
// far as one interval more.
func (s *spacing) due(now, since time.Time, interval float64, burst int) spacing {
	idle := now.Add(-nanoseconds(interval))
	if since.After(idle) {
		idle = since
	}
	if idle.After(now) {
		idle = now
	}
	idle = idle.Add(-nanoseconds(float64(burst-1) * interval))
	if s.next.Before(idle) {
		return spacing{next: idle}
	}
	return *s
}

// wait returns the time until a request that waits since then may start; for a
// place k above zero, that of the k-th start.
func (s *spacing) wait(now, since time.Time, place int, interval float64, burst int) time.Duration {
	at := *s
	switch {
	case interval == 0:
		return 0
	case place > 0:
		at = s.due(now, since, interval, burst)
		at.shift(min(float64(place-1)*interval, float64(most)))
	}
	wait := until(at.next, now)
	if at.frac > 0 {
		wait++ // not before, so round up
	}
	return wait
}

// start moves the schedule on by one.
func (s *spacing) start(now, since time.Time, interval float64, burst int) {
	*s = s.due(now, since, interval, burst)
	s.shift(interval)
}
