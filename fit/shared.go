package fit

import (
	"math"
	"slices"
)

// share fits p with other callers: from where it fits best without them, and
// from those of other kinds, it searches near in every param.
func (c *scorer) share(kind Kind, first bool, from []params) found {
	best := []found{}
	c.least, c.kept = math.Inf(1), c.kept[:0]
	for _, p := range from {
		if kind == TokenBucket != (p.kind == TokenBucket) {
			continue
		}
		p.kind, p.first = kind, first
		for _, part := range [...]float64{0.01, 0.03, 0.08, 0.2} {
			q := p
			q.others = part * p.long()
			for _, q.n = range [...]float64{p.n, math.Round(p.n*(1+part/2) + 1), math.Round(p.n*(1+part) + 1)} {
				if x := c.crowdCost(&q, c.ceiling); x < c.ceiling {
					best = append(best, found{q, x})
				}
			}
		}
	}
	if len(best) == 0 {
		return found{cost: hopeless}
	}
	slices.SortStableFunc(best, func(a, b found) int { return cmpFloat(a.cost, b.cost) })
	apart := best[:1]
	for _, f := range best[1:] {
		if len(apart) < 3 && !slices.ContainsFunc(apart, func(g found) bool { return g.p.period == f.p.period && g.p.rate == f.p.rate }) {
			apart = append(apart, f)
		}
	}
	for i := range apart {
		apart[i] = c.settle(apart[i])
	}
	slices.SortStableFunc(apart, func(a, b found) int { return cmpFloat(a.cost, b.cost) })
	return apart[0]
}

// settle improves f by ever smaller changes of each of its params.
func (c *scorer) settle(f found) found {
	for _, s := range [...]float64{0.08, 0.03, 0.012, 0.005, 0.002, 0.0008} {
		for range 4 {
			was := f.cost
			for _, q := range nearShared(f.p, s) {
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

// nearShared are the params a relative step s from p.
func nearShared(p params, s float64) (all []params) {
	step := max(1, math.Round(s*p.n))
	for _, d := range [...]float64{step, -step} {
		if q := p; q.n+d >= 1 {
			q.n += d
			all = append(all, q)
		}
	}
	for _, k := range [...]float64{1 + s, 1 / (1 + s)} {
		q := p
		q.rate, q.period = q.rate*k, q.period*k
		all = append(all, q)
		q = p
		q.others *= 1 + 10*s*(k-1)/s
		if k < 1 {
			q.others = p.others / (1 + 10*s)
		}
		all = append(all, q)
		q = p
		q.n = math.Round(p.n * k)
		q.rate, q.period = q.rate*k, q.period*k
		all = append(all, q)
		if p.period > 0 && !p.first && p.kind != SlidingLog {
			q = p
			q.edge += (k - 1) * p.period
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

func with(p params, n, others float64) params {
	p.n, p.others = max(1, p.n+n), p.others*others
	return p
}
