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
	for _, p := range from {
		if (kind == TokenBucket) != (p.kind == TokenBucket) {
			continue
		}
		p.kind, p.first = kind, first
		for _, part := range [...]float64{0.01, 0.03, 0.08, 0.2} {
			for _, more := range [...]float64{0, part / 2, part} { // of the count: what others have used
				q := p
				q.n, q.others = math.Round(p.n*(1+more)+math.Ceil(more)), part*p.long()
				if x := c.crowdCost(&q, c.ceiling); x < c.ceiling {
					best = append(best, found{q, x})
				}
			}
		}
	}
	best = apart(best, 3)
	for i := range best {
		best[i] = c.settle(best[i])
	}
	return top(best)[0]
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
		if p.period > 0 && !p.first && p.kind != SlidingLog {
			q = p
			q.edge += side * s * p.period
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
