package pace

import (
	"time"

	"github.com/throttle-go/throttle/load"
)

// ceiling bounds how many requests of a Gate or a Scope are in flight.
type ceiling struct{ load.Ceiling }

// wait returns how long until r may start: Never if another one must end first.
// A forecast counts pauses only. most is another bound, if above zero.
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
		c.Refused(now, flying, o.After, o.Request.Luck.Unit(1)) // others pause too
	}
}
