package load

import (
	"math"
	"time"
)

type Adaptive struct {
	// Max bounds the limit. If zero or below, 10,000.
	Max int

	limit    float64 // zero: not begun
	base     float64 // seconds that an answer takes without a queue; zero: unknown
	step     float64 // by which the limit was last raised
	patience int     // windows from a raise that failed to the next raise
	rest     int     // windows until the next raise
	last     window  // the one that is being filled
	means    [3]float64
	seen     int       // of the means, since the last change downward
	windows  int       // since base was last probed
	probed   float64   // limit at that time
	low      int       // limit while base is probed; zero: it is not
	since    time.Time // when the probe began, or the limit was last cut
	paying   int       // windows left of a collapse that is being paid off; zero: none
	paid     float64   // latency at the last of these
}

// window is what ended lately.
type window struct {
	n, refused, lost int
	took, inFlight   float64 // sums
}

const (
	adaptiveStart    = 10
	adaptiveSamples  = 10
	adaptiveProbe    = 60 // windows from probe to probe
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
		if n := a.last.lost; 10*n > a.last.n+n && (n > 1 || a.limit < 4) {
			a.collapsed(s.Now)
		}
		return
	case a.low > 0 && sent.Before(a.since):
		return // of the time before the probe
	}
	a.last.n++
	a.last.took += took
	a.last.inFlight += float64(s.InFlight)
	need := a.Limit()
	if a.low > 0 {
		need = 2 * a.low
	}
	if a.last.n < max(adaptiveSamples, need) {
		return
	}
	w := a.last
	a.last = window{}
	a.turn(s.Now, w.took/float64(w.n), w.inFlight/float64(w.n), w.n)
}

// turn ends a window.
func (a *Adaptive) turn(now time.Time, mean, inFlight float64, n int) {
	a.windows++
	if a.low > 0 {
		a.measured(now, mean, n)
		return
	}
	if a.paying > 0 && !a.settled(mean) {
		return
	}
	if a.limit <= 1 || inFlight < 0.5*a.limit {
		a.learn(mean, n)
	}
	if a.windows >= adaptiveProbe || a.limit > 1.5*a.probed || a.limit < a.probed/1.5 {
		a.probe(now, 0.8*min(1, a.base/mean))
		return
	}
	copy(a.means[1:], a.means[:2])
	a.means[0] = mean
	a.seen++
	if inFlight < 0.75*float64(a.Limit()) {
		return // it is not what binds
	}
	calm := min(a.means[0], a.means[1], a.means[2])
	queue, room := inFlight*(1-a.base/mean), headroom(inFlight)
	switch {
	case a.seen >= 3 && inFlight*(1-a.base/calm) > room:
		a.lower(max(inFlight*a.base/calm+0.7*room, a.limit/2))
	case queue < room/2:
		a.raise()
	case queue > room:
		a.step = 0
	}
}

func headroom(limit float64) float64 { return min(2*math.Sqrt(limit), limit/3) }

func (a *Adaptive) raise() {
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
	a.last = window{}
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
	a.low = max(1, int(a.limit*max(part, 0.5)))
	a.since = now
	a.last = window{}
}

func (a *Adaptive) measured(now time.Time, mean float64, n int) {
	before, low := a.base, a.low
	a.learn(mean, n)
	a.low, a.windows, a.probed, a.seen = 0, 0, a.limit, 0
	if low > 1 && (before == 0 || a.base < 0.8*before) {
		a.limit = max(1, a.limit*0.7)
		a.probe(now, 0.5)
	}
}

func (a *Adaptive) learn(mean float64, n int) {
	if a.base == 0 || mean < a.base/2 || mean > 2*a.base {
		a.base = mean
		return
	}
	a.base += (mean - a.base) * float64(n) / (float64(n) + 40)
}
