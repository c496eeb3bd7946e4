package peers

import (
	"math"
	"slices"
	"time"

	"github.com/throttle-go/throttle/pace"
)

// FailsafeLimiter is the AdaptiveLimiter of github.com/failsafe-go/failsafe-go
// with its defaults: an adaptive concurrency limit, 20 at first, 1 to Most, that
// follows how long requests take. Once a second at most, and after at least 50
// answers, it takes the 0.9 quantile of their times, smooths it (recent), and
// smooths that again (baseline):
//
//	queue = limit × (1 - baseline/recent)
//
// The limit goes down by one if the queue is above 6. It also does if all of it
// is in use, and more in flight took longer with hardly more throughput. It
// goes up by one if the queue is below 3, to at most five times the most in
// flight. From a limit of 100 on, steps and thresholds are doubled, from 1000 on
// they are three times as large, and so on.
//
// It ignores how a request ends: a throttled answer counts like any other, and a
// quick one as a good sign. A caller that finds the limit in use waits in line,
// as with the original's AcquirePermit; a refused one asks again after Pause.
type FailsafeLimiter struct {
	// NewDigest makes the digest that finds the quantile: the original has a
	// t-digest of compression 100. If nil, the times themselves are sorted,
	// every second one of them once there are too many.
	NewDigest func() Digest
	// Most bounds the limit. If zero or below, 200.
	Most int

	limit    int // 0: 20
	inFlight int // 0 to limit, more after a cut
	started  flights

	times    times // since the last adjustment
	next     time.Time
	median   median
	recent   average
	baseline average

	throughput pairs // of the number in flight and the throughput
	duration   pairs
}

// Digest summarises numbers, to estimate their quantiles.
type Digest interface {
	// Add adds the number x with a weight.
	Add(x, weight float64)
	// Quantile estimates the q quantile, q from 0 to 1.
	Quantile(q float64) float64
}

var _ pace.Controller = (*FailsafeLimiter)(nil)

// Limit returns how many requests may be in flight.
func (f *FailsafeLimiter) Limit() int {
	if f.limit == 0 {
		return min(20, f.most())
	}
	return f.limit
}

// Wait returns Never while the limit is in use.
func (f *FailsafeLimiter) Wait(_ time.Time, r pace.Request) time.Duration {
	if f.inFlight+max(r.Place, 1) > f.Limit() {
		return pace.Never
	}
	return 0
}

// Start takes a place.
func (f *FailsafeLimiter) Start(now time.Time, _ pace.Request) {
	f.inFlight++
	f.started.add(now, f.inFlight)
}

// Observe frees a place, after it has adjusted the limit. A cancelled request
// has no time.
func (f *FailsafeLimiter) Observe(now time.Time, o pace.Outcome) (rest time.Duration) {
	was := f.started.take(o.Sent)
	if o.Verdict != pace.Ignored {
		f.times.add(f, now.Sub(o.Sent), was)
	}
	if now.After(f.next) && f.times.n >= 50 {
		f.look()
		f.next = now.Add(min(max(2*f.times.least, time.Second), 30*time.Second))
		f.times = times{few: f.times.few[:0]}
	}
	f.inFlight--
	if refused(o) {
		return Pause
	}
	return 0
}

// look adjusts the limit to the times since the last look.
func (f *FailsafeLimiter) look() {
	recent := f.recent.add(f.median.add(f.times.quantile(f, 0.9)), 5)
	baseline := f.baseline.add(recent, 10)
	limit, most := f.Limit(), float64(f.times.most)
	queue := int(math.Ceil(float64(limit) * (1 - baseline/recent)))
	gain, varies := f.throughput.add(most, most/(recent/1e9))
	slowing, _ := f.duration.add(most, recent)
	step := max(1, int(math.Log10(float64(limit))))
	full := f.inFlight >= limit
	futile := gain < 0 || slowing > 0.5 && (gain < 0.3 || varies < 0.2)
	to := limit
	switch {
	case queue > 6*step, full && futile:
		to -= step
	case queue < 3*step:
		to += step
	}
	if top := 5 * f.times.most; to > top {
		if to = top; limit > top {
			to = limit - step
		}
	}
	f.limit = min(max(to, 1), f.most())
}

func (f *FailsafeLimiter) most() int {
	if f.Most > 0 {
		return f.Most
	}
	return 200
}

// times are how long requests took, and how many were in flight at most.
type times struct {
	n     int
	least time.Duration
	most  int
	few   []float64 // times not yet in all, in nanoseconds
	all   Digest
}

// fewTimes is how many times are kept before they go into a digest. So most
// limiters need a digest only to take a quantile.
const fewTimes = 800

func (t *times) add(f *FailsafeLimiter, d time.Duration, inFlight int) {
	d = max(d, 1)
	if t.n == 0 {
		t.least, t.most = d, inFlight
	}
	t.n++
	t.least, t.most = min(t.least, d), max(t.most, inFlight)
	if t.few = append(t.few, float64(d)); len(t.few) > fewTimes {
		t.digest(f)
	}
}

// digest adds few to all.
func (t *times) digest(f *FailsafeLimiter) {
	switch {
	case t.all != nil:
	case f.NewDigest != nil:
		t.all = f.NewDigest()
	default:
		t.all = new(sample)
	}
	for _, x := range t.few {
		t.all.Add(x, 1)
	}
	t.few = t.few[:0]
}

// quantile returns a quantile of the times, in nanoseconds.
func (t *times) quantile(f *FailsafeLimiter, q float64) float64 {
	t.digest(f)
	return t.all.Quantile(q)
}

// sample is a Digest that keeps the numbers; of very many, one in a power of two.
type sample struct {
	kept    []float64
	n, step int
}

const mostKept = 4096

func (s *sample) Add(x, _ float64) {
	s.step = max(s.step, 1)
	if s.n++; s.n%s.step != 0 {
		return
	}
	if s.kept = append(s.kept, x); len(s.kept) < mostKept {
		return
	}
	for i := range mostKept / 2 {
		s.kept[i] = s.kept[2*i+1]
	}
	s.kept, s.step = s.kept[:mostKept/2], 2*s.step
}

func (s *sample) Quantile(q float64) float64 {
	if len(s.kept) == 0 {
		return math.NaN()
	}
	slices.Sort(s.kept)
	return s.kept[int(q*float64(len(s.kept)-1))]
}

// median filters out outliers.
type median struct {
	last [5]float64
	n    int
}

// add returns the median of the last five, or x if there are not so many.
func (m *median) add(x float64) float64 {
	m.last[m.n%len(m.last)] = x
	if m.n++; m.n < len(m.last) {
		return x
	}
	sorted := m.last
	slices.Sort(sorted[:])
	return sorted[len(sorted)/2]
}

// average is the mean of the first ten numbers, and from then on an exponentially
// weighted mean.
type average struct{ n, sum, value float64 }

// add adds x and returns the average, over about age numbers.
func (a *average) add(x, age float64) float64 {
	if a.n < 10 {
		a.n, a.sum = a.n+1, a.sum+x
		a.value = a.sum / a.n
		return a.value
	}
	weight := 2 / (age + 1)
	a.value = a.value*(1-weight) + x*weight
	return a.value
}

// pairs are the last fifty pairs of two series.
type pairs struct {
	x, y [50]float64
	n    int // pairs added so far

	sumX, sumY, sumXX, sumYY, sumXY float64
}

// add adds a pair, and returns the correlation of the two series and the
// coefficient of variation of the second: zeros while there are fewer than ten
// pairs, and no correlation where either varies by less than 1 %.
func (p *pairs) add(x, y float64) (correlation, variation float64) {
	i := p.n % len(p.x)
	if p.n >= len(p.x) {
		p.sum(-1, p.x[i], p.y[i])
	}
	p.x[i], p.y[i] = x, y
	p.sum(1, x, y)
	p.n++
	n := float64(min(p.n, len(p.x)))
	meanX, meanY := p.sumX/n, p.sumY/n
	varX, varY := p.sumXX/n-meanX*meanX, p.sumYY/n-meanY*meanY
	if n < 10 || varX < 0 || varY < 0 {
		return 0, 0
	}
	sdX, sdY := math.Sqrt(varX), math.Sqrt(varY)
	variation = sdY / meanY
	if sdX/meanX < 0.01 || variation < 0.01 {
		return 0, variation
	}
	return (p.sumXY/n - meanX*meanY) / (sdX * sdY), variation
}

// sum adds a pair to the sums, or removes it.
func (p *pairs) sum(sign, x, y float64) {
	p.sumX, p.sumY = p.sumX+sign*x, p.sumY+sign*y
	p.sumXX, p.sumYY = p.sumXX+sign*x*x, p.sumYY+sign*y*y
	p.sumXY += sign * x * y
}
