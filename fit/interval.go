package fit

import "math"

// explained is how much more than the least the cost may be for params to lie in
// their interval: half the 95 % quantile of chi-squared with one degree.
const explained = 1.92

// margin is explained, and twice that with other callers: their traffic is a
// model, and what is best under it is found less exactly.
func (c *scorer) margin() float64 {
	if c.shared {
		return 2 * explained
	}
	return explained
}

// A span is the range of one param, with the others as they fit best.
type span struct{ low, high float64 }

// wide is half the span relative to its middle.
func (s span) wide() float64 {
	if s.low+s.high <= 0 {
		return 0
	}
	return (s.high - s.low) / (s.high + s.low)
}

// A weighed is the best of one kind, centred, with the spans of its params.
type weighed struct {
	found
	gain   float64 // what the latencies say in favour
	n      span
	rate   span
	period span
	edge   span
	modes  []found
	crowd  bool // other callers' requests explain the answers about as well
	steady bool // of a Delay: nothing but its rate shows in the waits
}

// weigh finds the spans of f and centres it in them: where refusals lie apart,
// everything between them explains them equally.
func (c *scorer) weigh(f found) weighed {
	c.events = c.tr.events
	w := weighed{found: f}
	if f.p.n == 0 {
		return w
	}
	rate := func(p *params) *float64 { return &p.rate }
	period := func(p *params) *float64 { return &p.period }
	edge := func(p *params) *float64 { return &p.edge }
	switch {
	case f.p.kind == TokenBucket:
		w.rate = c.profile(&w.found, rate, f.p.rate, true)
	case f.p.period > 0:
		free := !f.p.first && f.p.kind != SlidingLog
		if free {
			c.explore(w.p)
			c.anchor(&w.found)
			w.edge = c.profile(&w.found, edge, f.p.period, false)
		}
		w.period = c.profile(&w.found, period, f.p.period, true)
		if free {
			w.edge = c.profile(&w.found, edge, f.p.period, false)
		}
	}
	c.snap(&w)
	w.n = c.profile(&w.found, func(p *params) *float64 { return &p.n }, w.p.n, false)
	w.widen(c.modes(8), c.margin())
	return w
}

// widen adds modes, and the params of those that explain as much to the spans.
func (w *weighed) widen(modes []found, margin float64) {
	w.modes = modes
	for _, m := range w.modes { // other params may explain it as well, far from these
		if m.cost > w.cost+margin {
			continue
		}
		w.rate = w.rate.with(m.p.rate)
		w.period = w.period.with(m.p.period)
		if w.edge.high > w.edge.low { // the window of m that begins nearest
			w.edge = w.edge.with(m.p.edge + math.Round((w.p.edge-m.p.edge)/m.p.period)*m.p.period)
		}
		w.n = w.n.with(m.p.n)
	}
}

// with is s, or more to hold x.
func (s span) with(x float64) span { return span{min(s.low, x), max(s.high, x)} }

// explore tries other periods with all edges near: a longer one with an earlier
// edge may explain the same.
func (c *scorer) explore(p params) {
	for _, k := range [...]float64{0.8, 0.88, 0.94, 0.97, 1.03, 1.06, 1.13, 1.25} {
		for i := -12.0; i <= 12; i++ {
			q := p
			q.period *= k
			q.edge += i * p.period / 40
			c.solve(&q, c.least+c.margin())
		}
	}
}

// anchor moves the edge to where one was seen best: in the shortest of the last
// times from a refusal to the next served. There, an error of the period matters
// least.
func (c *scorer) anchor(f *found) {
	at, wide, seen := 0.0, math.Inf(1), 0
	for i := len(c.events) - 1; i > 0 && seen < 6; i-- {
		u, v := c.events[i-1], c.events[i]
		if u.n > 0 || v.n == 0 {
			continue
		}
		if seen++; v.from-u.to < wide {
			at, wide = (u.to+v.from)/2, v.from-u.to
		}
	}
	q := *f
	q.p.edge += math.Round((at-q.p.edge)/q.p.period) * q.p.period
	if q.cost = c.cost(&q.p, math.Inf(1)); q.cost <= f.cost+0.1 {
		*f = q
	}
}

// snap sets the period to a round one that explains as much.
func (c *scorer) snap(w *weighed) {
	for _, r := range round {
		if r < w.period.low || r > w.period.high {
			continue
		}
		q := w.found
		q.p.period = r
		if q.cost = c.cost(&q.p, math.Inf(1)); q.cost <= w.cost+0.1 {
			w.found = q
			return
		}
	}
}

// profile finds how far one param can move, and centres it.
func (c *scorer) profile(f *found, at func(*params) *float64, unit float64, solve bool) span {
	x0 := *at(&f.p)
	fits := func(x float64) bool {
		q := f.p
		*at(&q) = x
		if c.cost(&q, f.cost+c.margin()+1) <= f.cost+c.margin() {
			return true
		}
		return solve && c.solve(&q, f.cost+c.margin()+1) <= f.cost+c.margin()
	}
	s := span{c.reach(fits, x0, -unit), c.reach(fits, x0, unit)}
	q := *f
	*at(&q.p) = (s.low + s.high) / 2
	if at(&q.p) == &q.p.n {
		if q.p.n = math.Round(q.p.n); f.p.kind != TokenBucket {
			q.p.n = math.Ceil(s.low - 1e-9) // no more was served
		}
	}
	x := c.cost(&q.p, f.cost+1)
	if solve {
		if r := q.p; c.solve(&r, x) < x-1e-9 {
			q.p = r
			x = c.cost(&q.p, math.Inf(1))
		}
	}
	if q.cost = x; x <= f.cost+0.1 {
		*f = q
	}
	return s
}

// reach is how far from x0 towards its side fits stays true: it doubles its step
// and then halves the rest.
func (c *scorer) reach(fits func(float64) bool, x0, unit float64) float64 {
	good, step := x0, unit/4096
	bad := x0
	for range 14 {
		if bad = x0 + step; bad <= 0 && unit < 0 && x0 > 0 && -unit == x0 {
			bad = x0 / 1024
		}
		if !fits(bad) {
			break
		}
		good = bad
		step *= 2
	}
	if good == bad {
		return good
	}
	for range 5 {
		mid := (good + bad) / 2
		if fits(mid) {
			good = mid
		} else {
			bad = mid
		}
	}
	return good
}
