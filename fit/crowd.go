package fit

import "math"

// A crowd is what a server has used of n if other callers send at a constant
// rate as a Poisson process: its mean and variance, as what they sent is not
// seen. Each answer tells something of it, so both follow the answers.
type crowd struct {
	p        *params
	at       float64
	mean     float64 // used in the bucket or in the current window
	vary     float64
	prev     float64 // of a SlidingCounter, in the window before
	prevVary float64
	index    float64 // of the current window
	full     float64 // when a TokenBucket was last full
	log      history
	blur     float64
}

// strange is the likelihood of an answer that neither this caller nor the others
// explain.
const strange = 1e-4

// crowdCost is the negative log-likelihood of the events under p with other
// callers, as far as it is below bound.
func (c *scorer) crowdCost(p *params, bound float64) float64 {
	d := crowd{p: p, blur: c.blur(p), log: history{runs: c.bins[:0]}}
	if p.n < 1 || p.period < 0 || p.rate < 0 || len(c.events) <= c.from {
		return hopeless
	}
	if p.first {
		return c.firstCost(p, bound)
	}
	d.begin(c.events[c.from].from)
	return c.crowdSum(&d, bound)
}

// crowdSum is the cost of the events from a beginning.
func (c *scorer) crowdSum(d *crowd, bound float64) (sum float64) {
	for i := c.from; i < len(c.events); i++ {
		e := &c.events[i]
		sum += d.answer(e)
		if e.told == e.told {
			used, vary := d.usedAt(e.to)
			off, gain := d.p.n-used-e.told, vary/(vary+0.3)
			sum += heardCost(off, vary)
			d.shift(gain*off, vary, vary*(1-gain)) // so much have others used
		}
		if sum > bound {
			break
		}
	}
	c.bins = d.log.runs
	return sum
}

// heardCost is that of an answer which told off more or less than is left, as far as
// what others have used varies.
func heardCost(off, vary float64) float64 {
	return min(5, off*off/(vary+0.3)/2+math.Log1p(vary/0.3)/2)
}

// begin is what others have used before the first request.
func (d *crowd) begin(t float64) {
	p := d.p
	d.at, d.full, d.index = t, t, math.Inf(-1)
	mean := p.others * p.period
	switch {
	case p.kind == TokenBucket:
		d.vary = 0.1 * min(1, p.others/max(p.rate, 1e-9))
	case p.kind == SlidingLog:
		d.log.add(t-p.period, t, mean, mean, nil)
	default:
		d.index = math.Floor((t - p.edge) / p.period)
		d.prev, d.prevVary = mean, mean
		d.mean = p.others * (t - p.edge - d.index*p.period)
		d.vary = d.mean
	}
}

// answer counts an event, and returns what it costs.
func (d *crowd) answer(e *event) float64 {
	if e.n == 0 {
		return d.refused(e)
	}
	return d.served(e)
}

// refused counts a refusal, and returns what it costs.
func (d *crowd) refused(e *event) float64 {
	d.move(e.to)
	if d.edge(e.lo, e.to) {
		return 0 // perhaps it was decided before
	}
	used, vary := d.usedAt(e.to)
	if early, v := d.usedAt(e.lo); early > used {
		used, vary = early, v
	}
	cost := d.learn(used+e.slack, vary, d.blur, 1)
	switch d.p.kind {
	case TokenBucket:
		d.mean, d.vary = atMost(d.mean, d.vary, d.p.n)
	case SlidingLog: // whatever it was before, now all is used
		used, vary = d.usedAt(e.to)
		d.shift(d.p.n-used, max(vary, 1e-6), 0)
	case FixedWindow:
		d.mean, d.vary = d.p.n, 0
	}
	return cost
}

// blur is the deviation by which what is used is not known otherwise.
func (c *scorer) blur(p *params) float64 {
	switch p.kind {
	case TokenBucket:
		return 0.03 + min(0.5, p.rate*max(c.tr.jitter, 1e-3)/2)
	case SlidingCounter:
		return 0.3
	case SlidingLog:
		if c.tr.merged { // the times of each are known to the jitter
			return 0.3
		}
	}
	return 0.15
}

// served counts a run that was served, and returns what it costs.
func (d *crowd) served(e *event) (cost float64) {
	n, cost := d.windows(e)
	d.move(e.to)
	if d.p.kind == SlidingLog {
		d.log.add(e.from, e.to, n, 0, e.times)
	} else {
		d.mean += n
	}
	if d.edge(e.to, e.hi) || d.edge(e.lo, e.to) {
		return cost
	}
	used, vary := d.usedAt(e.to)
	if late, v := d.usedAt(e.hi); late < used {
		used, vary = late, v
	}
	return cost + d.learn(used, vary, d.blur, -1)
}

// windows serves what of a run lies before the last edge of a window in it, and
// returns the rest. Of a run over many windows the last four count.
func (d *crowd) windows(e *event) (n, cost float64) {
	p, from, n := d.p, e.from, e.n
	if p.period <= 0 || p.kind == SlidingLog || e.to <= from {
		return n, 0
	}
	if long := e.to - from; long > 4*p.period {
		n, from = n*4*p.period/long, e.to-4*p.period
	}
	for range 5 {
		d.move(from)
		end := p.edge + (d.index+1)*p.period
		if end <= from || end >= e.to {
			break
		}
		part := n * (end - from) / (e.to - from)
		d.mean += part
		cost += d.learn(d.mean, d.vary, d.blur+0.5, -1)
		n, from = n-part, end
	}
	return n, cost
}

// learn returns the cost of an answer where so much is used, and corrects what
// others have used: side is 1 for a refusal, which needs n, and -1 for one
// served.
func (d *crowd) learn(used, vary, blur, side float64) float64 {
	n := d.p.n
	sigma := math.Sqrt(vary + blur*blur)
	limit := n - 0.5 // of whole requests
	if d.p.kind == TokenBucket {
		limit = n - 1
	}
	if side < 0 {
		limit++
	}
	z := side * (used - limit) / sigma
	if d.p.kind != TokenBucket { // what it forgets below zero varies less
		z = side * skewed(used-limit, vary, blur)
	}
	if z > 5 {
		return 0 // it tells nothing
	}
	likely, odd := normal(z), strange
	if d.p.kind == TokenBucket && side > 0 { // one request of others is a whole one, however few they are
		one := min(0.3, d.p.others*(d.at-d.full)) * normal((used+1-limit)/sigma)
		odd, d.full = max(strange, one), d.at
	}
	cost := -math.Log(odd + (1-odd)*likely)
	switch {
	case likely < strange:
		d.shift(limit-used, vary, 0.3)
		return cost
	case likely < 0.5 && side > 0 && d.p.kind == TokenBucket: // one of another caller is a whole one
		d.shift(n-0.5-used, vary, 0.1)
		return cost
	}
	hazard := math.Exp(-z*z/2) / math.Sqrt(2*math.Pi) / likely
	gain := vary / (sigma * sigma)
	d.shift(side*gain*sigma*hazard, vary, vary*max(0, 1-gain*hazard*(hazard+z)))
	return cost
}

// shift moves what is used by off, and its variance from one to another.
func (d *crowd) shift(off, from, to float64) {
	switch {
	case d.p.kind == SlidingLog:
		d.log.shift(d.at-d.p.period, off, to)
	case d.p.kind == SlidingCounter && d.prevVary > 0:
		left := d.left(d.at)
		old := left * left * d.prevVary
		part := old / max(from, 1e-9) // of the window before
		if left > 0.05 {
			d.prev += off * part / left
			d.prevVary *= to / max(from, 1e-9)
			d.mean += off * (1 - part)
		} else {
			d.mean += off
		}
		d.vary = max(0, to-left*left*d.prevVary)
	default:
		d.mean, d.vary = d.mean+off, to
	}
	d.mean = max(d.mean, 0)
}

// left is the part of the window before that a SlidingCounter counts at t.
func (d *crowd) left(t float64) float64 {
	return 1 - (t-d.p.edge-d.index*d.p.period)/d.p.period
}

// edge reports whether a window may have ended between two times close together.
func (d *crowd) edge(from, to float64) bool {
	p := d.p
	return p.kind == FixedWindow && math.Floor((from-p.edge)/p.period) != math.Floor((to-p.edge)/p.period)
}

// usedAt is what is used at t, a little before or after the last move.
func (d *crowd) usedAt(t float64) (used, vary float64) {
	switch d.p.kind {
	case TokenBucket:
		return max(0, d.mean-d.p.rate*(t-d.at)), d.vary
	case SlidingLog:
		return d.log.since(t - d.p.period)
	case SlidingCounter:
		left := max(0, min(1, d.left(t)))
		return d.mean + left*d.prev, d.vary + left*left*d.prevVary
	}
	return d.mean, d.vary
}

// move lets others send until t.
func (d *crowd) move(t float64) {
	if t <= d.at {
		return
	}
	p, took := d.p, t-d.at
	switch {
	case p.kind == TokenBucket:
		d.mean, d.vary = d.mean-p.rate*took, d.vary+p.others*took
		if d.mean < 0 {
			d.mean, d.vary = 0, min(d.vary, 0.1+p.others/max(p.rate, 1e-9))
		}
	case p.kind == SlidingLog:
		used, _ := d.log.since(t - p.period)
		if more := min(p.others*took, p.n-used); more > 0 {
			d.log.add(d.at, t, more, more, nil)
		}
	default:
		d.moveWindows(t)
	}
	d.at = t
	if p.kind == FixedWindow {
		d.mean, d.vary = atMost(d.mean, d.vary, p.n)
	}
}

func (d *crowd) moveWindows(t float64) {
	p := d.p
	w := math.Floor((t - p.edge) / p.period)
	begun := max(d.at, p.edge+w*p.period)
	if w > d.index {
		d.prev, d.prevVary = 0, 0
		if w == d.index+1 {
			more := p.others * (begun - d.at)
			d.prev, d.prevVary = min(d.mean+more, p.n), d.vary+more
		} else if d.index > math.Inf(-1) {
			d.prev, d.prevVary = p.others*p.period, p.others*p.period
		}
		d.mean, d.vary, d.index = 0, 0, w
	}
	more := p.others * (t - begun)
	d.mean, d.vary = d.mean+more, d.vary+more
}
