package admit

import (
	"math"
	"math/bits"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// plan is what a decision of the Store foretells. The zero plan is none.
type plan struct {
	at time.Time // by the clock of this process
	d  limit.Decision
}

func (p plan) known() bool { return !p.at.IsZero() }

// after reports whether p was decided after old: answers may overtake one another
// on the way from the Store.
func (p plan) after(old plan) bool {
	if !old.known() || p.d.At.IsZero() { // a Store that does not say when
		return true
	}
	return p.d.At.After(old.d.At) || p.d.At.Equal(old.d.At) && p.d.Remaining <= old.d.Remaining
}

// wait returns how long after now n tokens may have passed, including those
// ahead.
func (p plan) wait(l limit.Limit, now time.Time, n int64) time.Duration {
	wait := foresee(l, p.d, n)
	if wait == limit.Never {
		return wait
	}
	return max(0, wait-now.Sub(p.at))
}

// foresee returns how long after the decision d n more tokens may have passed
// one by one, if nothing else takes any: exact to a microsecond for a token
// bucket, and for a fixed window in use if each n is 1; otherwise it is too
// early.
//
//	token bucket: the debt of d and the cost of n come down to the room of the
//	bucket: ResetAfter + (n - Max) × Period/Count
//	fixed window: what does not fit this window fills the next ones
func foresee(l limit.Limit, d limit.Decision, n int64) time.Duration {
	switch {
	case l.Unlimited():
		return 0
	case l.Count <= 0:
		return limit.Never
	case l.Kind == limit.TokenBucket && n > d.Max:
		return add(d.ResetAfter, muldiv(n-d.Max, l.Period, l.Count))
	case l.Kind == limit.TokenBucket:
		return max(0, d.ResetAfter-muldiv(d.Max-n, l.Period, l.Count))
	case l.Kind == limit.FixedWindow && n > d.Remaining:
		windows := (n - d.Remaining - 1) / l.Count
		return add(d.ResetAfter, muldiv(windows, l.Period, 1))
	case l.Kind == limit.FixedWindow: // it fits, though d may have refused more
		return 0
	case d.RetryAfter == limit.Never: // of more than passes at once, which says nothing of less
		return 0
	}
	return d.RetryAfter // zero if it was granted
}

// foreseeable reports whether foresee is never too late, whatever n d was
// about.
func foreseeable(l limit.Limit) bool {
	return l.Kind == limit.TokenBucket || l.Kind == limit.FixedWindow
}

// muldiv returns n × d / by, rounded down, limit.Never if that is too large.
// None of them is negative, and by is not zero.
func muldiv(n int64, d time.Duration, by int64) time.Duration {
	high, low := bits.Mul64(uint64(n), uint64(d))
	if high >= uint64(by) {
		return limit.Never
	}
	quotient, _ := bits.Div64(high, low, uint64(by))
	return time.Duration(min(quotient, math.MaxInt64))
}

// add returns a + b, or limit.Never if that is too large. Neither is negative.
func add(a, b time.Duration) time.Duration {
	if a > limit.Never-b {
		return limit.Never
	}
	return a + b
}
