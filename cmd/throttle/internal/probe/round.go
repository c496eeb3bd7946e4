package probe

import (
	"math"
	"time"

	"github.com/throttle-go/throttle/fit"
)

// periods are those that people choose, in seconds.
var periods = [...]float64{1, 60, 3600, 86400, 10, 5, 30, 600, 300, 900, 1800, 2, 15, 20, 120, 7200, 21600, 43200}

// rounded is the limiter with the roundest parameters in their intervals: people
// choose round ones. Where the kind is in doubt it stays as it is.
func (f *findings) rounded() fit.Model {
	c := f.limiter()
	m := c.Model
	m.Rate, m.Burst, m.Count = roundest(m.Rate, c.RateIn), roundest(m.Burst, c.BurstIn), roundest(m.Count, c.CountIn)
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

// roundest is the number with the fewest digits in an interval, nearest to x; x
// itself if there is no interval.
func roundest(x float64, in fit.Interval) float64 {
	if x <= 0 || in.High <= in.Low {
		return x
	}
	for digits := range 6 {
		unit := math.Pow(10, math.Floor(math.Log10(x))-float64(digits))
		// Below one, divided by the inverse: 0.3 and not 0.30000000000000004.
		y := math.Round(x/unit) * unit
		if unit < 1 {
			y = math.Round(x/unit) / math.Round(1/unit)
		}
		if y >= in.Low && y <= in.High && y > 0 {
			return y
		}
	}
	return x
}

// roundPeriod is the first of the periods that people choose in an interval, or
// the roundest number of seconds.
func roundPeriod(p time.Duration, in fit.Interval) time.Duration {
	if in.High <= in.Low {
		return p
	}
	for _, s := range periods {
		if s >= in.Low && s <= in.High {
			return time.Duration(s * float64(time.Second))
		}
	}
	return time.Duration(math.Round(roundest(p.Seconds(), in) * 1e9))
}
