package load

import (
	"math"
	"time"
)

// Gradient is an adaptive concurrency limit for a service, learnt from how long
// its work takes. It is the Gradient2Limit of Netflix's concurrency-limits: more
// work may start as long as that does not make all of it slower,
//
//	limit' = limit · min(max(1.25 · base/mean, 0.5), 1) + √limit
//
// smoothed by 0.2, where mean is the time that work takes and base the time that
// it takes without a queue. To measure base, only four tenths of the limit may
// be in flight for a moment, as in Envoy's adaptive concurrency filter: at the
// start, each time that 200 times the limit is done, and when the limit has
// changed much. While less than half of the limit is in flight, the limit does
// not change.
//
// The limit begins at 20. The zero value is ready. A Gradient does not count the
// work in flight: its caller does.
type Gradient struct {
	// Max bounds the limit. If zero or below, 1000.
	Max int

	limit float64 // zero: not begun
	base  float64 // seconds that one takes when there is no queue; zero: unknown
	// of this window:
	sum     float64 // of the seconds taken
	n       int
	most    int     // in flight
	windows int     // since the last probe
	before  float64 // limit at the last probe
}

const (
	gradientStart  = 20   // Netflix's initialLimit
	gradientMax    = 1000 // unless Max says otherwise
	gradientSlack  = 1.25 // a mean so much above base is no queue yet
	gradientSmooth = 0.2  // Netflix's smoothing
	gradientProbe  = 100  // windows from probe to probe
	probePart      = 0.4  // of the limit may be in flight during a probe: below 1/gradientSlack
	baseSmooth     = 0.5  // weight of a new look at base
)

// Limit returns how much work may be in flight now: at least 1.
func (g *Gradient) Limit() int {
	limit := g.limit
	if limit == 0 {
		limit = gradientStart
	}
	if g.probing() {
		limit *= probePart
	}
	return max(1, int(min(limit, g.highest())))
}

func (g *Gradient) highest() float64 {
	if g.Max <= 0 {
		return gradientMax
	}
	return float64(g.Max)
}

// probing reports whether this window belongs to a probe. The first of its two
// windows ends with the work that started before it.
func (g *Gradient) probing() bool { return g.windows >= gradientProbe }

// Observe learns from work that is done: how long it took, and how much was in
// flight when it ended, including itself.
func (g *Gradient) Observe(took time.Duration, inFlight int) {
	if g.limit == 0 {
		g.limit, g.windows = min(gradientStart, g.highest()), gradientProbe
	}
	g.sum += took.Seconds()
	g.n++
	g.most = max(g.most, inFlight)
	window := 2 * g.Limit()
	if g.windows == gradientProbe { // until all has ended that began before it, and more
		window = int(1.5 * g.limit)
	}
	if g.n < max(10, window) {
		return
	}
	g.turn(g.sum / float64(g.n))
	g.sum, g.n, g.most = 0, 0, 0
}

// turn ends a window in which work took mean seconds.
func (g *Gradient) turn(mean float64) {
	g.windows++
	switch {
	case g.windows == gradientProbe+1: // the first of a probe says nothing
		return
	case g.windows == gradientProbe+2:
		g.windows, g.before = 0, g.limit
		g.learn(mean)
		return
	case float64(g.most) < g.limit/2: // no load: no reason to allow more, and no queue
		g.learn(mean)
		return
	case mean <= 0 || g.base == 0:
		return
	}
	// limit' = limit · base·slack/mean + √limit, the factor from ½ to 1
	factor := min(max(gradientSlack*g.base/mean, 0.5), 1)
	next := g.limit*factor + math.Sqrt(g.limit)
	g.limit += gradientSmooth * (next - g.limit)
	g.limit = min(max(g.limit, 1), g.highest())
	if g.limit < 0.8*g.before || g.limit > 1.5*g.before { // how long does work take now?
		g.windows = gradientProbe
	}
}

// learn measures base.
func (g *Gradient) learn(mean float64) {
	if mean < g.base || mean > 2*g.base { // there was a queue last time, or all is new
		g.base = mean
	}
	g.base += baseSmooth * (mean - g.base)
}
