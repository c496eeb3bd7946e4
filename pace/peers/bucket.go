package peers

import (
	"math"
	"sort"
	"time"

	"github.com/throttle-go/throttle/pace"
)

// Rate is the refill of a Bucket from a time on.
type Rate struct {
	// From is when it begins.
	From time.Time
	// Second is the number of tokens refilled in a second.
	Second float64
}

// Bucket paces by a token bucket with known rates. With one Rate, from the zero
// time on, it is golang.org/x/time/rate.Limiter; with several it knows the
// future. Refused requests take their turn again.
type Bucket struct {
	// Rates are in order of time. Before the first there is no refill. The Bucket
	// does not change them, so they may be shared.
	Rates []Rate
	// Level is the number of tokens at Since. It may be below zero.
	Level float64
	// Since is the time of Level.
	Since time.Time
	// Burst is the most tokens that the bucket holds, at least 1.
	Burst float64
}

var _ pace.Controller = (*Bucket)(nil)

// span is a stretch of time with one rate.
type span struct {
	from, to time.Time
	rate     float64
}

// spans calls each with the spans from t on, until it returns false. The last has
// no end.
func (b *Bucket) spans(t time.Time, each func(s span, last bool) (more bool)) {
	first := sort.Search(len(b.Rates), func(i int) bool { return b.Rates[i].From.After(t) })
	for i := max(first-1, 0); i < len(b.Rates); i++ {
		s := span{from: b.Rates[i].From, rate: b.Rates[i].Second}
		if t.After(s.from) {
			s.from = t
		}
		last := i == len(b.Rates)-1
		if !last {
			s.to = b.Rates[i+1].From
		}
		if !each(s, last) {
			return
		}
	}
}

// Wait returns the time until there is a token, or the r.Place-th.
func (b *Bucket) Wait(now time.Time, r pace.Request) time.Duration {
	const long = 100 * 365 * 24 * time.Hour
	since, need := b.Since, 1-min(b.Level, b.Burst)
	if r.Place > 0 {
		since, need = now, float64(r.Place)-b.level(now)
	}
	if need <= 0 {
		return 0
	}
	wait := time.Duration(long)
	b.spans(since, func(s span, last bool) bool {
		takes := math.Ceil(need / s.rate * 1e9) // +Inf without refill
		if last || takes <= float64(s.to.Sub(s.from)) {
			wait = min(s.from.Add(time.Duration(min(takes, float64(long)))).Sub(now), long)
			return false
		}
		need -= s.rate * s.to.Sub(s.from).Seconds()
		return true
	})
	return wait
}

// level returns the tokens at now.
func (b *Bucket) level(now time.Time) float64 {
	level := min(b.Level, b.Burst)
	b.spans(b.Since, func(s span, last bool) bool {
		if last || s.to.After(now) {
			s.to = now
		}
		if s.to.After(s.from) {
			level = min(level+s.rate*s.to.Sub(s.from).Seconds(), b.Burst)
		}
		return s.to.Before(now)
	})
	return level
}

// Start takes a token.
func (b *Bucket) Start(now time.Time, _ pace.Request) {
	b.Level, b.Since = b.level(now)-1, now
}

// Observe returns a token that was not used.
func (b *Bucket) Observe(_ time.Time, o pace.Outcome) (rest time.Duration) {
	if o.Sent.IsZero() {
		b.Level++
	}
	return 0
}
