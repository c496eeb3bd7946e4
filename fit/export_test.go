package fit

import (
	"math"
	"time"
)

// Truth is the negative log-likelihood of answers under a server's true
// parameters, with requests a second of others.
func Truth(answers []Answer, m Model, others float64) float64 {
	tr := readTrace(answers)
	c := &scorer{tr: tr, events: tr.events}
	p := tr.params(m)
	cost := c.cost(&p, math.Inf(1))
	if others > 0 {
		if p.kind == TokenBucket {
			p.rate -= others
			cost = c.cost(&p, math.Inf(1))
		}
		p.others = others
		cost = min(cost, c.crowdCost(&p, math.Inf(1)))
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

// ExplainTruth prints events.
func ExplainTruth(answers []Answer, m Model, others float64) {
	tr := readTrace(answers)
	c := &scorer{tr: tr, events: tr.events}
	p := tr.params(m)
	p.others = others
	if p.kind == TokenBucket {
		p.rate -= others
	}
	was := 0.0
	println("events", len(tr.events), "merged", tr.merged)
	for i := range tr.events {
		c.events = tr.events[:i+1]
		x := c.crowdCost(&p, math.Inf(1))
		e := tr.events[i]
		println(i, "from", int(e.from*1000), "to", int(e.to*1000), "n", int(e.n), "cost m", int(1000*(x-was)), "mean", int(c.dbg.mean*10), "sd m", int(1000*math.Sqrt(c.dbg.vary)), "end", int(c.dbg.end*1000), "sd", int(1000*math.Sqrt(c.dbg.endVary)))
		was = x
	}
}
