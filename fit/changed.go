package fit

import "math"

// split is what a change has to explain to be looked at: odds, and about what the params
// of the second part and its beginning cost.
const split = 10.0

// alike is how far apart the counts and rates of two limits may be to be one of which
// others use a little, now and then: what they leave. A limit that is changed is changed by
// more.
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
			early, late := tr.part(w, tr.from, runs[mid]), tr.part(w, runs[mid], len(tr.events))
			switch {
			case early.cost+late.cost < left && early.p.alike(&late.p):
				return nil
			case early.cost+late.cost < left:
				if tr.worth(all, [2]found{early, late}, runs, mid) {
					return w
				}
				low = high // another kind may fit both parts less closely
			case early.cost < late.cost:
				low = mid + 1
			default:
				high = mid
			}
		}
	}
	return nil
}

// worth reports whether two parts, split at runs[at], explain the answers so much better
// than the first of all that it is no chance: each is fitted to few answers, of which most
// kinds explain all in a small enough part of their params, and they may be split at any
// of the runs.
func (tr *trace) worth(all []weighed, parts [2]found, runs []int, at int) bool {
	early, late := tr.narrowed(parts[0], tr.from, runs[at]), tr.narrowed(parts[1], runs[at], len(tr.events))
	cost := parts[0].cost + parts[1].cost + early + late
	return cost+odds+math.Log(float64(len(runs))) < all[0].cost-penalty(&all[0].p, tr.latency)+all[0].narrow()
}

// narrowed is how small a part of the params explain the events from one to another
// about as well as f does.
func (tr *trace) narrowed(f found, from, to int) float64 {
	part := *tr
	part.events = tr.events[:to]
	c := &scorer{tr: &part, from: from, least: math.Inf(1), ceiling: math.Inf(1)}
	w := c.weigh(f)
	return w.narrow()
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

// alike reports whether two params of a kind are about the same limit.
func (p *params) alike(q *params) bool {
	return math.Abs(p.n-q.n) <= alike*p.n && math.Abs(p.long()-q.long()) <= alike*p.long()
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
