package fit

import (
	"math"
	"time"
)

// Ratio is the logarithm of the likelihood of answers under a server's true
// parameters, with requests a second of other callers, to that under the best of
// any other kind, with the parameters that suit it best.
func Ratio(answers []Answer, m Model, others float64) float64 {
	tr := readTrace(answers)
	rival, truth := hopeless, hopeless
	if m.Kind == Unlimited {
		return 0 // as likely as any limit that was not reached
	}
	for _, w := range tr.weighAll() {
		x := w.cost - w.gain - penalty(&w.p, tr.latency)
		if w.p.kind != m.Kind || w.p.first != m.FromFirst {
			rival = min(rival, x)
		} else if m.Kind == Delay {
			truth = x
		}
	}
	return rival - min(truth, tr.truth(m, others))
}

// truth is what the answers cost under true parameters.
func (tr *trace) truth(m Model, others float64) float64 {
	c := &scorer{tr: tr, events: tr.events}
	p := tr.params(m)
	if p.kind == TokenBucket {
		p.rate -= others // what others leave is all that can be seen
	}
	cost := c.cost(&p, math.Inf(1))
	if others > 0 {
		p.others = others
		cost = min(cost, c.cost(&p, math.Inf(1)))
	}
	return cost
}

// params are those of m in the time of the trace.
func (tr *trace) params(m Model) params {
	p := params{kind: m.Kind, first: m.FromFirst, n: m.Burst + m.Count + float64(m.InFlight), rate: m.Rate, period: m.Period.Seconds()}
	if m.Period > 0 {
		p.rate = 0
		p.edge = -float64(tr.origin.Add(-m.Phase).UnixNano()%int64(m.Period)) / float64(time.Second)
	}
	return p
}
