package peers

import (
	"time"

	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/pace/internal/schedule"
)

// RubyKind is one of the four strategies of rate_throttle_client.
type RubyKind uint8

const (
	// RubyExponential is ExponentialBackoff: it remembers nothing between
	// calls.
	RubyExponential RubyKind = iota
	// RubyGradual is ExponentialIncreaseGradualDecrease: each success subtracts
	// MinSleep.
	RubyGradual
	// RubyProportional is ExponentialIncreaseProportionalDecrease: each success
	// subtracts the MaxLimit-th part.
	RubyProportional
	// RubyRemaining is ExponentialIncreaseProportionalRemainingDecrease: the
	// same, times what the server says remains; nothing where it does not say.
	RubyRemaining
)

// Ruby is a strategy of zombocom/rate_throttle_client, the Ruby gem behind the
// client of Heroku's platform API:
//
//	x = MinSleep                       RubyExponential
//	    throttled: sleep jit(x), then x = x × Multiplier
//
//	x = s, and before the call sleep jit(x)                      all others
//	    throttled: x = x + MinSleep, sleep jit(x), then x = x × Multiplier
//	    served:    s = x - MinSleep         RubyGradual
//	               s = x - x/MaxLimit       RubyProportional
//	               s = x - x × remaining/MaxLimit    RubyRemaining, all at least 0
//
// where jit(x) = x × (1 + U/10). A failed call ends without changing s, as
// Ruby's does by raising; its retry is a new call.
//
// It is meant for one worker, alone in its Gate, as the gem's threads each have
// an s of their own in practice. If shared, calls sleep side by side, and those
// in flight use s as it is now, not as it was at their start. x stops growing
// after a call was throttled 4096 times.
type Ruby struct {
	// Kind is the strategy. If zero, RubyExponential.
	Kind RubyKind
	// MaxLimit is the most requests that the server allows in an hour. If zero,
	// 4500.
	MaxLimit int64
	// MinSleep is the least sleep. If zero, an hour divided by MaxLimit: 0.8 s.
	MinSleep time.Duration
	// Multiplier multiplies x after each throttled try. If zero, 1.2.
	Multiplier float64
	// Initial is s at the start (the gem's starting_sleep_for); RubyExponential
	// does not use it. If zero, 0.
	Initial time.Duration

	served bool
	s      float64 // seconds, once served
	first  int     // try at which the current call began: the one after a failure
}

var _ pace.Controller = (*Ruby)(nil)

const mostThrottled = 4096

func (c *Ruby) maxLimit() float64 { return float64(schedule.Or(c.MaxLimit, 4500)) }

// minSleep returns the least sleep, in seconds.
func (c *Ruby) minSleep() float64 {
	if c.MinSleep > 0 {
		return c.MinSleep.Seconds()
	}
	return 3600 / c.maxLimit()
}

// pace returns s: what each call sleeps beforehand, in seconds.
func (c *Ruby) pace() float64 {
	switch {
	case c.Kind == RubyExponential:
		return 0
	case !c.served:
		return max(c.Initial.Seconds(), 0)
	}
	return c.s
}

// jittered returns jit(x), for x in seconds.
func jittered(x, unit float64) time.Duration {
	return schedule.Nanoseconds((x + x*0.1*unit) * 1e9)
}

// grown returns x after the call was throttled n times. It is derived, not
// kept, so that each call has its own x even where several are in flight.
func (c *Ruby) grown(n int) float64 {
	least, multiplier := c.minSleep(), schedule.Or(c.Multiplier, 1.2)
	x, more := c.pace(), least
	if c.Kind == RubyExponential {
		x, more = least, 0
	}
	for range min(n, mostThrottled) {
		x += more
		x = min(x*multiplier, schedule.Longest.Seconds())
	}
	return x
}

// Wait returns the sleep before a call, none before a retry, which has rested.
func (c *Ruby) Wait(now time.Time, r pace.Request) time.Duration {
	if c.Kind == RubyExponential || r.Try > 0 {
		return 0
	}
	return schedule.Until(r.Since.Add(jittered(c.pace(), r.Luck.Unit(0))), now)
}

// Start notes that a call begins.
func (c *Ruby) Start(_ time.Time, r pace.Request) {
	if r.Try == 0 {
		c.first = 0
	}
}

// Observe returns the sleep before a retry and, when a call was served,
// derives the sleep before the next.
func (c *Ruby) Observe(_ time.Time, o pace.Outcome) (rest time.Duration) {
	n, unit := max(o.Request.Try-c.first, 0), o.Request.Luck.Unit(1)
	switch o.Verdict {
	case pace.Served:
		c.s = c.decreased(c.grown(n), o.Hints.Remaining)
		c.served = true
	case pace.Throttled:
		x := c.grown(n)
		if c.Kind != RubyExponential {
			x += c.minSleep()
		}
		return jittered(x, unit)
	case pace.Failed:
		c.first = o.Request.Try + 1
		return jittered(c.pace(), unit)
	}
	return 0
}

// decreased returns x after a success.
func (c *Ruby) decreased(x float64, remaining pace.Opt[int64]) float64 {
	decrease := c.minSleep()
	switch c.Kind {
	case RubyProportional:
		decrease = x / c.maxLimit()
	case RubyRemaining:
		decrease = 0
		if remaining.OK {
			decrease = x * float64(max(remaining.V, 0)) / c.maxLimit()
		}
	}
	return max(x-decrease, 0)
}
