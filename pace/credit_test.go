package pace_test

import (
	"testing"
	"time"

	"github.com/throttle-go/throttle/pace"
)

// What is bought is kept while somebody waits for more, and no longer than Good
// where nobody does.
func TestCreditIsGoodForAWhile(t *testing.T) {
	now := time.Unix(1000, 0)
	one := pace.Request{Since: now, Cost: 1}
	var c pace.Credit
	if c.Wait(now, one) != pace.Never || c.Wants(now, 3) != 3 {
		t.Errorf("at first: Wait %v, Wants %d; want Never and 3", c.Wait(now, one), c.Wants(now, 3))
	}
	c.Add(now, 1)
	if got := c.Wait(now, one); got != 0 {
		t.Errorf("with credit: Wait %v, want 0s", got)
	}
	if later := now.Add(pace.MaxIdleCredit + 1); c.Wait(later, one) != pace.Never || c.Wants(later, 3) != 3 {
		t.Errorf("after Good: Wait %v, Wants %d; want Never and 3", c.Wait(later, one), c.Wants(later, 3))
	}
	c.Refuse(now, time.Minute)
	now = now.Add(time.Minute)
	if got := c.Wants(now, 3); got != 2 {
		t.Errorf("a minute after a refusal: Wants %d, want 2 beside the 1 that is kept", got)
	}
	c.Refuse(now, time.Minute)
	c.Idle(now)
	if later := now.Add(pace.MaxIdleCredit + 1); c.Wait(later, one) == 0 || c.Wants(later.Add(time.Minute), 3) != 3 {
		t.Errorf("when nobody waits for more: Wait %v, Wants %d; want above 0, and 3", c.Wait(later, one), c.Wants(later.Add(time.Minute), 3))
	}
}

// What has expired does not come back with what is bought next, and what was not
// charged as all passed is not given back while they do.
func TestCreditDoesNotComeBack(t *testing.T) {
	now := time.Unix(1000, 0)
	one := pace.Request{Since: now, Cost: 1}
	start := func(c *pace.Credit, now time.Time) (n int) {
		for c.Wait(now, one) == 0 && n < 100 {
			c.Start(now, one)
			n++
		}
		return n
	}
	var expired pace.Credit
	expired.Add(now, 5)
	later := now.Add(pace.MaxIdleCredit + 1)
	expired.Add(later, 2)
	if n := start(&expired, later); n != 2 {
		t.Errorf("of 5 that have expired and 2 new ones %d start, want 2", n)
	}
	var open pace.Credit
	open.Add(now, 1)
	open.Open()
	for range 5 {
		open.Start(now, one)
		open.Observe(now, pace.Outcome{Request: one}) // it was never sent
	}
	open.Add(now, 2)
	if n := start(&open, now); n != 3 {
		t.Errorf("after 5 that were neither charged nor sent, %d of 3 start", n)
	}
	open.Start(now, one) // as one that started while all passed
	open.Observe(now, pace.Outcome{Request: one})
	if n := start(&open, now); n != 1 {
		t.Errorf("after one that was never sent %d start, want it given back", n)
	}
}
