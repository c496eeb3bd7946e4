package fit

import (
	"math"
	"slices"
)

// share fits a kind with other callers: from where kinds fit best without them,
// it searches near in every param.
func (c *scorer) share(kind Kind, first bool, from []params) found {
	c.least, c.kept = math.Inf(1), c.kept[:0]
	var best []found
	bound := c.ceiling
	for _, p := range from {
		if (kind == TokenBucket) != (p.kind == TokenBucket) {
			continue
		}
		p.kind, p.first = kind, first
		for _, part := range [...]float64{0.01, 0.03, 0.08, 0.2} {
			for _, more := range [...]float64{0, part / 2, part} { // of the count: what others have used
				q := p
				q.n, q.others = math.Round(p.n*(1+more)+math.Ceil(more)), part*p.long()
				if x := c.crowdCost(&q, bound); x < bound {
					best, bound = append(best, found{q, x}), min(bound, x+excluded)
				}
			}
		}
	}
	best = apart(append(best, c.unseen(kind, first, bound)...), 3)
	for i := range best {
		if c.phased(&best[i].p) {
			best[i] = c.sweep(best[i])
		}
		best[i] = c.settle(best[i])
	}
	return top(best)[0]
}

// unseen are windows from the first request of any period, of which others began some: no
// kind that is alone begins them where they did. The count is a little more than was used
// of it at most refusals.
func (c *scorer) unseen(kind Kind, first bool, bound float64) (all []found) {
	if !first {
		return nil
	}
	for _, period := range c.periods(1.04, 1.2) {
		p := params{kind: kind, first: first, period: period}
		if p.n = c.usual(&p); p.n < 1 || period < c.tr.shortest() {
			continue
		}
		for _, part := range [...]float64{0.03, 0.1} {
			p.others = part * p.n / period
			if x := c.crowdCost(&p, bound); x < bound {
				all, bound = append(all, found{p, x}), min(bound, x+excluded)
			}
		}
	}
	return all
}

// usual is what this caller had used at most refusals, of three quarters of them less.
func (c *scorer) usual(p *params) float64 {
	c.served, c.left, c.whole = c.served[:0], c.left[:0], c.whole[:0]
	if c.uses(p); len(c.left) == 0 {
		return 0
	}
	slices.Sort(c.left)
	return math.Round(c.left[len(c.left)*3/4])
}

// phased reports whether the windows of p begin at a phase.
func (c *scorer) phased(p *params) bool {
	return p.period > 0 && !p.first && p.kind != SlidingLog
}

// sweep tries all edges at periods near that of f: small errors of a period add up
// over many windows, so that what lies between costs more.
func (c *scorer) sweep(f found) found {
	from := f.p
	for _, k := range [...]float64{0.94, 0.97, 0.985, 1, 1.015, 1.03, 1.06} {
		for i := range 20 {
			q := from
			q.period, q.edge = q.period*k, q.edge+float64(i)/20*q.period
			if x := c.crowdCost(&q, f.cost); x < f.cost {
				f = found{q, x}
			}
		}
	}
	return f
}

// apart are the n best with other periods or rates than those before.
func apart(all []found, n int) (best []found) {
	slices.SortStableFunc(all, func(a, b found) int { return cmpFloat(a.cost, b.cost) })
	for _, f := range all {
		same := func(g found) bool { return g.p.period == f.p.period && g.p.rate == f.p.rate }
		if len(best) < n && !slices.ContainsFunc(best, same) {
			best = append(best, f)
		}
	}
	return best
}

// settle improves f by ever smaller changes of each of its params.
func (c *scorer) settle(f found) found {
	for _, s := range [...]float64{0.08, 0.03, 0.012, 0.005, 0.002, 0.0008} {
		for range 4 {
			was := f.cost
			for _, q := range append(nearShared(f.p, s), c.turned(f.p, s)...) {
				x := c.crowdCost(&q, max(f.cost, c.least+c.margin()))
				if c.keep(&q, x); x < f.cost-1e-6 {
					f = found{q, x}
				}
			}
			if f.cost > was-0.02 {
				break
			}
		}
	}
	return f
}

// nearShared are the params a relative step s from p, and ten in the rate of the
// others, which tells least.
func nearShared(p params, s float64) (all []params) {
	step := max(1, math.Round(s*p.n))
	for _, side := range [...]float64{1, -1} {
		k := math.Pow(1+s, side)
		all = append(all, with(p, side*step, 1), with(p, 0, math.Pow(1+10*s, side)))
		q := p
		q.rate, q.period = q.rate*k, q.period*k
		all = append(all, q)
		q.n = max(1, math.Round(p.n*k))
		all = append(all, q)
		if p.kind == SlidingLog { // what this caller has of it stays the same
			q = with(p, side*step, 1)
			q.others = max(0, q.others+side*step/p.period)
			all = append(all, q)
		}
		if p.period > 0 && !p.first && p.kind != SlidingLog {
			q = p
			q.edge += side * s * p.period
			all = append(all, q)
		}
	}
	return all
}

// turned are windows that are a relative step s longer or shorter, with the edges at the
// beginning or in the middle of the events kept where they are: of a period alone, the edge
// at the end is kept, which moves all others.
func (c *scorer) turned(p params, s float64) (all []params) {
	if !c.phased(&p) {
		return nil
	}
	windows := math.Floor((p.edge - c.events[c.from].from) / p.period)
	for _, k := range [...]float64{1 + s, 1 / (1 + s), 1 + s/8, 1 / (1 + s/8)} {
		for _, w := range [...]float64{windows, windows / 2} {
			q := p
			q.period *= k
			q.edge += math.Round(w) * (q.period - p.period)
			all = append(all, q)
		}
	}
	return all
}

// solveShared sets p.n and p.others to what explains the events best near
// them, and returns the cost.
func (c *scorer) solveShared(p *params, bound float64) float64 {
	best := c.crowdCost(p, bound)
	for _, s := range [...]float64{0.02, 0.005} {
		step := max(1, math.Round(s*p.n))
		for _, q := range [...]params{with(*p, step, 1), with(*p, -step, 1), with(*p, 0, 1+10*s), with(*p, 0, 1/(1+10*s))} {
			if x := c.crowdCost(&q, min(best, bound)); x < best {
				*p, best = q, x
			}
		}
	}
	c.keep(p, best)
	return best
}

// with is p with a count of n more, and others times as many other callers.
func with(p params, n, others float64) params {
	p.n, p.others = max(1, p.n+n), p.others*others
	return p
}

// shareAll weighs the kinds with other callers where none explains the answers
// without.
func (c *scorer) shareAll(all []weighed) {
	least := math.Inf(1)
	var from []params
	for i := range all {
		w := &all[i]
		least = min(least, w.cost-w.gain-penalty(&w.p, c.tr.latency))
		if w.p.kind != Concurrency && w.p.kind != Delay && w.p.n > 0 {
			from = append(from, w.p)
			for _, m := range w.modes[:min(len(w.modes), 4)] {
				from = append(from, m.p)
			}
		}
	}
	if least < costRefused-0.5 { // a bucket as fast as was sent explains nearly all at one refusal
		return
	}
	c.shared = true
	for i := range all {
		w := &all[i]
		if w.p.kind == Concurrency || w.p.kind == Delay || w.p.n == 0 {
			continue
		}
		f, alone := c.share(w.p.kind, w.p.first, from), w.cost-penalty(&w.p, c.tr.latency)
		if least = min(least, f.cost); f.cost < alone+2*odds {
			c.choose(w, f, f.cost < least+excluded, f.cost+1 < alone)
		}
		w.crowd = f.cost < alone+odds
		if f.p.kind == FixedWindow && !f.p.first { // from the first request, each begins later than the last ended
			for _, k := range [...]float64{1, 0.985, 0.97, 0.95, 0.92, 0.88, 0.82, 0.75} {
				q := f.p
				q.period *= k
				from = append(from, q)
			}
		}
	}
}

// choose takes the params with other callers or those without, whichever are as
// likely in a larger part of the params: those that fit by chance, in a small one.
func (c *scorer) choose(w *weighed, f found, near, cheaper bool) {
	if !near {
		if cheaper {
			*w = c.weighShared(w, f, false)
		}
		return
	}
	x := c.weighShared(w, f, true)
	off := x.cost + x.narrow() - w.cost - w.narrow()
	if off < 0 || cheaper {
		x.cost = min(x.cost, w.cost)
		*w = x
	} else if off < c.margin() {
		w.rate, w.period, w.n = w.rate.with(x.p.rate), w.period.with(x.p.period), w.n.with(x.p.n)
	}
}

// weighShared is w with other callers as in f; of kinds that are far behind, no
// spans are sought.
func (c *scorer) weighShared(w *weighed, f found, near bool) weighed {
	more := penalty(&f.p, c.tr.latency)
	x := weighed{found: f, n: span{f.p.n, f.p.n}}
	if near {
		x = c.weigh(f)
	}
	x.cost += more + 1
	x.widen(append(append(x.modes, within(w.modes, more)...), w.found), c.margin())
	return x
}

// within are fs with more cost.
func within(fs []found, more float64) (all []found) {
	for _, f := range fs {
		f.cost += more
		all = append(all, f)
	}
	return all
}
