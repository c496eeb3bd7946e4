package fit

import (
	"cmp"
	"math"
	"slices"
)

// A found is params with their cost.
type found struct {
	p    params
	cost float64
}

// starts is how many of the grid are refined.
const starts = 5

// search finds the params of a kind that explain the trace best. It begins on
// the first part of the trace, where the grid is fine enough for windows to stay
// in phase, and follows the best of it into the whole.
func (c *scorer) search(kind Kind, first bool) found {
	all := c.tr.events
	c.least, c.kept = math.Inf(1), c.kept[:0]
	var best []found
	for _, part := range parts(len(all) - c.from) {
		c.events = all[:c.from+part]
		for i := range best {
			best[i].cost = c.solve(&best[i].p, c.ceiling)
		}
		best = c.grid(best, params{kind: kind, first: first})
		for i := range best {
			best[i] = c.refine(best[i])
		}
		best = top(best)
		for i := range best {
			best[i] = c.refine(c.scan(best[i]))
		}
		best = top(best)
	}
	return best[0]
}

// scan tries everything near f in small steps, as all but the right params may
// cost the same.
func (c *scorer) scan(f found) found {
	if f.cost <= 0 || f.p.n == 0 || f.cost > c.least+excluded {
		return f
	}
	try := func(q params) {
		if x := c.solve(&q, f.cost+c.margin()); x < f.cost-1e-9 {
			f = found{q, x}
		}
	}
	p, free := f.p, f.p.period > 0 && !f.p.first && f.p.kind != SlidingLog
	for i := -60.0; i <= 60 && !free; i++ {
		q := p
		q.rate, q.period = q.rate*(1+i/1000), q.period*(1+i/1000)
		try(q)
	}
	for i := -8.0; i <= 8 && free; i++ {
		for k := -6.0; k <= 6; k++ {
			q := p
			q.period, q.edge = p.period*(1+i/100), p.edge+k/60*p.period
			try(q)
		}
	}
	return f
}

// keep remembers params that may explain the answers as well as the best.
func (c *scorer) keep(p *params, cost float64) {
	if cost < c.least+c.margin() && len(c.events) == len(c.tr.events) {
		c.least = min(c.least, cost)
		if len(c.kept) >= 4096 {
			c.kept = slices.DeleteFunc(c.kept, func(f found) bool { return f.cost > c.least+c.margin() })
		}
		if len(c.kept) < 4096 {
			c.kept = append(c.kept, found{*p, cost})
		}
	}
}

// modes are at most n of those kept, spread over what their periods or rates
// are, the ends included.
func (c *scorer) modes(n int) (all []found) {
	c.kept = slices.DeleteFunc(c.kept, func(f found) bool { return f.cost > c.least+c.margin() })
	slices.SortStableFunc(c.kept, func(a, b found) int {
		return cmp.Or(cmp.Compare(a.p.period, b.p.period), cmp.Compare(a.p.rate, b.p.rate), cmp.Compare(a.p.n, b.p.n), cmp.Compare(a.p.edge, b.p.edge))
	})
	if len(c.kept) == 0 {
		return nil
	}
	size := func(f found) float64 { return math.Log(max(f.p.period, 1e-9)) + math.Log(max(f.p.rate, 1e-9)) }
	low, high := size(c.kept[0]), size(c.kept[len(c.kept)-1])
	for i, f := range c.kept {
		next := low + (high-low)*float64(len(all))/float64(max(n-1, 1))
		if size(f) >= next-1e-12 && len(all) < n || i == len(c.kept)-1 {
			all = append(all, f)
		}
	}
	return all
}

// parts are how many events are looked at, one after the other.
func parts(n int) []int {
	if n < 60 {
		return []int{n}
	}
	return []int{n / 3, n}
}

// grid adds to best what is best of a grid.
func (c *scorer) grid(best []found, p params) []found {
	try := func() {
		bound := c.ceiling
		if len(best) >= starts {
			bound = min(bound, max(best[starts-1].cost, c.least+c.margin()))
		}
		q := p
		if x := c.solve(&q, bound); x < bound {
			best = append(best, found{q, x})
			slices.SortStableFunc(best, func(a, b found) int { return cmp.Compare(a.cost, b.cost) })
			best = best[:min(len(best), 2*starts)]
		}
	}
	switch {
	case p.kind == Concurrency || p.kind == Unlimited:
		try()
	case p.kind == TokenBucket:
		for _, p.rate = range c.rates() {
			try()
		}
	case p.first || p.kind == SlidingLog:
		for _, p.period = range c.periods(1.06, 1.2) {
			try()
		}
	default:
		c.plane(&p, try)
	}
	return top(best)
}

// plane tries periods with edges.
func (c *scorer) plane(p *params, try func()) {
	if p.kind == SlidingCounter {
		begun := c.lastServed()
		for _, p.period = range c.periods(1.15, 5) {
			p.edge = c.tr.aligned()
			try()
			for i := range 12 { // refusals end anywhere in its window
				p.edge = begun - float64(i)*p.period/12
				try()
			}
		}
		c.slow(p, try)
		return
	}
	edges := c.edges(3)
	for _, p.period = range append(c.periods(1.15, 5), c.between()...) {
		for _, p.edge = range edges {
			try()
		}
	}
}

// slow tries the counters that are seen in a part of a period only, which may be far longer
// than the answers: from the edge at which the first refusals ended, all of the window
// before comes back at a constant rate. A line through what was served since then, at two
// refusals, has that rate and begins at that edge.
func (c *scorer) slow(p *params, try func()) {
	ends := c.drained()
	if len(ends) < 3 || ends[0].n == 0 {
		return
	}
	n, first := ends[0].n, ends[1]
	for k := len(ends) - 1; k > 1; k = (k + 1) / 2 {
		for _, off := range [...]float64{0, 0.5, -0.5, 1, -1} {
			rate := (ends[k].n - first.n + off) / (ends[k].to - first.to)
			if p.period, p.edge = n/rate, first.to-(first.n-n+0.5)/rate; rate > 0 && p.period > 0 { // no two at once, by a coarse clock
				try()
			}
		}
	}
}

// drained are the refusals that end a run, with what was served until then.
func (c *scorer) drained() (ends []event) {
	served := 0.0
	for i, e := range c.events {
		if served += e.n; e.n == 0 && (i == 0 || c.events[i-1].n > 0) {
			ends = append(ends, event{to: e.to, n: served})
		}
	}
	return ends
}

// top is the best of them, without equals.
func top(best []found) []found {
	slices.SortStableFunc(best, func(a, b found) int { return cmp.Compare(a.cost, b.cost) })
	best = slices.CompactFunc(best, func(a, b found) bool { return a == b })
	if len(best) == 0 {
		return []found{{cost: hopeless}}
	}
	return best[:min(len(best), starts)]
}

// rates are those worth trying: from one in twice the time seen to more than
// was sent.
func (c *scorer) rates() (all []float64) {
	low := 0.5 / max(c.tr.end, 1e-3)
	for r := low; r < 2e4 && len(all) < 2400; r *= 1.01 {
		all = append(all, r)
	}
	return all
}

// round are the periods that people choose, in seconds.
var round = [...]float64{
	1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 30, 40, 45, 60, 90, 120, 180, 300, 600, 900, 1800, 3600,
	7200, 10800, 14400, 21600, 43200, 86400,
}

// periods are those worth trying, at this ratio, with the round ones and those
// that refusals ended after or the server told.
func (c *scorer) periods(ratio, times float64) (all []float64) {
	longest := max(c.tr.end*times, 0.1)
	shortest := max(0.02, c.tr.latency, longest/1e6)
	for p := shortest; p < longest && len(all) < 300; p *= ratio {
		all = append(all, p)
	}
	for _, p := range round {
		if p > shortest && p < longest {
			all = append(all, p)
		}
	}
	all = append(append(all, c.ended()...), c.lasted()...)
	return slices.DeleteFunc(all, func(p float64) bool { return p < 1e-3 || math.IsInf(p, 0) })
}

// ended are the times from the beginning of a run to the end of the refusals after
// it, of the latest, and those that the server told.
func (c *scorer) ended() (all []float64) {
	begun, refused := math.Inf(-1), false
	for i, e := range c.events {
		if e.n == 0 {
			refused = true
			if e.retry > 0 && len(c.events)-i < 40 {
				all = append(all, e.to+e.retry-begun)
			}
			continue
		}
		if i == 0 || refused {
			if begun > math.Inf(-1) && len(c.events)-i < 40 {
				before := c.events[i-1].to
				all = append(all, e.from-begun, before-begun+1e-6, (e.from+before)/2-begun)
			}
			begun = e.from
		}
		refused = false
	}
	return all
}

// lasted are the times to the sharpest ends of refusals from the requests after a
// rest before them: one of these began the window.
func (c *scorer) lasted() (all []float64) {
	var gaps []gap
	rest := 0.01 * (c.events[len(c.events)-1].to - c.events[0].from)
	var begun []float64
	for i := range c.events {
		e := &c.events[i]
		if e.n == 0 {
			continue
		}
		after := i > 0 && c.events[i-1].n == 0
		if after {
			gaps = append(gaps, gap{c.events[i-1].to, e.from, begun[max(0, len(begun)-4):]})
		}
		if i == 0 || after || e.from-c.events[i-1].to > rest {
			begun = append(begun, e.from)
		}
	}
	slices.SortStableFunc(gaps, func(a, b gap) int { return cmpFloat(a.to-a.from, b.to-b.from) })
	for _, g := range gaps[:min(len(gaps), 8)] {
		for _, from := range g.begun {
			all = append(all, g.to-from, (g.from+g.to)/2-from)
		}
	}
	return all
}

// A gap is from the last of the refusals in a row to the next request served, after
// requests that may have begun the window.
type gap struct {
	from, to float64
	begun    []float64
}

// edges are times at which a window may have begun: where refusals ended, in
// the n shortest times between a refusal and the next served, and the beginning
// of 1970's windows of any round period.
func (c *scorer) edges(n int) []float64 {
	var gaps [][2]float64
	for i := 1; i < len(c.events); i++ {
		if c.events[i-1].n == 0 && c.events[i].n > 0 {
			gaps = append(gaps, [2]float64{c.events[i-1].to, c.events[i].from})
		}
	}
	slices.SortStableFunc(gaps, func(a, b [2]float64) int { return cmp.Compare(a[1]-a[0], b[1]-b[0]) })
	all := []float64{c.tr.aligned()}
	for _, g := range gaps[:min(len(gaps), n)] {
		w := g[1] - g[0]
		all = append(all, g[0]+0.1*w, g[0]+0.5*w, g[0]+0.95*w)
	}
	if len(gaps) == 0 {
		all = append(all, 0)
	}
	for i := len(c.events) - 1; i >= 0; i-- { // or where the server says
		if e := &c.events[i]; e.n == 0 && e.retry > 0 {
			return append(all, e.to+e.retry)
		}
	}
	return all
}

// lastServed is when the last run before the first refusal ended.
func (c *scorer) lastServed() float64 {
	for i, e := range c.events {
		if e.n == 0 && i > 0 {
			return c.events[i-1].to
		}
	}
	return 0
}

// between are periods of which some multiple lies between the ends of two short
// times of refusals.
func (c *scorer) between() (all []float64) {
	edges := c.edges(5)[1:]
	for i := 1; i < len(edges); i += 3 { // the middle of each
		for j := 1; j < i; j += 3 {
			d := math.Abs(edges[i] - edges[j])
			for k := 1.0; k <= 6 && d > 0; k++ {
				all = append(all, d/k)
			}
		}
	}
	return all
}

// aligned is a midnight, UTC, in seconds since the origin.
func (tr *trace) aligned() float64 {
	day := tr.origin.UnixMilli() % (24 * 3600 * 1000)
	return -float64(day) / 1000
}

// refine improves f by small changes of each of its params.
func (c *scorer) refine(f found) found {
	if f.p.n == 0 {
		return f
	}
	for _, s := range [...]float64{0.05, 0.02, 0.007, 0.002, 0.0006, 0.0002} {
		for range 3 {
			was := f.cost
			for _, q := range near(f.p, s) {
				if x := c.solve(&q, f.cost+c.margin()); x < f.cost-1e-9 {
					f = found{q, x}
				}
			}
			if f.cost >= was {
				break
			}
		}
	}
	return f
}

// near are the params a relative step s from p.
func near(p params, s float64) (all []params) {
	for _, k := range [...]float64{1 + s, 1 / (1 + s)} {
		q := p
		q.rate, q.period = q.rate*k, q.period*k
		all = append(all, q)
	}
	if p.period <= 0 || p.first || p.kind == SlidingLog {
		return all
	}
	for _, k := range [...]float64{s, -s} {
		q := p
		q.edge += k * p.period
		all = append(all, q)
	}
	return all
}
