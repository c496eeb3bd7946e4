package fit

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// Kind is the kind of a rate limiter, as far as a caller can tell kinds apart.
type Kind uint8

const (
	// Unlimited refuses and delays nothing that was tried.
	Unlimited Kind = iota
	// TokenBucket admits Burst at once and Rate a second (GCRA, leaky bucket as
	// a meter).
	TokenBucket
	// FixedWindow admits Count in each window of length Period. Windows begin at
	// a Phase, or with the first request after the last window (FromFirst).
	FixedWindow
	// SlidingLog admits Count in any time of length Period.
	SlidingLog
	// SlidingCounter admits Count in the last Period as estimated from two
	// counters: that of the current window, and that of the one before in
	// proportion to its part of the last Period.
	SlidingCounter
	// Concurrency admits InFlight at a time (a semaphore or bulkhead).
	Concurrency
	// Delay queues: it serves Burst at once and then Rate a second, and the
	// others wait instead of being refused (leaky bucket as a queue).
	Delay

	kinds = iota
)

var kindNames = [kinds]string{
	"unlimited", "token bucket", "fixed window", "sliding log",
	"sliding window counter", "concurrency limit", "delaying queue",
}

// String returns the standard name of the kind in lower case, or "unknown".
func (k Kind) String() string {
	if k >= kinds {
		return "unknown"
	}
	return kindNames[k]
}

// Model is a rate limiter of one Kind with its parameters. A field that the Kind
// does not use is zero. The zero Model is unlimited.
type Model struct {
	Kind Kind
	// Rate is the number of requests a second that are admitted for long: of a
	// TokenBucket and a Delay a parameter, of windows Count/Period.
	Rate float64
	// Burst is the number of requests that a full TokenBucket admits, and a
	// Delay serves, at once.
	Burst float64
	// Count is the number of requests that FixedWindow, SlidingLog and
	// SlidingCounter admit in a Period.
	Count float64
	// Period is the length of the window.
	Period time.Duration
	// Phase is the time from a multiple of Period since 1970, by the caller's
	// clock, to the beginning of a window, from zero to Period: of a FixedWindow
	// that is not FromFirst, and of a SlidingCounter. A clock that is
	// synchronised and windows aligned to it give about zero.
	Phase time.Duration
	// FromFirst reports that a FixedWindow begins with the first request after
	// the last one ended.
	FromFirst bool
	// InFlight is the number of requests that Concurrency admits at a time.
	InFlight int
}

// Limit returns the limit that package limit decides by as m does; ok is false
// for Unlimited, Concurrency and Delay. A rate within 0.3 % of a whole number a
// second, or for slow ones a minute, an hour or a day, becomes that number, and
// others are rounded to five digits. The Phase is lost: package limit aligns windows
// to 1970.
func (m Model) Limit() (l limit.Limit, ok bool) {
	switch m.Kind {
	case TokenBucket:
		l.Count, l.Period = perPeriod(m.Rate)
		l.Burst = whole(m.Burst)
		return l, m.Rate > 0
	case FixedWindow:
		l.Kind = limit.FixedWindow
		if m.FromFirst {
			l.Kind = limit.FirstHitWindow
		}
	case SlidingLog:
		l.Kind = limit.SlidingLog
	case SlidingCounter:
		l.Kind = limit.SlidingWindow
	default:
		return l, false
	}
	l.Count, l.Period = whole(m.Count), m.Period
	return l, m.Period > 0
}

// whole is x rounded, at least 1.
func whole(x float64) int64 { return int64(math.Round(min(max(x, 1), 1<<53))) }

// perPeriod writes a rate a second as a count in the shortest of a second, a
// minute, an hour and a day in which it is at least about one.
func perPeriod(rate float64) (count int64, period time.Duration) {
	for _, period = range []time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour} {
		x := rate * period.Seconds()
		if x < 0.99 {
			continue
		}
		if n := math.Round(x); math.Abs(n-x) < 0.003*x {
			return whole(n), period
		}
		break
	}
	if rate <= 0 || math.IsNaN(rate) {
		return 0, time.Second
	}
	scale := math.Pow(10, math.Ceil(4-math.Log10(rate))) // seconds, for five digits
	scale = min(max(scale, 1), 1e9)
	return whole(rate * scale), time.Duration(scale) * time.Second
}

// String describes m in plain terms: "token bucket, 5/s, burst 10".
func (m Model) String() string {
	switch m.Kind {
	case TokenBucket, Delay:
		return fmt.Sprintf("%v, %s, burst %s", m.Kind, rateText(m.Rate), number(m.Burst))
	case FixedWindow:
		begin := "phase " + short(m.Phase)
		if m.FromFirst {
			begin = "from the first request"
		}
		return fmt.Sprintf("%v, %s in %s, %s", m.Kind, number(m.Count), short(m.Period), begin)
	case SlidingLog, SlidingCounter:
		return fmt.Sprintf("%v, %s in %s", m.Kind, number(m.Count), short(m.Period))
	case Concurrency:
		return fmt.Sprintf("%v, %d in flight", m.Kind, m.InFlight)
	}
	return m.Kind.String()
}

// rateText is a rate in the unit in which it is at least one.
func rateText(rate float64) string {
	switch {
	case rate >= 1:
		return number(rate) + "/s"
	case rate*60 >= 1:
		return number(rate*60) + "/m"
	}
	return number(rate*3600) + "/h"
}

// number is x in three digits, and whole where it is larger.
func number(x float64) string {
	if math.Abs(x) >= 100 {
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	return strconv.FormatFloat(x, 'g', 3, 64)
}

// short is d in three digits.
func short(d time.Duration) string {
	unit := time.Duration(1)
	for unit <= d/1000 { // unit*1000 may be too much
		unit *= 10
	}
	return d.Round(unit).String()
}
