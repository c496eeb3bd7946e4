package pace

import "time"

// Credit admits requests that were paid for in advance, from a limit that many processes share.
// Its driver asks that limit for the tokens that Wants returns, and adds those granted. If none
// are, the driver says until when, or that all requests may pass for now. The zero Credit lets
// nothing pass.
//
// Unlike other controllers it returns Never while it has no credit and no time to ask again, as
// its driver must ask whenever Wants is above zero.
type Credit struct {
	left  int64
	until time.Time // when the tokens left expire
	block time.Time // no tokens are granted before
	open  bool      // all requests pass
}

// MaxIdleCredit bounds how long tokens are kept that no request waits for: kept longer, they
// would let more start at once than the limit allows.
const MaxIdleCredit = time.Second

var _ Controller = (*Credit)(nil)

// Wants returns how many tokens to ask for at the time now, for waiting requests of that cost;
// zero if enough are left, or if it is too soon to ask again.
func (c *Credit) Wants(now time.Time, waiting int64) int64 {
	if c.open || c.block.After(now) {
		return 0
	}
	if c.until.Before(now) {
		return max(waiting, 0)
	}
	return max(waiting-c.left, 0)
}

// Add adds n tokens that the limit granted.
func (c *Credit) Add(now time.Time, n int64) {
	if c.until.Before(now) {
		c.left = 0
	}
	c.left, c.until = c.left+max(n, 0), now.Add(MaxIdleCredit)
	c.open, c.block = false, time.Time{}
}

// Keep extends the life of the tokens left, as requests wait for more.
func (c *Credit) Keep(now time.Time) {
	if !c.until.Before(now) {
		c.until = now.Add(MaxIdleCredit)
	}
}

// Refuse records that the limit grants nothing for the time d. Tokens left stay good for d and
// [MaxIdleCredit], as requests wait for more.
func (c *Credit) Refuse(now time.Time, d time.Duration) {
	c.open, c.block = false, now.Add(max(d, 0))
	if !c.until.Before(now) {
		c.until = c.block.Add(MaxIdleCredit)
	}
}

// Idle records that no request waits any more: tokens left are good for [MaxIdleCredit] at most.
func (c *Credit) Idle(now time.Time) {
	if most := now.Add(MaxIdleCredit); c.until.After(most) {
		c.until = most
	}
}

// Open lets all requests pass, until the next Add or Refuse.
func (c *Credit) Open() { c.open = true }

// Wait returns zero if enough tokens are left, otherwise the time until more may be granted;
// Never if the driver has to ask.
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

// Start charges the cost of r.
func (c *Credit) Start(now time.Time, r Request) {
	if !c.open {
		c.left = max(c.left-max(r.Cost, 1), 0)
	}
}

// Observe refunds a request that was never sent. One that started while all passed was not
// charged, and is refunded all the same if they no longer do.
func (c *Credit) Observe(now time.Time, o Outcome) (rest time.Duration) {
	if o.Sent.IsZero() && !c.open {
		c.left += max(o.Request.Cost, 1)
	}
	return 0
}
