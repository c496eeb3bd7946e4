package throttleredis

import (
	"fmt"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// prepared is a limit with what every ask under it would otherwise work out.
type prepared struct {
	limit       limit.Limit
	fingerprint string
	single      any // the encoded ask for one event, sent alone; nil: it depends on the time
}

// limits are those used lately. The zero value is ready.
type limits [64]atomic.Pointer[prepared]

// get returns the limit of a prepared, or an error if Lua cannot count it.
func (x *limits) get(a *limit.Ask) (*prepared, error) {
	l := &a.Limit
	h := uint64(l.Count) ^ uint64(l.Period)<<20 ^ uint64(l.Burst)<<40 ^ uint64(l.Kind)<<60
	spot := &x[h*0x9e3779b97f4a7c15>>58] // 2^64 over the golden ratio spreads over the high bits
	if p := spot.Load(); p != nil && p.limit == *l {
		return p, nil
	}
	if problem := checkLimit(l); problem != "" {
		return nil, fmt.Errorf("throttleredis: limit of key %.100q: %s", a.Key, problem)
	}
	p := &prepared{limit: *l, fingerprint: fingerprint(l)}
	if l.Kind != limit.CalendarWindow {
		p.single = encode(&limit.Ask{Limit: *l, N: 1}, p.fingerprint, 1, 0, nil, time.Time{})
	}
	spot.Store(p)
	return p, nil
}

const (
	// Numbers of Lua are exact below 2^53; the largest sum there is of four
	// Counts, or of now and twice the time that a bucket takes to refill.
	maxCount = 1 << 50
	maxSpan  = 1 << 51 // microseconds, 71 years
	beyond   = 1 << 53 // a cost that fits in no bucket
)

// checkLimit returns what is wrong with a limit that Lua could not count
// exactly, or "".
func checkLimit(l *limit.Limit) (problem string) {
	switch {
	case l.Max() > maxCount || l.Kind != limit.SlidingLog && l.Count > maxCount:
		return "Count and Burst must be at most 2^50; the zero Limit allows everything"
	case micros(l) > maxSpan:
		return "Period must be at most 71 years"
	case isBucket(l.Kind) && capacity(l).us > maxSpan:
		return "a full Burst must refill within 71 years"
	}
	return ""
}

// remembers reports whether anything is kept under l.
func remembers(l *limit.Limit) bool { return l.Period > 0 && l.Count > 0 }

// isBucket reports whether k is a token bucket, as every Kind is that has no
// name.
func isBucket(k limit.Kind) bool { return k == limit.TokenBucket || k > limit.CalendarWindow }

// isList reports whether k keeps more than a State.
func isList(k limit.Kind) bool { return k == limit.SlidingLog || k == limit.SlidingSlots }

// micros returns the Period in microseconds, rounded up as in package limit.
func micros(l *limit.Limit) int64 {
	us := int64(l.Period / time.Microsecond)
	if l.Period%time.Microsecond > 0 {
		us++
	}
	return us
}

// cost is the time in which a token bucket refills n events, n × Period/Count:
// whole microseconds and Count-ths of another. If no bucket is that large, us is
// beyond.
type cost struct{ us, rem int64 }

// costOf returns the cost of n, which is not negative.
func costOf(l *limit.Limit, n int64) cost {
	hi, lo := bits.Mul64(uint64(n), uint64(micros(l)))
	if hi >= uint64(l.Count) {
		return cost{us: beyond}
	}
	us, rem := bits.Div64(hi, lo, uint64(l.Count))
	if us >= beyond {
		return cost{us: beyond}
	}
	return cost{int64(us), int64(rem)}
}

// capacity returns the cost of all that a bucket holds.
func capacity(l *limit.Limit) cost { return costOf(l, l.Max()) }

// slotsOf returns the width of a slot of a SlidingSlots, in microseconds, and
// their number, as package limit has them.
func slotsOf(l *limit.Limit) (width, n int64) {
	n = 10
	if l.Slots > 0 {
		n = min(int64(l.Slots), limit.MaxSlots)
	}
	width = (micros(l)-1)/n + 1
	return width, (micros(l)-1)/width + 1
}
