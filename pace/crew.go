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
// Who is refused beside nobody cannot be fewer: others use up all there is. Then
// nobody starts for a tenth of a second, doubling up to half a minute until one
// is served, nor before the server said to come back.
//
// The zero crew has no bound.
type crew struct {
	bound    int       // zero: none
	step     int       // by which it was last raised
	patience float64   // seconds
	since    time.Time // when it was last changed
	pause    float64   // seconds, since one was refused beside nobody
	until    time.Time // when that ends
}

const (
	leastPatience, mostPatience = 1.0, 60.0 // seconds
	leastPause, mostPause       = 0.1, 30.0 // seconds
)

// wait is how long until r may start: Never if not before another ends.
func (c *crew) wait(now time.Time, r Request, flying, most int) time.Duration {
	switch {
	case r.Place == 0 && c.full(flying, most):
		return Never
	case c.pause > 0:
		return max(c.until.Sub(now), 0)
	}
	return 0
}

// full reports whether no more may start. most is another bound, if above zero.
func (c *crew) full(flying, most int) bool {
	return most > 0 && flying >= most || c.bound > 0 && flying >= c.bound
}

// ended learns from the end of one beside whom flying are in flight.
func (c *crew) ended(now time.Time, flying, most int, o *Outcome) {
	if o.Verdict == Served {
		c.pause = 0
	}
	switch {
	case o.Verdict == Throttled && o.Crowded:
		if flying == 0 {
			c.rest(now, o)
		}
		c.refused(now, flying)
	case o.Verdict == Served && c.bound > 0 && flying+1 >= c.bound && !c.bounded(most):
		if now.Sub(c.since).Seconds() >= c.patience {
			c.raise(now)
		}
	}
}

// bounded reports whether the other bound is the lower one already.
func (c *crew) bounded(most int) bool { return most > 0 && c.bound >= most }

// rest begins a pause, unless this one left before the last began.
func (c *crew) rest(now time.Time, o *Outcome) {
	if c.pause > 0 && c.until.After(now) {
		return
	}
	c.pause = min(max(2*c.pause, leastPause), mostPause)
	spread := 1 + o.Request.Luck.Unit(1) // others rest too
	c.until = now.Add(max(seconds(c.pause*spread), o.After))
}

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
