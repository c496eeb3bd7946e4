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
	end      float64 // of a window from the first request
	endVary  float64
	log      history
	blur     float64
}

// strange is the likelihood of an answer that neither this caller nor the others
// explain.
const strange = 1e-4

// normal is the likelihood of what is below z, in standard deviations.
func normal(z float64) float64 { return math.Erfc(-z/math.Sqrt2) / 2 }

// crowdCost is the negative log-likelihood of the events under p with other
// callers, as far as it is below bound.
func (c *scorer) crowdCost(p *params, bound float64) float64 {
	d := crowd{p: p, blur: c.blur(p), log: history{c.bins[:0]}}
	if p.n < 1 || p.period < 0 || p.rate < 0 || len(c.events) == 0 {
		return hopeless
	}
	free := d
	d.begin(c.events[0].from)
	x := c.crowdSum(&d, bound)
	if !p.first {
		return x
	}
	free.at, free.end = math.Inf(-1), math.Inf(-1) // no window had begun: the first event begins one
	busy := p.others * p.period
	y := c.crowdSum(&free, bound) + math.Log1p(busy)
	return min(x+math.Log1p(1/busy), y)
}

// crowdSum is the cost of the events from a beginning.
func (c *scorer) crowdSum(d *crowd, bound float64) (sum float64) {
	for i := range c.events {
		e := &c.events[i]
		sum += d.answer(e)
		if e.told == e.told {
			used, _ := d.usedAt(e.to)
			sum += toldCost(d.p.n-used-e.told, d.p.n)
		}
		if sum > bound {
			break
		}
	}
	c.bins = d.log.runs
	return sum
}

// begin is what others have used before the first request.
func (d *crowd) begin(t float64) {
	p := d.p
	d.at, d.index, d.end = t, math.Inf(-1), math.Inf(-1)
	mean := p.others * p.period
	switch {
	case p.kind == TokenBucket:
		d.vary = 0.1 * min(1, p.others/max(p.rate, 1e-9))
	case p.kind == SlidingLog:
		d.log.add(t-p.period, t, mean, mean)
	case p.first:
		d.mean, d.vary = mean/2, mean/2+mean*mean/12
		d.end, d.endVary = t+p.period/2, p.period*p.period/12
	case !p.first:
		d.index = math.Floor((t - p.edge) / p.period)
		d.prev, d.prevVary = mean, mean
		d.mean = p.others * (t - p.edge - d.index*p.period)
		d.vary = d.mean
	}
}

// answer counts an event, and returns what it costs. Where a window from the
// first request may or may not have ended, both are tried.
func (d *crowd) answer(e *event) float64 {
	act := (*crowd).served
	if e.n == 0 {
		act = (*crowd).refused
	}
	s := math.Sqrt(d.endVary + (e.hi-e.lo)*(e.hi-e.lo)/16)
	if !d.p.first || s == 0 || math.Abs(e.from-d.end) > 4*s {
		return act(d, e)
	}
	over := normal((e.from - d.end) / s)
	same, next := *d, *d
	same.bound(e.from, s, 1)
	next.bound(e.from, s, -1)
	x, y := act(&same, e), act(&next, e)
	if math.Abs(x-y) < 0.3 && over < 0.5 { // it tells nothing of the end
		return act(d, e)
	}
	x, y = x-math.Log(1-over+1e-9), y-math.Log(over+1e-9)
	if *d = same; y < x {
		*d, x, y = next, y, x
	}
	return x - math.Log1p(math.Exp(x-y))
}

// bound makes the window end after t, or before it where side is -1.
func (d *crowd) bound(t, s, side float64) {
	z := side * (t - d.end) / s
	hazard := math.Exp(-z*z/2) / math.Sqrt(2*math.Pi) / max(normal(-z), 1e-9)
	d.end += side * s * hazard
	d.endVary = s * s * max(0, 1-hazard*(hazard-z))
	if side*(d.end-t) <= 0 {
		d.end = t + side*1e-6
	}
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
		if c.tr.merged {
			return 0.15 + min(0.4, 0.01*p.n)
		}
	}
	return 0.15
}

// served counts a run that was served, and returns what it costs.
func (d *crowd) served(e *event) (cost float64) {
	n, cost := d.windows(e)
	d.move(e.to)
	if d.p.kind == SlidingLog {
		d.log.add(e.from, e.to, n, 0)
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
		end := d.end
		if !p.first {
			end = p.edge + (d.index+1)*p.period
		}
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
	if z > 5 {
		return 0 // it tells nothing
	}
	likely := normal(z)
	cost := -math.Log(strange + (1-strange)*likely)
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
		d.log.shift(d.at-d.p.period, off, from, to)
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
	switch p := d.p; {
	case p.first:
		off := math.Sqrt(d.endVary)
		begun := d.end - p.period
		return from <= begun+1e-9 && begun-1e-9 <= to && off > 0 || from <= d.end && d.end <= to
	case p.kind == FixedWindow:
		return math.Floor((from-p.edge)/p.period) != math.Floor((to-p.edge)/p.period)
	}
	return false
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
			d.log.add(d.at, t, more, more)
		}
	case p.first:
		d.moveFirst(t)
	default:
		d.moveWindows(t)
	}
	d.at = t
	if p.kind == FixedWindow {
		d.mean, d.vary = atMost(d.mean, d.vary, p.n)
	}
}

// atMost is the mean and variance of the smaller of what is normal and n.
func atMost(mean, vary, n float64) (m, v float64) {
	s := math.Sqrt(vary)
	if mean+4*s < n {
		return mean, vary
	}
	if s < 1e-3 {
		return min(mean, n), vary
	}
	a := (n - mean) / s
	q, f := normal(a), math.Exp(-a*a/2)/math.Sqrt(2*math.Pi)
	m = mean*q - s*f + n*(1-q)
	square := (mean*mean+vary)*q - s*(mean+n)*f + n*n*(1-q)
	return m, max(0, square-m*m)
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

// moveFirst begins windows with the first request of others after the last one
// ended, or at t.
func (d *crowd) moveFirst(t float64) {
	p := d.p
	begun := d.at
	if d.end == math.Inf(-1) {
		d.mean, d.vary, d.end, d.endVary, begun = 0, 0, t+p.period, 0, t
	}
	cycle := p.period + 1/p.others
	if k := math.Floor((t-d.end)/cycle) - 1; k > 0 {
		d.end += k * cycle
		d.endVary += k / (p.others * p.others)
	}
	for d.end <= t {
		rest := t - d.end
		q := math.Exp(-p.others * rest)
		mean := (1 - q) / p.others // of the least of an exponential time and the rest
		square := 2/(p.others*p.others)*(1-q) - 2*rest*q/p.others
		begun = d.end + mean
		d.end = begun + p.period
		d.endVary = min(d.endVary*(1-q)+max(0, square-mean*mean), p.period*p.period/12)
		d.mean, d.vary = 0, p.others*p.others*d.endVary
	}
	more := p.others * max(0, t-begun)
	d.mean, d.vary = d.mean+more, d.vary+more
}
