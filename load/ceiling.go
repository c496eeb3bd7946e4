package load

import (
	"math"
	"time"
)

// Ceiling is an adaptive concurrency limit for a caller, learnt from the
// refusals of a server that serves only so many calls at once.
//
// A call that is refused for being one too many shows how many the server does
// serve: those in flight beside it. That number becomes the limit. Once the
// limit has been in full use for a second, it is raised by one to see whether
// there is more room. While raises hold, the steps double; after a raise that is
// refused, the time until the next one doubles, up to a minute. So a constant
// limit costs one refusal a minute, and a raised limit is found in about as many
// seconds as it has doublings.
//
// A call that is refused with none beside it means that other callers use up all
// that the server serves. Then no call starts for a tenth of a second to twice
// that, at random; the time doubles with each such refusal, up to half a minute,
// and is never less than the server asked for. The next call that is served ends
// it.
//
// The algorithm is our own, not a published one. The zero value has no limit.
//
// A Ceiling does not count the calls in flight: its caller does. In all methods
// maxInFlight is a bound of the caller's own, none if zero or below.
type Ceiling struct {
	limit    int       // zero: none
	step     int       // by which it was last raised
	patience float64   // seconds in full use until the next raise
	since    time.Time // when it was last changed
	pause    float64   // seconds, since a call was refused with none beside it
	until    time.Time // when that ends
}

const (
	minPatience, maxPatience = 1.0, 60.0 // seconds
	minPause, maxPause       = 0.1, 30.0 // seconds
)

// Limit returns the limit, zero if there is none.
func (c *Ceiling) Limit() int { return c.limit }

// Full reports whether a call has to wait until one of the inFlight others ends.
func (c *Ceiling) Full(inFlight, maxInFlight int) bool {
	return maxInFlight > 0 && inFlight >= maxInFlight || c.limit > 0 && inFlight >= c.limit
}

// Pause returns for how long no call may start, however few are in flight.
func (c *Ceiling) Pause(now time.Time) time.Duration {
	if c.pause == 0 {
		return 0
	}
	return max(c.until.Sub(now), 0)
}

// Served learns from a call that was served, with inFlight others beside it.
func (c *Ceiling) Served(now time.Time, inFlight, maxInFlight int) {
	c.pause = 0
	if c.limit == 0 || inFlight+1 < c.limit || maxInFlight > 0 && c.limit >= maxInFlight {
		return // not in full use, or not what binds
	}
	if now.Sub(c.since).Seconds() >= c.patience {
		c.raise(now)
	}
}

// Refused learns from a call that the server refused because too many were in
// flight, with inFlight others beside it. after is how long the server asked to
// wait, zero if it did not; random is a random number in [0, 1), which spreads
// pauses.
func (c *Ceiling) Refused(now time.Time, inFlight int, after time.Duration, random float64) {
	if inFlight == 0 && c.Pause(now) == 0 { // otherwise it left before the pause began
		c.pause = min(max(2*c.pause, minPause), maxPause)
		rest := time.Duration(math.Ceil(c.pause * (1 + random) * 1e9))
		c.until = now.Add(max(rest, after))
	}
	if c.limit > 0 && inFlight >= c.limit {
		return // it left before the limit was lowered
	}
	if c.limit > 0 && c.step > 0 { // a step too far
		c.patience = min(2*c.patience, maxPatience)
	}
	c.limit, c.step, c.since = max(inFlight, 1), 0, now
	c.patience = max(c.patience, minPatience)
}

// raise makes a step upward, twice the one before if that held.
func (c *Ceiling) raise(now time.Time) {
	if c.step == 0 {
		c.step = 1
	} else {
		c.step = min(2*c.step, c.limit)
		c.patience = minPatience
	}
	c.limit, c.since = c.limit+c.step, now
}
