package load

import (
	"math"
	"time"
)

type Adaptive struct {
	// Max bounds the limit. If zero or below, 10,000.
	Max int

	limit          float64 // zero: not begun
	base           float64 // seconds that an answer takes without a queue; zero: unknown
	error          float64 // standard error of base, for each of it
	spread         float64 // standard deviation of these seconds, for each of base
	step           float64 // by which the limit was last raised
	patience       int     // windows from a raise that failed to the next raise
	rest           int     // windows until the next raise
	last           window  // the one that is being filled
	means          [3]float64
	seen           int // of the means, since the last change downward
	cuts           int // in a row
	windows        int // since base was last probed
	raised, period int64
	flying         float64
	probed         float64   // limit at that time
	pending        float64   // base, if the next probe agrees; zero: none
	low            int       // limit while base is probed; zero: it is not
	since          time.Time // when the probe began, or the limit was last cut
	paying         int       // windows left of a collapse that is being paid off; zero: none
	paid           float64   // latency at the last of these
}

// window is what ended lately.
type window struct {
	from          time.Time // when it began
	n, lost       int
	wasted        float64 // seconds that those lost took
	took, squares float64 // sums of the seconds
	inFlight      float64 // sum
}

// residence is the seconds that a request is in flight by Little's law, also
// while those that take long have not ended yet: what was in flight, without
// those lost, for each that ended.
func (w *window) residence(now time.Time) float64 {
	return (w.inFlight/float64(w.n)*now.Sub(w.from).Seconds() - w.wasted) / float64(w.n)
}

func (w *window) mean() float64 { return w.took / float64(w.n) }

// doubt is the standard error of the mean.
func (w *window) doubt() float64 {
	n := float64(w.n)
	return math.Sqrt(max(0, w.squares-w.took*w.took/n) / n / max(1, n-1))
}

var depth, queueRoot = 0.5, 1.5

const (
	adaptiveStart    = 10
	adaptiveSamples  = 10
	adaptiveProbe    = 60 // windows from probe to probe
	adaptivePeriod   = 10 * time.Second
	adaptiveDoubt    = 50
	adaptivePatience = 8
	adaptivePaying   = 4
)

// Limit returns how many may be in flight now.
func (a *Adaptive) Limit() int {
	switch {
	case a.low > 0:
		return a.low
	case a.limit == 0:
		return min(adaptiveStart, highest(a.Max))
	}
	return int(a.limit)
}

// Observe learns from a request that has ended.
func (a *Adaptive) Observe(s Sample) {
	if s.End == Ignored || s.Took < 0 {
		return
	}
	if a.limit == 0 {
		a.limit = float64(a.Limit())
		a.last.from = s.Now
		a.probe(s.Now, 0.5)
	}
	sent := s.Now.Add(-s.Took)
	took := s.Took.Seconds()
	switch {
	case s.End == Refused:
		if sent.After(a.since) {
			a.refused(s.Now)
		}
		return
	case s.End == Failed:
		if a.base > 0 && took < 2*a.base || sent.Before(a.since) {
			return
		}
		a.last.lost++
		a.last.wasted += took
		if n := a.last.lost; 10*n > a.last.n+n && (n > 1 || a.limit < 4) {
			a.collapsed(s.Now)
		}
		return
	case a.low > 0 && a.last.n == 0 && sent.Before(a.since):
		a.last.from = s.Now
		return // what was in flight before the probe has not ended yet
	}
	a.last.n++
	a.last.took += took
	a.last.squares += took * took
	a.last.inFlight += float64(s.InFlight)
	if period := s.Now.UnixNano() / a.interval(); period > a.period && a.low == 0 && a.paying == 0 {
		a.period = period
		a.probe(s.Now, depth*min(1, a.base/max(a.base, a.means[0])))
	}
	need := max(a.Limit(), adaptiveSamples)
	if a.low > 0 && (a.last.n < 2*a.low || a.last.doubt() > 0.1*a.last.mean()) {
		need = max(2*a.low, adaptiveDoubt)
	}
	if a.last.n < need {
		return
	}
	w := a.last
	a.last = window{}
	a.turn(s.Now, &w)
}

// interval is the time from one probe by the wall clock to the next, in
// nanoseconds.
func (a *Adaptive) interval() int64 {
	low := max(1, depth*a.limit)
	lasts := a.base * (1 + max(2, adaptiveDoubt*min(1, a.spread)/low))
	period := int64(adaptivePeriod)
	for float64(period) < lasts*50e9 {
		period *= 2
	}
	return period
}

// turn ends a window.
func (a *Adaptive) turn(now time.Time, w *window) {
	mean, inFlight := w.mean(), w.inFlight/float64(w.n)
	if a.low == 0 {
		a.flying = inFlight
	}
	full := inFlight >= 0.75*float64(a.Limit())
	a.windows++
	if a.low > 0 {
		a.measured(now, mean, w)
		return
	}
	if a.paying > 0 && !a.settled(mean) {
		return
	}
	if a.limit < 2 {
		a.learn(now, mean, w)
	}
	if changed := a.limit > 2*a.probed || a.limit < a.probed/2; a.windows >= 10 && changed || a.cuts == 3 {
		a.probe(now, depth*min(1, a.base/mean))
		return
	}
	copy(a.means[1:], a.means[:2])
	a.means[0] = mean
	a.seen++
	if fast := max(a.means[0], a.means[1], a.means[2]); a.seen >= 3 && fast < 0.9*a.base {
		a.base = fast
		a.probe(now, depth)
		return
	}
	if !full {
		return // it is not what binds
	}
	calm := min(a.means[0], a.means[1], a.means[2])
	queue, room := inFlight*(1-a.base/mean), a.room(inFlight)
	switch {
	case a.seen >= 3 && inFlight*(1-a.base/calm) > room:
		a.lower(max(inFlight*a.base/calm+0.7*room, a.limit/2))
	case queue < room/2:
		a.raise()
	case queue > room:
		a.step = 0
	}
}

func (a *Adaptive) room(inFlight float64) float64 {
	return inFlight * min(max(queueRoot/math.Sqrt(inFlight), 2*a.error), (1+2*a.spread)/(3+2*a.spread))
}

func (a *Adaptive) raise() {
	a.cuts = 0
	if a.rest > 0 {
		a.rest--
		return
	}
	if a.step == 0 {
		a.step = max(1, math.Sqrt(a.limit)/4)
	} else {
		a.step = min(2*a.step, a.limit)
		a.patience = 0
	}
	a.limit = min(a.limit+a.step, float64(highest(a.Max)))
	a.seen = 0
}

func (a *Adaptive) lower(to float64) {
	a.limit = min(max(to, 1), a.limit)
	a.step, a.seen = 0, 0
	a.cuts++
	a.patience = min(max(1, 2*a.patience), adaptivePatience)
	a.rest = a.patience
}

func (a *Adaptive) refused(now time.Time) {
	a.lower(min(a.limit-1, a.limit*0.9))
	a.since = now
}

func (a *Adaptive) collapsed(now time.Time) {
	a.limit = max(1, a.limit/2)
	a.low, a.step, a.seen, a.rest, a.patience = 0, 0, 0, 0, 0
	a.paying, a.paid, a.since = adaptivePaying, 0, now
	a.last = window{from: now}
}

func (a *Adaptive) settled(mean float64) bool {
	switch {
	case a.base == 0 || mean <= 2*a.base:
		a.paying, a.windows = 0, 0
		a.probed = a.limit
	case a.paid == 0 || mean < 0.8*a.paid:
		a.paying = adaptivePaying
	default:
		if a.paying--; a.paying == 0 {
			a.windows = adaptiveProbe
			return true
		}
	}
	a.paid = mean
	return a.paying == 0
}

func (a *Adaptive) probe(now time.Time, part float64) {
	flying := a.limit
	if a.flying > 0 {
		flying = min(flying, a.flying)
	}
	a.low = max(1, int(flying*max(part, 0.1)))
	a.since, a.cuts = now, 0
	a.last = window{from: now}
}

func (a *Adaptive) measured(now time.Time, mean float64, w *window) {
	before, low := a.base, a.low
	a.low, a.windows, a.probed, a.seen = 0, 0, a.limit, 0
	if before > 0 && mean > 1.5*before && mean-3*w.doubt() > before {
		if a.pending == 0 {
			a.pending = mean
			a.probe(now, float64(low)/min(a.limit, max(a.flying, 1)))
			return
		}
		if period := now.UnixNano() / int64(adaptivePeriod); period >= a.raised {
			a.base, a.error = min(a.pending, mean), w.doubt()/w.mean()
			a.raised = period + 1
		}
		a.pending = 0
		return
	}
	a.pending = 0
	a.learn(now, mean, w)
	if low > 1 && (before == 0 || a.base < 0.8*before) {
		a.limit, a.flying = max(1, a.limit*0.7), a.flying*0.7
		a.probe(now, 0.5)
	}
}

func (a *Adaptive) learn(now time.Time, mean float64, w *window) {
	n := float64(w.n)
	a.spread += (w.doubt()*math.Sqrt(n)/w.mean() - a.spread) * n / (n + 100)
	if d := math.Abs(mean - a.base); a.base == 0 || d > 3*w.doubt() {
		a.base, a.error = mean, w.doubt()/mean
		return
	}
	x := n / (n + 40)
	a.error = math.Hypot((1-x)*a.error, x*w.doubt()/mean)
	a.base += (mean - a.base) * x
}
