package fit

import "math"

// split is what a change has to explain to be believed: odds, and what the params of
// the second part and its beginning cost.
const split = 10.0

// alike is how far apart the params of two token buckets may be to be one of which others
// use a little, now and then: its rate is what they leave. A limit that is changed is
// changed by more.
const alike = 0.1

// changed is a kind that explains what the first of all leaves unexplained by other
// params from some time on; nil if none. The later that is, the more the part before
// costs and the less the one after: the time is bisected.
func (tr *trace) changed(all []weighed) *weighed {
	left := all[0].cost - penalty(&all[0].p, tr.latency) - split
	if all[0].p.others > 0 { // each of their requests is likelier than none
		left -= odds
	}
	runs := tr.runs()
	for i := range all {
		w := &all[i]
		if left < 0 || w.p.long() <= 0 {
			continue
		}
		for low, high := 0, len(runs); low < high; {
			mid := (low + high) / 2
			early, late := tr.part(w, 0, runs[mid]), tr.part(w, runs[mid], len(tr.events))
			switch {
			case early.cost+late.cost < left && early.p.alike(&late.p):
				return nil
			case early.cost+late.cost < left:
				return w
			case early.cost < late.cost:
				low = mid + 1
			default:
				high = mid
			}
		}
	}
	return nil
}

// part is what the events from one to another cost under the params near those of w
// that suit them best, without other callers.
func (tr *trace) part(w *weighed, from, to int) found {
	c := &scorer{tr: tr, events: tr.events[:to], from: from, least: math.Inf(1)}
	best := found{cost: hopeless}
	for _, k := range [...]float64{1, 0.5, 0.7, 1.4, 2} {
		p := w.p
		p.others, p.rate, p.period = 0, p.rate*k, p.period*k
		if x := c.solve(&p, best.cost); x < best.cost {
			best = found{p, x}
		}
	}
	return c.refine(best)
}

// alike reports whether two params are about the same token bucket.
func (p *params) alike(q *params) bool {
	return p.kind == TokenBucket && math.Abs(p.n-q.n) <= alike*p.n && math.Abs(p.long()-q.long()) <= alike*p.long()
}

// runs are the beginnings of runs of served requests after refusals.
func (tr *trace) runs() (all []int) {
	for i := range tr.events {
		if i > 0 && tr.events[i].n > 0 && tr.events[i-1].n == 0 {
			all = append(all, i)
		}
	}
	return all
}
