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
