package pace

import (
	"time"

	"github.com/throttle-go/throttle/load"
)

// ceiling bounds the requests in flight of a Gate or a Scope.
type ceiling struct {
	load.Ceiling
	law load.Law // nil: none
}

// Full reports whether no request may start beside inFlight others before one of them ends.
func (c *ceiling) Full(inFlight, most int) bool {
	return c.Ceiling.Full(inFlight, most) || c.law != nil && inFlight >= c.law.Limit()
}

// most returns the lowest of the bounds, one of which is most if above zero; zero if there is none.
func (c *ceiling) most(most int) int {
	if n := c.Limit(); n > 0 && (most <= 0 || n < most) {
		most = n
	}
	if c.law != nil && (most <= 0 || c.law.Limit() < most) {
		most = c.law.Limit()
	}
	return max(most, 0)
}

// wait returns how long until r may start: Never if another request must end first. A forecast
// counts pauses only. most is another bound, if above zero.
func (c *ceiling) wait(now time.Time, r Request, flying, most int) time.Duration {
	if r.Place == 0 && c.Full(flying, most) {
		return Never
	}
	return c.Pause(now)
}

// ended learns from a request that ended beside flying others.
func (c *ceiling) ended(now time.Time, flying, most int, o *Outcome) {
	switch {
	case o.Verdict == Served:
		c.Served(now, flying, most)
	case o.Verdict == Throttled && o.Crowded:
		c.Refused(now, flying, o.After, o.Request.Luck.Unit(1)) // all others pause too
	}
}

// teach lets the law learn from a request that ended beside flying others. A refusal for which
// the pacing is to blame, paced, teaches it nothing, as a bound in flight cannot express a rate.
// A time-out that load explains, timedOut, is a failure.
func (c *ceiling) teach(now time.Time, flying int, o *Outcome, paced, timedOut bool) {
	if c.law == nil || o.Sent.IsZero() {
		return
	}
	end := [...]load.End{Ignored: load.Ignored, Served: load.Served, Throttled: load.Refused, Failed: load.Failed}[o.Verdict&3]
	if end == load.Refused && paced && !o.Crowded {
		end = load.Ignored
	}
	if end == load.Ignored && timedOut {
		end = load.Failed
	}
	c.law.Observe(load.Sample{Now: now, Took: now.Sub(o.Sent), InFlight: flying + 1, End: end})
}
