// Package assign divides a rate limit among the token buckets of several proxies, by what
// they report: the decision of a rate limit quota service. A Supply is what a limit has
// to divide, a Claim what one proxy has of it, Divide the decision, and a Bucket what the
// proxy is assigned. All are values, and the time is an argument.
package assign

import (
	"math"
	"math/bits"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// Rate is a number of events a second, in billionths.
type Rate int64

const (
	// PerSecond is one event a second.
	PerSecond Rate = 1_000_000_000
	// MaxRate is the largest Rate, nine million a second; a larger one counts as that. A
	// thousand of them can be added.
	MaxRate = 9_000_000 * PerSecond
)

// RateOf is n events in each period, rounded down. Below zero, or in no time, it is zero.
func RateOf(n int64, period time.Duration) Rate {
	if n <= 0 || period <= 0 {
		return 0
	}
	high, low := bits.Mul64(uint64(n), uint64(time.Second)*uint64(PerSecond))
	if high >= uint64(period) {
		return MaxRate
	}
	r, _ := bits.Div64(high, low, uint64(period))
	return Rate(min(r, uint64(MaxRate)))
}

// Times is the rate of events that count n each; n is above zero.
func (r Rate) Times(n int64) Rate {
	if r > 0 && n > int64(MaxRate/r) {
		return MaxRate
	}
	return r * Rate(n)
}

// in is how many events of the rate come in d, rounded down.
func (r Rate) in(d time.Duration) int64 {
	if r <= 0 || d <= 0 {
		return 0
	}
	high, low := bits.Mul64(uint64(r), uint64(d))
	if second := uint64(time.Second) * uint64(PerSecond); high < second {
		n, _ := bits.Div64(high, low, second)
		return int64(min(n, math.MaxInt64))
	}
	return math.MaxInt64
}

// Supply is the rate that a limit has to divide at a time, and the burst.
type Supply struct {
	// Rate is that of all proxies together.
	Rate Rate
	// Burst is how many events may come at once, all proxies together.
	Burst int64
	// Most is the largest number that the limit could ever allow at once.
	Most int64
}

const (
	// spend is the time in which half of what a limit has left is assigned as a rate. It is
	// longer than an assignment lives, so that no more is used than is left.
	spend = 20 * time.Second
	// long is the shortest window whose count is looked at: a shorter one passes between
	// two reports.
	long = time.Minute
)

// Rated is the Supply of a limit of which nothing is known but what it states.
func Rated(l limit.Limit) Supply {
	return Supply{Rate: RateOf(l.Count, l.Period), Most: l.Max()}
}

// SupplyOf is the Supply of a limit of which d says what is left.
//
// A token bucket has its rate, and half of what is left at once; the other half it
// spends over the next twenty seconds. What is owed lowers the rate by as much as would
// repay it in that time. A rate within a fifth or a quarter of that of the limit counts as that of the
// limit: a proxy whose bucket is replaced has a full one.
//
// A window of a minute or more has what is left, half of it at once, and no more. A shorter
// one has its count in each period, evenly.
func SupplyOf(l limit.Limit, d limit.Decision) Supply {
	s := Rated(l)
	left := max(d.Remaining, 0)
	switch bucket := l.Kind == limit.TokenBucket; {
	case l.Count <= 0 || !bucket && l.Period < long:
		return s
	case !bucket:
		s.Rate, s.Burst = RateOf(left, 2*spend), left-left/2
		return s
	case left == 0:
		owed := max(s.Rate.in(d.ResetAfter)-s.Most, 0)
		s.Rate = near(max(s.Rate-RateOf(owed, spend), 0), s.Rate)
		return s
	}
	s.Burst = left - left/2
	s.Rate = near(min(s.Rate+RateOf(left, 2*spend), MaxRate), s.Rate)
	return s
}

// near is r, or the rate of the limit where r is about that.
func near(r, of Rate) Rate {
	if r >= of-of/5 && r <= of+of/4 {
		return of
	}
	return r
}

// Part is the part of a Supply that one of several processes has to divide: of a limit that is used
// up a part as large as its part of the demand; of another what it demands, and half of what
// nobody demands. own and others are the demands of its proxies and of those of others.
func (s Supply) Part(own, others Rate) Supply {
	own, others = min(max(own, 0), MaxRate), min(max(others, 0), MaxRate)
	if others == 0 || s.Rate == 0 {
		return s
	}
	part, all := s, own+others
	if all <= s.Rate {
		part.Rate = own + (s.Rate-all)/2
	} else {
		part.Rate = scale(s.Rate, own, all)
	}
	part.Burst = int64(scale(Rate(s.Burst), part.Rate, s.Rate))
	return part
}

// Demand is how many of n events count as a demand in one report: no more than the limit
// allows in the time between two, so that a flood at one process is not all of the demand.
func (s Supply) Demand(n int64) int64 {
	return min(n, max(s.Rate.in(5*time.Second), s.Most))
}

// scale is r × part / whole, rounded down; part is at most whole.
func scale(r, part, whole Rate) Rate {
	high, low := bits.Mul64(uint64(r), uint64(part))
	n, _ := bits.Div64(high, low, uint64(whole))
	return Rate(n)
}
