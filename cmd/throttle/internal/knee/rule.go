package knee

import (
	"math"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// Rule is a recommended limit.
type Rule struct {
	// Limit is a token bucket below the knee. It is zero, without a limit, if
	// none can be recommended.
	Limit limit.Limit
	// Concurrency is the concurrency limit (bulkhead) by Little's law. If zero,
	// none can be recommended.
	Concurrency int
}

// DefaultHeadRoom is the share of the knee that a Rule leaves unused. Close to
// the knee a queue is as long as the objective allows, so that any pause, burst
// or slower deployment breaks it, and a backlog drains as slowly as it grew: at
// 0.2 below, one of a second is gone in five.
const DefaultHeadRoom = 0.2

// burstShare is how much of the time that the objective leaves a burst may use
// up. The rest is for the requests that it meets.
const burstShare = 0.5

// Rule returns the limit to set, a share of headRoom below the knee; if zero,
// DefaultHeadRoom, and at most 0.99.
//
// The burst is a queue that the service works off within half of what the
// objective leaves of its bound on latency. The concurrency limit is so many
// requests in flight that the service, were they always as many, would still
// answer in time: by Little's law the rate of the rule times what the bound leaves
// beside the 99th percentile of latency at low load, and no less than the mean at
// the knee; without a bound, twice that mean.
func (r Result) Rule(headRoom float64) Rule {
	if headRoom == 0 || !(headRoom > 0) {
		headRoom = DefaultHeadRoom
	}
	headRoom = min(headRoom, 0.99)
	if r.Knee.At <= 0 {
		return Rule{}
	}
	level := r.Knee.At * (1 - headRoom)
	rate := level
	if r.Concurrency {
		rate = r.at(level, func(p Point) float64 { return p.Served })
	}
	rule := Rule{Limit: perTime(rate), Concurrency: int(math.Ceil(2 * r.InFlight))}
	if r.Objective.Latency > 0 {
		queue := r.Objective.Latency - r.idle().P99
		rule.Concurrency = max(int(rate*queue.Seconds()), int(math.Ceil(r.InFlight)))
	}
	if r.Concurrency {
		rule.Concurrency = int(level)
	}
	rule.Concurrency = max(rule.Concurrency, 1)
	if !rule.Limit.Unlimited() {
		rule.Limit.Burst = max(1, r.burst(level, rate))
	}
	return rule
}

// burst is how many requests at once the service works off in time.
func (r Result) burst(level, rate float64) int64 {
	left := 0.2 // seconds, without a bound
	if r.Objective.Latency > 0 {
		p99 := r.at(level, func(p Point) float64 { return p.P99.Seconds() })
		left = r.Objective.Latency.Seconds() - p99
	}
	return int64(max(0, burstShare*left*max(rate, r.Capacity)))
}

// perTime is a limit of a rate a second, rounded down by at most a tenth.
func perTime(rate float64) limit.Limit {
	for _, period := range []time.Duration{time.Second, 10 * time.Second, time.Minute, time.Hour} {
		if n := rate * period.Seconds(); n >= 100 || period == time.Hour && n >= 1 {
			return limit.Limit{Count: int64(n), Period: period}
		}
	}
	return limit.Limit{}
}

// at is a figure of the curve at a level, interpolated between its neighbours.
// Outside the curve it is that of its first or last point.
func (r Result) at(level float64, of func(Point) float64) float64 {
	for i, p := range r.Curve {
		switch {
		case p.Level < level:
		case i == 0 || p.Level == level:
			return of(p)
		default:
			before := r.Curve[i-1]
			share := (level - before.Level) / (p.Level - before.Level)
			return of(before) + share*(of(p)-of(before))
		}
	}
	if n := len(r.Curve); n > 0 {
		return of(r.Curve[n-1])
	}
	return 0
}
