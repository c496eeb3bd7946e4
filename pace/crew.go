package pace

import "time"

// crew bounds how many are in flight at once, where a server refuses more. Who
// is refused for being one too many knows how many are not: those who are in
// flight beside it. The bound is that number, and it tries whether there is room
// for one more once it was in full use for some time: a second, doubling up to a
// minute when that is refused. As long as it is not, the steps double instead.
// So a bound that stands costs one refusal a minute, and one that was lifted is
// found again in as many seconds as it takes doublings.
//
// The zero crew has no bound.
type crew struct {
	bound    int       // zero: none
	step     int       // by which it was last raised
	patience float64   // seconds
	since    time.Time // when it was last changed
}

const leastPatience, mostPatience = 1.0, 60.0 // seconds

// full reports whether no more may start. most is another bound, if above zero.
func (c *crew) full(flying, most int) bool {
	return most > 0 && flying >= most || c.bound > 0 && flying >= c.bound
}

// ended learns from the end of one beside whom flying are in flight.
func (c *crew) ended(now time.Time, flying, most int, o *Outcome) {
	switch {
	case o.Verdict == Throttled && o.Crowded:
		c.refused(now, flying)
	case o.Verdict == Served && c.bound > 0 && flying+1 >= c.bound && !c.bounded(most):
		if now.Sub(c.since).Seconds() >= c.patience {
			c.raise(now)
		}
	}
}

// bounded reports whether the other bound is the lower one already.
func (c *crew) bounded(most int) bool { return most > 0 && c.bound >= most }

func (c *crew) refused(now time.Time, flying int) {
	if c.bound > 0 && flying >= c.bound {
		return // it left before the bound was lowered
	}
	if c.bound > 0 && c.step > 0 { // a step too far
		c.patience = min(2*c.patience, mostPatience)
	}
	c.bound, c.step, c.since = max(flying, 1), 0, now
	c.patience = max(c.patience, leastPatience)
}

// raise makes a step upward, larger than the one before if that held.
func (c *crew) raise(now time.Time) {
	switch {
	case c.step == 0:
		c.step = 1
	default:
		c.step = min(2*c.step, c.bound)
		c.patience = leastPatience
	}
	c.bound, c.since = c.bound+c.step, now
}
