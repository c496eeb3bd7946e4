package throttlesql

import (
	"math"
	"math/bits"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// What SQL is to add and compare is divided here. A length of time is a number
// of whole microseconds and of parts of another, each 1/Count: so long do N
// events of a token bucket take, N × Period/Count, exactly.

// forever is what longer ones count as, as in package limit.
const forever = int64(1) << 60

// worth is how long n events take, n not being negative.
func worth(n, period, count int64) (us, rem int64) {
	hi, lo := bits.Mul64(uint64(n), uint64(period))
	if hi >= uint64(count) {
		return forever, 0
	}
	q, r := bits.Div64(hi, lo, uint64(count))
	if q >= uint64(forever) {
		return forever, 0
	}
	return int64(q), int64(r)
}

// micros is d in microseconds, rounded up.
func micros(d time.Duration) int64 {
	us := int64(d / time.Microsecond)
	if d%time.Microsecond > 0 {
		us++
	}
	return us
}

// size is the amount of n, of which the smallest integer has none.
func size(n int64) int64 {
	if n < 0 {
		return -max(n, -math.MaxInt64)
	}
	return n
}

// double is twice n, or the largest there is.
func double(n int64) int64 {
	if n > math.MaxInt64/2 {
		return math.MaxInt64
	}
	return 2 * n
}

// keepsNothing reports whether there is nothing to remember under l.
func keepsNothing(l limit.Limit) bool { return l.Unlimited() || l.Count <= 0 }
