package fit

import (
	"math"
	"slices"
)

// The noise model: an answer that params explain costs nothing, in negative
// logarithms of its likelihood. Other callers of a shared limit can cause a
// refusal too early, the likelier the less was left; an answer served beyond the
// limit can only be bad timing, or a server of several nodes.
const (
	costRefused = 4.0 // with nearly nothing left
	costServed  = 4.0
	costFar     = 7.0  // besides, where a third of the limit was left or more
	costTold    = 3.0  // at most, for what the server told to remain
	fuzzy       = 0.3  // of a request: rounding
	hopeless    = 1e18 // costs more than anything
)

func refusedCost(left, n float64) float64 {
	if left < 1-1e-6 {
		return 0
	}
	return costRefused + costFar*min(1, (left-1)/(0.3*n))
}

func servedCost(over, n, fuzzy float64) float64 {
	if over <= fuzzy {
		return 0
	}
	return costServed + costFar*min(1, over/(0.3*n))
}

// A scorer tells how well params explain a trace. It keeps its scratch space.
type scorer struct {
	tr      *trace
	events  []event // of the trace, all or the first
	from    int     // of events, the first that costs something
	runs    []event
	bins    []event // of a crowd
	windows []window
	spare   []window
	served  []float64
	left    []float64
	whole   []float64 // what was used and what remains by the server
	ceiling float64   // a kind that costs more is excluded
	kept    []found   // may explain as well as the best
	least   float64   // cost of those
	shared  bool      // other callers are weighed
}

// scorer is one of all that was seen.
func (tr *trace) scorer() *scorer {
	return &scorer{tr: tr, events: tr.events, from: tr.from}
}

// cost is the negative log-likelihood of the events under p, as far as it is
// below bound.
func (c *scorer) cost(p *params, bound float64) (sum float64) {
	switch p.kind {
	case Unlimited, Delay:
		return float64(c.refusals())*(costRefused+costFar) + float64(c.told())*costTold
	case Concurrency:
		return c.insideCost(p, bound)
	}
	if p.others > 0 {
		return c.crowdCost(p, bound)
	}
	s := begin(p, c.runs)
	for i := range c.events {
		e := &c.events[i]
		if e.n == 0 {
			used := s.usedLast(e.lo)
			x := refusedCost(p.n-used-e.slack-c.fuzz(p, used), p.n)
			if sum += x; x > 0 {
				s.full(e.to, p.n)
			}
		} else {
			used := c.serve(&s, e)
			sum += servedCost(used-p.rounded(), p.n, c.rounding(p))
			if e.told == e.told {
				sum += toldCost(p.n-s.usedAt(e.to)-e.told, p.n)
			}
			if p.kind == TokenBucket {
				s.used = min(s.used, p.n)
			}
		}
		if i < c.from {
			sum = 0
		}
		if sum > bound {
			break
		}
	}
	c.runs = s.runs
	return sum
}

// fuzz is how far what was used may be from a whole number, as merged runs are
// not quite even.
func (c *scorer) fuzz(p *params, used float64) float64 {
	if p.kind != TokenBucket && c.tr.merged && math.Abs(used-math.Round(used)) > 1e-6 {
		return min(0.9, 0.02*p.n)
	}
	return 0
}

// rounding is how many requests served beyond n cost nothing: where none are
// merged, a bucket is known to what it refills in two milliseconds, as the
// clocks of servers tick.
func (c *scorer) rounding(p *params) float64 {
	if p.kind == TokenBucket && !c.tr.merged {
		return min(fuzzy, 0.03+0.002*p.rate)
	}
	return fuzzy
}

// toldCost is that of an answer which told something else than what is left.
func toldCost(off, n float64) float64 {
	return min(costTold, max(0, math.Abs(off)-1)/(0.5+0.02*n))
}

// rounded is n and what two counters may be rounded down by.
func (p *params) rounded() float64 {
	if p.kind == SlidingCounter {
		return p.n + 0.5 - fuzzy
	}
	return p.n
}

// serve counts event e and returns the least that it can have used.
func (c *scorer) serve(s *state, e *event) float64 {
	used := s.run(e)
	if s.p.first && s.start == e.from {
		s.late = e.hi - e.to
	}
	if e.hi > e.to { // decided later, less was used
		before := s.usedAt(e.to)
		used = min(used, max(used-(before-s.usedAt(e.hi)), 1))
	}
	if e.n > 1 {
		used -= 0.5 // a run is served evenly only nearly
	}
	return used
}

// insideCost is the cost of a concurrency limit.
func (c *scorer) insideCost(p *params, bound float64) (sum float64) {
	for i := c.from; i < len(c.events); i++ {
		e := &c.events[i]
		if e.n == 0 {
			sum += refusedCost(p.n-e.inside-e.slack, p.n)
		} else {
			sum += servedCost(e.inside+1-p.n, p.n, fuzzy)
			if e.told == e.told {
				sum += roomCost(p.n-e.room, e)
			}
		}
		if sum > bound {
			break
		}
	}
	return sum
}

// roomCost is that of an answer which told something else than what a concurrency limit has left. It
// lets in off more than are surely in flight and what remains.
func roomCost(off float64, e *event) float64 {
	if off > 0 {
		off = max(0, off-e.leaving-1)
	}
	return min(costTold, max(0, math.Abs(off)-e.vague))
}

// told counts the events that tell what remains.
func (c *scorer) told() (n int) {
	for i := range c.events {
		if c.events[i].told == c.events[i].told {
			n++
		}
	}
	return n
}

// refusals counts the events of refusals.
func (c *scorer) refusals() (n int) {
	for i := range c.events {
		if c.events[i].n == 0 {
			n++
		}
	}
	return n
}

// solve sets p.n to what explains the events best, given the other params, and
// returns the cost. What was used does not depend on n, so one pass finds what n
// has to be between.
func (c *scorer) solve(p *params, bound float64) float64 {
	if c.served, c.left, c.whole = c.served[:0], c.left[:0], c.whole[:0]; p.kind == Unlimited || p.kind == Delay {
		return c.cost(p, bound)
	}
	if p.period > 0 && p.period < c.tr.shortest() || p.kind == TokenBucket && p.rate > c.tr.fastest() {
		return hopeless
	}
	if p.others > 0 {
		return c.solveShared(p, bound)
	}
	c.uses(p)
	if c.tr.told { // each has to be asked what it would tell
		return c.solveTold(p, bound)
	}
	cheap, n := c.cheapest(p)
	if p.n = n; n == 0 {
		return hopeless
	}
	best := cheap
	if cheap > 0 { // with what one refusal says of the next
		best = c.cost(p, max(bound, c.least+c.margin()))
	}
	c.keep(p, best)
	return best
}

// uses finds what was used at each event.
func (c *scorer) uses(p *params) {
	s := begin(p, c.runs)
	last := math.Inf(1) // of the refusals in a row
	for i := range c.events {
		e := &c.events[i]
		switch {
		case p.kind == Concurrency && e.n == 0:
			c.left = append(c.left, e.inside+e.slack)
		case p.kind == Concurrency:
			c.served = append(c.served, e.inside+1)
			if e.told == e.told {
				c.whole = append(c.whole, e.room)
			}
		case e.n == 0:
			used := s.usedLast(e.lo)
			used += e.slack + c.fuzz(p, used)
			if used < last-0.5 { // else the one before says as much
				c.left, last = append(c.left, used), used
			}
		default:
			last = math.Inf(1)
			c.served = append(c.served, c.serve(&s, e))
			if e.told == e.told {
				c.whole = append(c.whole, s.usedAt(e.to)+e.told)
			}
		}
		if i < c.from {
			c.served, c.left, c.whole, last = c.served[:0], c.left[:0], c.whole[:0], math.Inf(1)
		}
	}
	c.runs = s.runs
}

// cheapest is the count that costs least where no refusal says anything of the
// next ones.
func (c *scorer) cheapest(p *params) (cheap, n float64) {
	cheap = hopeless
	for _, x := range c.counts() {
		if y := c.unlinked(p, x, cheap); y < cheap {
			cheap, n = y, x
		}
	}
	return cheap, n
}

// solveTold is solve where the server told what remains.
func (c *scorer) solveTold(p *params, bound float64) float64 {
	best, n := hopeless, 0.0
	for _, p.n = range c.counts() {
		x := c.cost(p, max(min(bound, best), c.least+c.margin()))
		c.keep(p, x)
		if x < best {
			best, n = x, p.n
		}
	}
	p.n = n
	return best
}

// unlinked is the cost with n where no refusal says anything of the next ones.
func (c *scorer) unlinked(p *params, n, bound float64) (sum float64) {
	rounded, fuzzy := p.rounded()-p.n, c.rounding(p)
	for _, used := range c.served {
		sum += servedCost(used-n-rounded, n, fuzzy)
	}
	for _, used := range c.left {
		if sum > bound {
			break
		}
		sum += refusedCost(n-used, n)
	}
	return sum
}

// top are the three largest uses of what was served.
func (c *scorer) top() (top [3]float64) {
	for _, x := range c.served {
		switch {
		case x > top[0]:
			top = [3]float64{x, top[0], top[1]}
		case x > top[1]:
			top = [3]float64{top[0], x, top[1]}
		case x > top[2]:
			top[2] = x
		}
	}
	return top
}

// counts are the n worth trying: what was used most, up to the least that was
// refused above it, and fewer where a few answers are strange.
func (c *scorer) counts() []float64 {
	var all [8]float64
	list := all[:0]
	add := func(n float64) {
		if n = max(math.Round(n), 1); !slices.Contains(list, n) {
			list = append(list, n)
		}
	}
	top := c.top()
	over := math.Inf(1)
	for _, x := range c.left {
		if x >= top[0]-fuzzy {
			over = min(over, x)
		}
	}
	if over < math.Inf(1) {
		add((top[0] + max(top[0], over)) / 2)
	}
	add(math.Ceil(top[0] - fuzzy))
	add(math.Ceil(top[2] - fuzzy))
	if k := len(c.left); k > 0 {
		add(math.Floor(c.left[k/2] + fuzzy))
	}
	if k := len(c.whole); k > 0 {
		add(c.whole[k/2] + fuzzy)
	}
	if c.tr.limit > 0 {
		add(c.tr.limit)
	}
	return list
}
