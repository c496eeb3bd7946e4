package peers

import (
	"math"
	"time"

	"github.com/throttle-go/throttle/pace"
)

// Pause is how long a caller waits after a refusal, by the server or by its own
// limiter, where the original leaves that to the caller.
const Pause = time.Second

// Cenkalti is ExponentialBackOff of github.com/cenkalti/backoff/v5 with its
// defaults: 0.5 s, 1.5 times as long each time up to 60 s, varied by ±50 %.
// Retry of the original gives up after 15 minutes; this one never does. It
// ignores Retry-After, as the original does unless the caller makes a
// RetryAfterError of it.
type Cenkalti struct {
	// Exact leaves out the randomness.
	Exact bool
}

var _ pace.Controller = Cenkalti{}

// Wait returns 0.
func (Cenkalti) Wait(time.Time, pace.Request) time.Duration { return 0 }

// Start does nothing.
func (Cenkalti) Start(time.Time, pace.Request) {}

// Observe returns the rest after a throttled or failed try.
func (c Cenkalti) Observe(_ time.Time, o pace.Outcome) (rest time.Duration) {
	if !refused(o) {
		return 0
	}
	const factor, longest = 1.5, time.Minute
	v := 500 * time.Millisecond
	for range o.Request.Try {
		if float64(v) >= float64(longest)/factor {
			v = longest
			break
		}
		v = time.Duration(float64(v) * factor)
	}
	if c.Exact {
		return v
	}
	least, most := float64(v)*0.5, float64(v)*1.5
	return time.Duration(least + o.Request.Luck.Unit(0)*(most-least+1))
}

// refused reports whether the caller of the original would see an error.
func refused(o pace.Outcome) bool {
	return o.Verdict == pace.Throttled || o.Verdict == pace.Failed
}

// Retryable is DefaultBackoff of github.com/hashicorp/go-retryablehttp with the
// defaults of its Client: 1 s doubling up to 30 s, without randomness, or
// exactly the Retry-After of the answer. The Client gives up after four
// retries; this one never does. Retry-After: 0 counts as none.
type Retryable struct{}

var _ pace.Controller = Retryable{}

// Wait returns 0.
func (Retryable) Wait(time.Time, pace.Request) time.Duration { return 0 }

// Start does nothing.
func (Retryable) Start(time.Time, pace.Request) {}

// Observe returns the rest after a throttled or failed try.
func (Retryable) Observe(_ time.Time, o pace.Outcome) (rest time.Duration) {
	switch {
	case !refused(o):
		return 0
	case o.After > 0:
		return o.After
	}
	return time.Duration(min(math.Pow(2, float64(o.Request.Try)), 30) * float64(time.Second))
}
