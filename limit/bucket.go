package limit

import (
	"math"
	"time"
)

// bucket is a TokenBucket limit as the generic cell rate algorithm sees it.
// What has been taken and not yet refilled is its debt, the time until it is
// full again:
//
//	debt  = max(0, full - now)
//	cost  = N × Period/Count
//	allow when debt + cost <= room, room being Burst × Period/Count
type bucket struct {
	period, count int64 // one event is worth period/count microseconds
	room          span
}

func bucketOf(l *Limit) bucket {
	b := bucket{period: l.micros(), count: l.Count}
	b.room = b.worth(l.most())
	return b
}

// worth is the time that n events take, n not being negative.
func (b bucket) worth(n int64) span { return spanOf(n, b.period, b.count) }

// bottom is the most that may be owed: one more Burst below zero.
func (b bucket) bottom() span { return b.room.plus(b.room, b.count) }

// left is how many events fit above a debt.
func (b bucket) left(debt span) int64 {
	n, _ := b.room.minus(debt, b.count).events(b.period, b.count)
	return n
}

// takeBucket fills in d and returns the state to keep.
func takeBucket(s State, now int64, a *Ask, d *Decision) State {
	b := bucketOf(&a.Limit)
	s = b.clamp(s, now)
	debt := b.debt(s, now)
	d.N, d.OK = a.grant(b.left(debt), b.room.less(debt))
	switch {
	case !d.OK:
		d.RetryAfter = b.wait(debt, a.least(), d.Max)
	case d.N != 0:
		if d.N < 0 {
			owed, part := debt.events(b.period, b.count)
			d.N = comesBack(d.N, later(owed, min(part, 1)))
		}
		before := debt
		debt = b.charge(before, d.N)
		s = b.state(now, debt)
		if a.Debt && d.N > 0 {
			n, _ := debt.minus(before, b.count).events(b.period, b.count)
			d.N = min(d.N, n) // the rest is forgiven
		}
	}
	d.Remaining = b.left(debt)
	d.ResetAfter = debt.duration()
	return s
}

// charge is the debt after n more events, or after -n were given back.
func (b bucket) charge(debt span, n int64) span {
	if n < 0 {
		return debt.minus(b.worth(-max(n, -math.MaxInt64)), b.count)
	}
	after, bottom := debt.plus(b.worth(n), b.count), b.bottom()
	if !bottom.less(after) {
		return after
	}
	if bottom.less(debt) { // by no more than skew: see clamp
		return debt
	}
	return bottom
}

// wait is how long until n events fit.
func (b bucket) wait(debt span, n, most int64) time.Duration {
	if n > most {
		return Never
	}
	return debt.plus(b.worth(n), b.count).minus(b.room, b.count).duration()
}

// clamp moves a state that is further ahead than an honest one could be to
// where one could be.
func (b bucket) clamp(s State, now int64) State {
	if latest := later(now, b.bottom().ceil()+skew); s.live(latest) {
		return fullAt(latest, 0)
	}
	return s
}

// debt is the time until the bucket is full: T - N/count - now. s is clamped.
func (b bucket) debt(s State, now int64) span {
	switch {
	case !s.live(now):
		return span{}
	case s.N <= 0 || s.N >= b.count: // not rounded, or under another limit
		return span{us: s.T - now}
	}
	return span{s.T - now - 1, b.count - s.N}
}

// used is how many events are not yet refilled, and how many period-ths of
// another. Any s will do.
func (b bucket) used(s State, now int64) (n, part int64) {
	return b.debt(b.clamp(s, now), now).events(b.period, b.count)
}

// state is the one whose debt at now is the given one. T is rounded up and N
// says by how much, so that T <= now exactly when nothing is owed.
func (b bucket) state(now int64, debt span) State {
	if debt == (span{}) {
		return State{}
	}
	n := int64(0)
	if debt.rem > 0 {
		n = b.count - debt.rem
	}
	return fullAt(later(now, debt.ceil()), n)
}

// fullAt is the state of a bucket that is full at t, rounded up by n. One that
// is full at the epoch itself must not look like a key never seen.
func fullAt(t, n int64) State {
	if t == 0 && n == 0 {
		t = 1
	}
	return State{T: t, N: n}
}
