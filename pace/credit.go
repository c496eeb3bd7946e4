package pace

import "time"

// Credit lets start what is paid for. Its driver pays, where a limit is kept for
// many processes: he asks there for as much as is wanted here, and hands over
// what he gets. Where he can get nothing, he says until when, or that all may
// pass for now. A Credit of zero lets nothing pass.
//
// Other than other controllers it waits for its driver without end where it has
// no credit and was told of no time: he must ask whenever Wants says so.
type Credit struct {
	left  int64
	until time.Time // credit is good
	block time.Time // no more before
	open  bool      // all may pass
}

// Good is how long credit may be kept that nobody waits for: who keeps it longer
// lets more start at once than the limit allows, by what was saved up.
const MaxIdleCredit = time.Second

var _ Controller = (*Credit)(nil)

// Wants is how much to buy at the time now, so that waiting can start; zero if
// there is enough, or if it is too soon to ask again.
func (c *Credit) Wants(now time.Time, waiting int64) int64 {
	if c.open || c.block.After(now) {
		return 0
	}
	if c.until.Before(now) {
		return max(waiting, 0)
	}
	return max(waiting-c.left, 0)
}

// Add hands over n.
func (c *Credit) Add(now time.Time, n int64) {
	if c.until.Before(now) {
		c.left = 0
	}
	c.left, c.until = c.left+max(n, 0), now.Add(MaxIdleCredit)
	c.open, c.block = false, time.Time{}
}

// Keep makes what is left good for longer, as there are those who wait for more.
func (c *Credit) Keep(now time.Time) {
	if !c.until.Before(now) {
		c.until = now.Add(MaxIdleCredit)
	}
}

// Refuse says that there is nothing to be had for a while. What is left stays
// good for so long and [MaxIdleCredit], as there are those who wait for more.
func (c *Credit) Refuse(now time.Time, d time.Duration) {
	c.open, c.block = false, now.Add(max(d, 0))
	if !c.until.Before(now) {
		c.until = c.block.Add(MaxIdleCredit)
	}
}

// Idle says that nobody waits any more: what is left is good for [MaxIdleCredit] at most.
func (c *Credit) Idle(now time.Time) {
	if most := now.Add(MaxIdleCredit); c.until.After(most) {
		c.until = most
	}
}

// Open lets all pass, until the next Add or Refuse.
func (c *Credit) Open() { c.open = true }

// Wait is zero where credit is left, and otherwise until more may be had; Never
// where that is for the driver to find out.
func (c *Credit) Wait(now time.Time, r Request) time.Duration {
	cost := max(r.Cost, 1)
	switch {
	case c.open:
		return 0
	case r.Place <= 1 && c.left >= cost && !c.until.Before(now):
		return 0
	case c.block.After(now):
		return c.block.Sub(now)
	}
	return Never
}

// Start spends.
func (c *Credit) Start(now time.Time, r Request) {
	if !c.open {
		c.left = max(c.left-max(r.Cost, 1), 0)
	}
}

// Observe gives back what was not spent after all.
func (c *Credit) Observe(now time.Time, o Outcome) (rest time.Duration) {
	if o.Sent.IsZero() && !c.open {
		c.left += max(o.Request.Cost, 1)
	}
	return 0
}
