package fit

import (
	"math"
)

// A guess is one server that explains what was seen, ready to be asked what it
// would answer next.
type guess struct {
	p      params
	weight float64
	kind   int     // index of the kind
	cost   float64 // of the kind
	state  state
	ready  float64 // when it serves one more
	idle   float64 // when it is as if never used
}

// far is how much less likely than the first a kind may be and still count.
const far = 9.0

// guesses are the likely kinds, each with its params and those at the ends of
// their spans.
func (tr *trace) guesses(all []weighed) (gs []guess) {
	c := tr.scorer()
	best := all[0].cost - all[0].gain
	for kind, w := range all {
		off := w.cost - w.gain - best
		off = max(0, min(off, off+w.narrow()-all[0].narrow())) // a kind that fits by chance is no better known
		if w.p.n == 0 || w.p.kind == Delay || off > far && kind > 0 {
			continue
		}
		vs := c.variants(&w)
		for _, p := range vs {
			g := guess{p: p, weight: max(math.Exp(-off), 0.02) / float64(len(vs)), kind: kind, cost: off}
			gs = append(gs, g)
		}
	}
	for i := range gs {
		g := &gs[i]
		g.state = c.after(&g.p)
		g.ready = g.when(tr.end, tr.end+tr.latency, g.p.n-1+1e-6)
		g.idle = g.when(tr.end, g.ready, 0.2)
	}
	return gs
}

// inside is how far towards the end of its span a param varies.
const inside = 0.7

// variants are the params of w and those at the ends of its spans.
func (c *scorer) variants(w *weighed) []params {
	all := []params{w.p}
	bound := c.cost(&w.p, math.Inf(1)) + 2*explained
	vary := func(at func(*params) *float64, s span, least float64) {
		for _, x := range [...]float64{s.low, s.high} {
			if x > 0 && math.Abs(x-*at(&w.p)) > least || x < 0 && math.Abs(x-*at(&w.p)) > least {
				p := w.p // a little inside, where the last trial does not creep to
				*at(&p) += inside * (x - *at(&p))
				if at(&p) == &p.n {
					p.n = math.Round(p.n)
				}
				if c.cost(&p, bound) < bound || c.solve(&p, bound) < bound {
					all = append(all, p)
				}
			}
		}
	}
	for _, m := range w.modes {
		all = append(all, m.p)
	}
	vary(func(p *params) *float64 { return &p.rate }, w.rate, 0.005*w.p.rate)
	vary(func(p *params) *float64 { return &p.period }, w.period, 0.005*w.p.period)
	vary(func(p *params) *float64 { return &p.edge }, w.edge, 0.005*w.p.period)
	vary(func(p *params) *float64 { return &p.n }, span{math.Ceil(w.n.low - 1e-9), math.Floor(w.n.high + 1e-9)}, 0.5)
	return all
}

// after is the state of a server of p after all events.
func (c *scorer) after(p *params) state {
	s := begin(p, make([]event, 0, len(c.events)+128))
	for i := range c.events {
		e := &c.events[i]
		if e.n == 0 {
			used := s.usedLast(e.lo)
			if refusedCost(p.n-used-e.slack-c.fuzz(p, used), p.n) > 0 {
				s.full(e.to, p.n)
			}
			continue
		}
		s.run(e)
		if p.kind == TokenBucket {
			s.used = min(s.used, p.n)
		}
	}
	return s
}

// when is the first time from low on at which at most most is used.
func (g *guess) when(from, low, most float64) float64 {
	if g.p.kind == Concurrency || g.state.usedAt(low) <= most {
		return low
	}
	step := max(1e-3, 0.01*(low-from))
	high := low + step
	for k := 0; g.state.usedAt(high) > most; k++ {
		if k > 80 {
			return high
		}
		low, step = high, step*1.3
		high += step
	}
	for range 12 {
		if mid := (low + high) / 2; g.state.usedAt(mid) > most {
			low = mid
		} else {
			high = mid
		}
	}
	return high
}

// A trial is an experiment: from the time at, n requests, every so many seconds,
// until one is refused. With first, as many are sent before, at the time before.
type trial struct {
	first, before float64
	at, n, every  float64
	last          float64 // if above zero, when as many are sent again
	atOnce        float64
	spread        float64 // seconds by which their order is not known
	stay          float64 // seconds in flight
	why           string
}

// predict is how many of the trial g would serve before the first refusal.
func (g *guess) predict(t *trial) float64 {
	s := g.state
	s.p = &g.p
	if g.p.kind == Concurrency {
		if inside := min(t.atOnce, math.Floor(t.stay/max(t.every, 1e-9))+1); inside > g.p.n {
			return min(g.p.n, t.n)
		}
		return t.n
	}
	if t.first > 0 {
		if got := g.send(&s, t.before, t.first, max(t.every, t.spread/t.first)); got < t.first {
			return got - t.first - 1 // told apart before the trial itself
		}
	}
	every := max(t.every, t.spread/t.n)
	got := g.send(&s, t.at, t.n, every)
	if t.last > 0 {
		got += g.send(&s, t.last, t.n, every)
	}
	return got
}

// send sends n from the time at on to s, and returns how many are served.
func (g *guess) send(s *state, at, n, every float64) (got float64) {
	part, most := max(1, math.Ceil(n/24)), g.p.n+1e-3
	if g.p.kind == SlidingCounter {
		most += 0.25 // it may round, or not
	}
	for got < n {
		t := at + got*every
		k := min(part, n-got)
		room := most - s.usedAt(t)
		if room < 1 {
			return got
		}
		was := *s
		if used := s.serve(t, t+(k-1)*every, k); used > most && k > 1 {
			*s = was // the runs of a log are cut off with it
			k = max(1, math.Floor(min(room, k)))
			s.serve(t, t+(k-1)*every, k)
			if room < part {
				return got + k
			}
		}
		got += k
	}
	return n
}
