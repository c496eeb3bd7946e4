package sim

import (
	"math"

	"github.com/throttle-go/throttle/limit"
)

// part is what each node grants of the i-th limit where that is l, with the
// places to wait that come with it.
func (s *Server) part(i int, l limit.Limit) limit.Limit {
	l = refill(l, l.Count, l.Period)
	if i == 0 && !l.Unlimited() {
		l.Burst += s.Queue
	}
	return share(l, s.Nodes)
}

// MaxCost returns the largest cost that all limits of s that count costs grant
// at once at the start, at a node if there are several: MaxInt64 if there is no
// such limit, or none that grants anything.
func (s *Server) MaxCost() int64 {
	least := int64(math.MaxInt64)
	for i, q := range s.quotas() {
		l := s.part(i, q.Limit)
		if most := l.Max(); q.Costs && most > 0 {
			least = min(least, most)
		}
	}
	return least
}

// cost is the mean of what calls count in a limit that grants so many at once.
func (c *crowd) cost(most int64) float64 {
	sum := 0.0
	for _, g := range c.groups {
		sum += float64(g.Processes) * g.Cost.mean(float64(max(most, 1)))
	}
	return sum / max(c.processes, 1)
}

// mean is the mean of costs that are cut to 1 below and to most above. The
// Spread is summed up in steps.
func (c *Cost) mean(most float64) (mean float64) {
	steps := 1
	if c.Spread > 0 {
		steps = 100
	}
	for i := range steps {
		u := (float64(i)+0.5)/float64(steps)*2 - 1
		m := float64(max(c.Mean, 1)) * (1 + c.Spread*u)
		mean += cutAt(m, c.Tail, most) + 1 - cutAt(m, c.Tail, 1)
	}
	return mean / float64(steps)
}

// cutAt is the mean of min(x, most), where x is log-normal of that median and
// tail.
func cutAt(median, tail, most float64) float64 {
	if tail == 0 {
		return min(median, most)
	}
	z := math.Log(most/median) / tail
	return median*math.Exp(tail*tail/2)*normalBelow(z-tail) + most*normalBelow(-z)
}

// normalBelow is the share of the standard normal distribution below z.
func normalBelow(z float64) float64 { return math.Erfc(-z/math.Sqrt2) / 2 }
