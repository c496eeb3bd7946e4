package probe

import (
	"math"
	"time"

	"github.com/throttle-go/throttle/fit"
	"github.com/throttle-go/throttle/limit"
)

// periods are those that people choose, in seconds.
var periods = [...]float64{1, 60, 3600, 86400, 10, 5, 30, 600, 300, 900, 1800, 2, 15, 20, 120, 7200, 21600, 43200}

// rounded is the limiter with the roundest parameters in their intervals: people
// choose round ones. Where the kind is in doubt it stays as it is.
func (f *findings) rounded() fit.Model {
	c := f.limiter()
	m := c.Model
	count, unit := roundRate(m.Rate, c.RateIn)
	m.Rate = count / unit.Seconds()
	m.Burst, _ = roundest(m.Burst, c.BurstIn)
	m.Count, _ = roundest(m.Count, c.CountIn)
	if m.Period <= 0 {
		return m
	}
	m.Period = roundPeriod(m.Period, c.PeriodIn)
	m.Rate = m.Count / m.Period.Seconds()
	if !c.Edge.IsZero() {
		// By the period as rounded: of a million windows since 1970 the small
		// difference would move the phase anywhere.
		m.Phase = time.Duration(c.Edge.UnixNano() % int64(m.Period))
	}
	return m
}

// asLimit is the rounded limiter as a limit: 100/min, or 49/10s where the rate is whole
// in no unit. A queue that delays is the bucket that fills it.
func (f *findings) asLimit() (l limit.Limit, ok bool) {
	m := f.rounded()
	if m.Kind == fit.Delay {
		m.Kind = fit.TokenBucket
	}
	if l, ok = m.Limit(); m.Kind != fit.TokenBucket || !ok {
		return l, ok
	}
	c := f.limiter()
	if count, unit := roundRate(c.Rate, c.RateIn); count >= 1 && count == math.Trunc(count) {
		l.Count, l.Period = int64(count), unit
		return l, true
	}
	return shortest(l), true
}

// roundRate is the rate that people would choose in an interval of rates a second, as a
// count in a unit: with the fewest digits. One in another unit than that in which the rate
// is printed counts as one digit more, so that it is 12/s and not 700/min, and one that is
// not whole as two. Nobody counts to 10,000 in another unit.
func roundRate(x float64, in fit.Interval) (count float64, unit time.Duration) {
	if in.High <= in.Low {
		return x, time.Second
	}
	_, told := perUnit(x)
	in = shown(in, told)
	least := math.MaxInt
	for _, u := range [...]time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour} {
		s := u.Seconds()
		y, digits := roundest(x*s, fit.Interval{Low: in.Low * s, High: in.High * s})
		if s != told {
			digits++
		}
		if y != math.Trunc(y) {
			digits += 2
		}
		if digits < least && (s == told || y < 10_000) {
			count, unit, least = y, u, digits
		}
	}
	return count, unit
}

// roundest is the number with the fewest digits in an interval, nearest to x, and how
// many digits follow the first; x itself if there is no interval.
func roundest(x float64, in fit.Interval) (y float64, digits int) {
	const most, slack = 6, 1e-12 // an end may have been scaled
	if x <= 0 || in.High <= in.Low {
		return x, most
	}
	for digits := range most {
		unit := math.Pow(10, math.Floor(math.Log10(x))-float64(digits))
		// Below one, divided by the inverse: 0.3 and not 0.30000000000000004.
		y := math.Round(x/unit) * unit
		if unit < 1 {
			y = math.Round(x/unit) / math.Round(1/unit)
		}
		if y >= in.Low*(1-slack) && y <= in.High*(1+slack) && y > 0 {
			return y, digits
		}
	}
	return x, most
}

// shown is an interval as it is printed, by a unit of so many seconds.
func shown(in fit.Interval, unit float64) fit.Interval {
	return fit.Interval{Low: printed(in.Low*unit) / unit, High: printed(in.High*unit) / unit}
}

// roundPeriod is the first of the periods that people choose in an interval, or
// the roundest number of seconds.
func roundPeriod(p time.Duration, in fit.Interval) time.Duration {
	if in.High <= in.Low {
		return p
	}
	in = shown(in, 1)
	for _, s := range periods {
		if s >= in.Low && s <= in.High {
			return time.Duration(s * float64(time.Second))
		}
	}
	s, _ := roundest(p.Seconds(), in)
	return time.Duration(math.Round(s * 1e9))
}
