package peers

import (
	"cmp"
	"math"
	"time"

	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/pace/internal/schedule"
)

// AWS is the adaptive retry mode of the AWS SDK for Go v2 (aws/retry:
// AdaptiveMode), step for step: a token bucket whose rate follows the cubic of
// CUBIC TCP (RFC 8312) with windows in seconds.
//
//	measured = 0.8 × rate of answers since the last half second + 0.2 × measured
//	throttled: max = min(measured, rate),  rate = 0.7 × max
//	any other: rate = 0.4 × (t - window)³ + max,  window = ∛(max × 0.3 / 0.4),
//	           t seconds since the last throttled answer
//	both:      rate at most 2 × measured; the bucket fills at rate, at least
//	           0.5 a second, and holds rate, at least 1
//
// Nothing is paced until the first throttled answer. Rests are those of the
// SDK's default backoff: uniform up to 2, 4, 8, 16 s, then 20 s flat.
//
// A call is given up after Attempts, and when the retry quota is used up. A
// retry, of a throttled or a failed try, takes 5 tokens of the quota and
// returns them if it is served. Nothing else returns any: that a call served at
// the first try returns one holds in the SDK's standard mode only
// (github.com/aws/aws-sdk-go-v2/issues/3550). So after a hundred retries in
// vain a client with the defaults never retries again. The SDK takes 10 tokens
// where a timeout is retried; here it is a failure like any other.
//
// One caller starts at the same instants as with the SDK, to a microsecond.
// Several start in turn here; the SDK's are in no order, and one that sleeps
// does not notice that the rate rose. But the caller that got the answer asks
// again at once and takes the token, so that one start in a thousand is up to
// some milliseconds later there.
//
// A zero AWS is ready; it is like the SDK's made at its first start. One is
// meant for all callers of one limit in a process. It is as in v1.47.6 with
// AWS_NEW_RETRIES_2026 unset.
type AWS struct {
	// Attempts bounds the tries of a call. If zero, 3; below zero, there is no
	// bound.
	Attempts int
	// Quota is the number of retry tokens at first, and at most. If zero, 500;
	// below zero, retries need none.
	Quota int

	spent   int // of the quota
	began   bool
	enabled bool // throttled at least once

	fill     float64   // tokens a second
	tokens   float64   // at filled
	most     float64   // the bucket holds
	filled   time.Time // zero: never
	measured float64   // answers a second
	answers  float64   // since bucket
	bucket   float64   // the half second that answers are counted in, Unix seconds
	highest  float64   // rate when last throttled
	hit      time.Time // when last throttled
}

const (
	awsSmooth = 0.8
	awsBeta   = 0.7
	awsScale  = 0.4
	awsFill   = 0.5 // tokens a second at least
	awsBucket = 1.0 // the bucket holds at least

	awsAttempts = 3
	awsQuota    = 500
	awsRetry    = 5 // retry tokens that a retry takes
)

var _ pace.Controller = (*AWS)(nil)

// Wait returns the time until the bucket holds a token, or r.Place of them.
func (a *AWS) Wait(now time.Time, r pace.Request) time.Duration {
	if !a.enabled {
		return 0
	}
	if r.Place > 1 {
		missing := float64(r.Place) - a.level(now)
		return schedule.Nanoseconds(math.Ceil(max(missing, 0) / a.fill * 1e9))
	}
	missing := schedule.Nanoseconds(math.Ceil((1 - a.tokens) / a.fill * 1e9))
	return schedule.Until(a.filled.Add(missing), now)
}

// level returns what the bucket holds at now.
func (a *AWS) level(now time.Time) float64 {
	return min(a.tokens+now.Sub(a.filled).Seconds()*a.fill, a.most)
}

func (a *AWS) refill(now time.Time) {
	if !a.filled.IsZero() {
		a.tokens = a.level(now)
	}
	a.filled = now
}

// Start takes a token.
func (a *AWS) Start(now time.Time, _ pace.Request) {
	if !a.began {
		a.began, a.hit, a.bucket = true, now, math.Floor(unixSeconds(now))
	}
	if a.enabled {
		a.refill(now)
		a.tokens--
	}
}

// Observe adjusts the rate. Like the SDK it counts whatever is not throttled,
// failures included, as a success.
func (a *AWS) Observe(now time.Time, o pace.Outcome) (rest time.Duration) {
	if o.Sent.IsZero() { // never left: give the token back
		if a.enabled {
			a.tokens++
			a.refill(now)
		}
		return 0
	}
	a.measure(now)
	var rate float64
	if o.Verdict == pace.Throttled {
		rate = a.throttled(now)
	} else {
		window := math.Cbrt(a.highest * (1 - awsBeta) / awsScale)
		t := now.Sub(a.hit).Seconds() - window
		rate = awsScale*t*t*t + a.highest
	}
	a.refill(now)
	rate = min(rate, 2*a.measured)
	a.fill = max(rate, awsFill)
	a.most = max(rate, awsBucket)
	a.tokens = min(a.tokens, a.most)
	switch {
	case o.Verdict == pace.Served && o.Request.Try > 0:
		a.spent = max(a.spent-awsRetry, 0)
	case o.Verdict == pace.Throttled || o.Verdict == pace.Failed:
		return a.retry(o)
	}
	return 0
}

// retry takes retry tokens and returns the rest, or Never if the call is given
// up.
func (a *AWS) retry(o pace.Outcome) (rest time.Duration) {
	attempts, quota := cmp.Or(a.Attempts, awsAttempts), cmp.Or(a.Quota, awsQuota)
	switch {
	case o.Final, attempts > 0 && o.Request.Try >= attempts-1:
		return pace.Never
	case quota < 0:
		return awsRest(o.Request)
	case quota-a.spent < awsRetry:
		return pace.Never
	}
	a.spent += awsRetry
	return awsRest(o.Request)
}

// measure counts an answer. Rates are taken at the turn of half seconds.
func (a *AWS) measure(now time.Time) {
	bucket := math.Floor(unixSeconds(now)*2) / 2
	a.answers++
	if bucket > a.bucket {
		rate := a.answers / (bucket - a.bucket)
		a.measured = rate*awsSmooth + a.measured*(1-awsSmooth)
		a.answers, a.bucket = 0, bucket
	}
}

// throttled records the rate that was too high and returns the next.
func (a *AWS) throttled(now time.Time) float64 {
	a.highest = a.measured
	if a.enabled {
		a.highest = min(a.measured, a.fill)
	}
	a.hit, a.enabled = now, true
	return a.highest * awsBeta
}

// unixSeconds rounds as the SDK does.
func unixSeconds(t time.Time) float64 { return float64(t.UnixNano()) / 1e9 }

// awsRest is the SDK's ExponentialJitterBackoff of at most 20 s.
func awsRest(r pace.Request) time.Duration {
	const longest = 20 * time.Second
	if r.Try >= 4 { // log2 of 20, rounded down
		return longest
	}
	return schedule.Nanoseconds(r.Luck.Unit(0) * float64(int(2)<<max(r.Try, 0)) * 1e9)
}
