package load

import "math"

// Vegas is the VegasLimit of Netflix's concurrency-limits
// (github.com/Netflix/concurrency-limits, 2018, Apache 2.0), after TCP Vegas
// (Brakmo, O'Malley, Peterson 1994). It estimates the queue at the server,
//
//	queue = ⌈limit · (1 - base/latency)⌉
//
// where base is the least latency seen, and with l = max(1, log10 limit) adds 6 l
// to the limit while queue <= l, adds l while queue < 3 l, and takes l away while
// queue > 6 l and for each request that fails or is refused. While less than
// half of the limit is in flight it does not change. After 15 to 30 times the
// limit of samples, base is whatever the next one takes.
//
// The limit begins at 20. The published law draws the time between two of these
// at random; here the draws are the multiples of the golden ratio. The zero
// value is ready.
type Vegas struct {
	// Max bounds the limit. If zero or below, 10,000.
	Max int

	limit float64 // zero: not begun
	base  float64 // seconds; zero: unknown
	count int     // samples since base was taken as it came
	draws int
}

const (
	vegasStart = 20
	vegasProbe = 30 // published probeMultiplier
	golden     = 0.618033988749895
)

// Limit returns how many may be in flight now.
func (v *Vegas) Limit() int {
	if v.limit == 0 {
		return min(vegasStart, highest(v.Max))
	}
	return min(int(v.limit), highest(v.Max)) // which may have been lowered
}

// Observe learns from a request that has ended.
func (v *Vegas) Observe(s Sample) {
	if s.End == Ignored || s.Took <= 0 {
		return
	}
	v.limit = max(v.limit, float64(v.Limit()))
	took := s.Took.Seconds()
	v.count++
	_, draw := math.Modf(float64(v.draws) * golden)
	switch {
	case float64(v.count) >= (0.5+draw/2)*vegasProbe*v.limit:
		v.count, v.draws, v.base = 0, v.draws+1, took
	case v.base == 0 || took < v.base:
		v.base = took
	default:
		v.limit = min(max(v.next(s, took), 1), float64(highest(v.Max)))
	}
}

// next is the limit that follows.
func (v *Vegas) next(s Sample, took float64) float64 {
	l := math.Floor(max(1, math.Log10(math.Floor(v.limit))))
	queue := math.Ceil(v.limit * (1 - v.base/took))
	switch {
	case s.End != Served:
		return v.limit - l
	case float64(2*s.InFlight) < v.limit:
		return v.limit
	case queue <= l:
		return v.limit + 6*l
	case queue < 3*l:
		return v.limit + l
	case queue > 6*l:
		return v.limit - l
	}
	return v.limit
}
