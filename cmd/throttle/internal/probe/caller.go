package probe

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/throttle-go/throttle/fit"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/pace"
)

// rule is the limit as rules files and 'throttle take' write it, rounded
// within the intervals; empty if there is none like it, or nothing was served.
func (f *findings) rule() string {
	l, ok := f.asLimit()
	if !ok || f.limiter().Kind == fit.Delay || f.barred() {
		return ""
	}
	return l.String()
}

// shortest is the same rate with the smallest count of whole seconds: 49/10s.
func shortest(l limit.Limit) limit.Limit {
	if l.Kind != limit.TokenBucket || l.Count <= 0 || l.Period < time.Second || l.Period%time.Second != 0 {
		return l
	}
	a, b := l.Count, int64(l.Period/time.Second)
	for b != 0 {
		a, b = b, a%b
	}
	l.Burst = l.Max()
	l.Count, l.Period = l.Count/a, l.Period/time.Duration(a)
	return l
}

// code is the line of Go for a caller.
func (f *findings) code() string {
	c := f.limiter()
	switch {
	case !f.Decided || c.Kind == fit.Unlimited:
		return "new(throttle.Throttle) // learns the rate: pace.Adaptive"
	case f.Shared:
		return "throttle.Throttle{Control: new(pace.Adaptive)} // learns what others leave"
	case c.Kind == fit.Concurrency:
		return fmt.Sprintf("throttle.Throttle{MaxInFlight: %d, Control: new(pace.Fixed)}", max(int(floor(c.InFlightIn.Low, float64(c.InFlight))), 1))
	}
	fixed := f.fixed()
	burst := ""
	if fixed.Burst > 1 {
		burst = fmt.Sprintf(", Burst: %d", fixed.Burst)
	}
	return fmt.Sprintf("throttle.Throttle{Control: &pace.Fixed{Rate: %s%s}}", strconv.FormatFloat(fixed.Rate, 'g', 4, 64), burst)
}

// fixed paces below the limit even if each parameter is at the worse end of its
// interval, and requests come closer together than they were sent by as much as
// latency differs.
func (f *findings) fixed() pace.Fixed {
	c, jitter := f.limiter(), f.jitter().Seconds()
	rate := floor(c.RateIn.Low, c.Rate)
	if c.Kind == fit.TokenBucket || c.Kind == fit.Delay {
		burst := int(math.Floor(floor(c.BurstIn.Low, c.Burst) + 0.01))
		switch {
		case burst < 2 && c.Kind == fit.Delay: // what comes too early waits
			return pace.Fixed{Rate: down(rate)}
		case burst < 2:
			return pace.Fixed{Rate: 1 / (1/rate + jitter)}
		}
		// One fewer: jitter may bring one more than the burst at once.
		return pace.Fixed{Rate: down(rate), Burst: burst - 1}
	}
	count, period := floor(c.CountIn.Low, c.Count), max(c.PeriodIn.High, c.Period.Seconds())
	if c.Kind == fit.SlidingCounter && count > 1 {
		count-- // its estimate of an even rate is up to one too high
	}
	// Evenly spaced by period/count, no window that is a little shorter holds
	// more than count.
	return pace.Fixed{Rate: down(max(math.Floor(count+0.01), 1) / (period + jitter))}
}

// jitter is by how much latency differs: all of it, in a log that does not say how long
// each answer took.
func (f *findings) jitter() time.Duration {
	if f.latency == f.least {
		return f.latency
	}
	return f.latency - f.least
}

// floor is the lower end of an interval, if there is one.
func floor(low, value float64) float64 {
	if low > 0 && low < value {
		return low
	}
	return value
}

// down rounds down to four digits.
func down(x float64) float64 {
	if x <= 0 {
		return x
	}
	unit := math.Pow(10, math.Floor(math.Log10(x))-3)
	return math.Floor(x/unit+1e-6) * unit
}
