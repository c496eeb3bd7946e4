package fit

import (
	"math"
	"time"
)

// confirmed is after how many ends of a run of served requests a kind is believed:
// of few, the wrong one may explain all where other callers are few.
const confirmed = 6

// again empties a limit that is known once more, at another part of its period,
// until it is confirmed.
func (p Plan) again(tr *trace, w *weighed, now time.Time, left int) (Step, bool) {
	cycles := tr.cycles()
	if w.p.long() <= 0 || w.p.kind == Delay || cycles >= confirmed || w.p.n+1 > float64(left) {
		return Step{}, false
	}
	c := tr.scorer()
	g := guess{p: w.p, state: c.after(&w.p)}
	back := g.when(tr.end, tr.end+tr.latency, 0.2) - tr.end // all of it
	_, part := math.Modf(float64(cycles) * 0.618)
	at := tr.end + back*(1+part)
	h := hunt{tr: tr, gs: []guess{g}, now: max(now.Sub(tr.origin).Seconds(), tr.end), atOnce: float64(p.AtOnce)}
	h.prepare()
	t := trial{at: max(at, h.now), n: min(math.Ceil(1.2*w.p.n)+4, float64(left)), every: h.speed, atOnce: h.flight, why: whyAgain}
	return t.step(tr.origin, now), true
}
