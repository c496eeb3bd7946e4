package load

import (
	"math"
	"time"
)

// probe is what an [Adaptive] knows of its looks at base.
type probe struct {
	low     int       // limit while it lasts; zero: it does not
	since   time.Time // when it began
	pending float64   // base, if the next one agrees; zero: none
	limit   float64   // when the last one ended
	windows int       // since then
	lasted  int       // round trips that it took
	suspect bool      // base is known to be wrong
	period  int64     // second of the wall clock when that of the last one began
	raised  int64     // second after the begin of the period in which base was last raised much
	common  bool      // the wall clock began it, for all clients
	crowd   int       // common ones until others are taken to have gone; zero: no others
}

const (
	probeDepth   = 0.5  // of what fills the server
	probeLow     = 0.01 // of what is in flight, at least
	probeLeast   = 4    // answers
	probeSamples = 50   // answers, where they vary much
	probePeriod  = 10 * time.Second
	probeCost    = 20 // a period is at least so many times as long as a probe
	probeCrowd   = 20 // common probes for which others are believed to be there
)

// lookDown begins a probe, with a part of what is in flight.
func (a *Adaptive) lookDown(now time.Time, part float64) {
	n := a.limit
	if a.inFlight > 0 {
		n = min(n, a.inFlight)
	}
	held := min(a.held, n)
	a.probe.low, a.probe.since = max(1, int((n-held)*max(part, probeLow)+held)), now
	a.probe.common = false
	a.probe.suspect, a.cuts, a.last = false, 0, window{}
}

// suspect reports whether base may be wrong.
func (a *Adaptive) suspect() bool {
	p := &a.probe
	changed := a.limit > 2*p.limit || a.limit < p.limit/2
	return p.suspect || a.cuts >= 3 || changed && p.windows >= max(10, 4*p.lasted)
}

// lookAtTimes begins a common probe when the wall clock says so. A probe that is
// under way starts again, so that all clients of the server have theirs together.
func (a *Adaptive) lookAtTimes(now time.Time) {
	p := &a.probe
	period := beginOf(now, a.interval())
	due := period > p.period || p.period > now.Unix() // the clock may have been set back
	if !due || p.low > 0 && p.common || a.paying > 0 {
		return
	}
	p.period = period
	if !a.binds() {
		return
	}
	part := probeDepth
	if a.means[0] > a.base {
		part *= a.base / a.means[0]
	}
	a.lookDown(now, part)
	p.common = true
}

// interval is the time between two such probes, in whole seconds: a probe of a
// slow server lasts longer.
func (a *Adaptive) interval() int64 {
	low := max(1, probeDepth*a.limit)
	lasts := a.base * (1 + max(2, probeSamples*min(1, a.spread)/low))
	period := int64(probePeriod / time.Second)
	for float64(period) < min(lasts*probeCost, 1e6) {
		period *= 2
	}
	return period
}

// beginOf returns the second in which the period of so many seconds that holds now
// began, also before 1970, where remainders are negative.
func beginOf(now time.Time, every int64) int64 {
	second := now.Unix()
	return second - (second%every+every)%every
}

// probed ends a probe. That a server has become much slower must be seen twice,
// the second time with half as much in flight, as a pause and a queue of one's
// own look the same; and it is believed once a period, as others may have come.
func (a *Adaptive) probed(now time.Time, w *window) {
	p := &a.probe
	before, low, mean := a.base, p.low, w.mean()
	p.low, p.windows, p.limit, a.seen = 0, 0, a.limit, 0
	p.lasted = w.n / low
	if p.common {
		p.crowd = max(0, p.crowd-1)
		if mean < 0.75*before { // base was the queue of others
			p.crowd = probeCrowd
		}
	}
	if before > 0 && mean > 1.5*before && mean-3*w.doubt() > before {
		if p.pending == 0 || mean < 0.8*p.pending && low > 1 { // less in flight, less of a queue
			common := p.common
			p.pending = mean
			a.lookDown(now, 0.5*float64(low)/min(a.limit, max(a.inFlight, 1)))
			p.common = common
			return
		}
		a.believe(now, w)
		return
	}
	p.pending, a.uncut = 0, 0
	a.learn(w)
	if low > 1 && (before == 0 || a.base < 0.8*before) { // there may still be a queue
		a.limit, a.inFlight = max(1, a.limit*0.7), a.inFlight*0.7
		a.lookDown(now, 0.5)
	}
}

// believe raises base: the server has become much slower. The limit was cut as for a
// queue, and goes back to half of what it was. Base is raised so once a period, and among
// other clients only by a common probe, as their queue looks the same.
func (a *Adaptive) believe(now time.Time, w *window) {
	p := &a.probe
	mean := min(p.pending, w.mean())
	p.pending = 0
	period := beginOf(now, int64(probePeriod/time.Second)) + 1
	if period == p.raised || !p.common && p.crowd > 0 {
		return
	}
	a.base, a.doubt = mean, w.doubt()/w.mean()
	p.raised = period
	a.limit, a.uncut, a.rest = max(a.limit, a.uncut/2), 0, 0
}

// rare is the standard error, in parts of base, that a mean of n answers has where
// service times vary more than exponential ones do: those that take long are then so rare
// that the deviation within one window may not show them. Zero where they do not.
func (a *Adaptive) rare(n int) float64 {
	if a.spread <= 1 {
		return 0
	}
	return a.spread / math.Sqrt(float64(n))
}

// learn takes the latency of a window without a queue into base.
func (a *Adaptive) learn(w *window) {
	mean, n := w.mean(), float64(w.n)
	a.spread += (w.deviation()/mean - a.spread) * n / (n + 100)
	if a.base == 0 || mean < a.base-3*max(w.doubt(), a.rare(w.n)*a.base) {
		a.base, a.doubt = mean, w.doubt()/mean
		return
	}
	part := n / (n + 40)
	a.doubt = math.Hypot((1-part)*a.doubt, part*w.doubt()/mean)
	a.base += min(mean-a.base, 0.5*a.base) * part // a pause is no reason to raise it much
}
