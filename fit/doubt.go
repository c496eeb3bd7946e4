package fit

import (
	"fmt"
	"math"
)

// why is the reason not to decide at these odds; it is empty where the first of
// all is likely enough.
func why(tr *trace, all []weighed, odds float64) string {
	best := &all[0]
	if best.p.kind == Unlimited {
		switch {
		case tr.refused > 0:
			return "no kind explains the refusals"
		case tr.served < enough:
			return "nothing was refused in " + requests(tr.used)
		}
		return ""
	}
	if rival := rival(all, odds); rival != nil {
		return fmt.Sprintf("%v and %v explain the answers nearly equally", best.p.label(), rival.p.label())
	}
	if x := best.cost - penalty(&best.p, tr.latency); x > tr.unsure(best) {
		return fmt.Sprintf("%v does not explain all answers; other callers may share it, or it may have changed", best.p.label())
	}
	if best.steady {
		return "answers that waited took equally long, as those of a service that has become slower"
	}
	return best.wide()
}

func requests(n int) string {
	if n == 1 {
		return "1 request"
	}
	return fmt.Sprintf("%d requests", n)
}

// rival is the kind that keeps the first of all from being decided; nil if none. A
// sliding window counter has the freedom to imitate a bucket that others use.
func rival(all []weighed, odds float64) *weighed {
	best := &all[0]
	if len(all) > 1 && all[1].cost-all[1].gain-best.cost+best.gain < odds {
		return &all[1]
	}
	if w := doubt(all, odds); w != nil && best.p.kind == SlidingCounter && w.p.kind == TokenBucket {
		return w
	}
	return nil
}

// unsure is what the answers may cost to be decided on: with other callers, it
// is never certain when each run of requests is refused, nor what remains.
func (tr *trace) unsure(w *weighed) float64 {
	if w.p.others > 0 || w.crowd {
		c := scorer{events: tr.events}
		return max(unsure, 5*float64(tr.cycles())+2*float64(c.told()))
	}
	return max(unsure, 2.5*float64(tr.cycles()))
}

// wide names a param that is not known well enough; it is empty where all are.
func (w *weighed) wide() string {
	for _, x := range [...]struct {
		name string
		wide float64
	}{
		{"rate", w.rate.wide()},
		{"period", w.period.wide()},
		{w.p.countName(), countWide(w.n)},
		{"phase", w.edgeWide()},
	} {
		if x.wide > precise {
			return fmt.Sprintf("the %s is known only to %.0f %%", x.name, 100*min(x.wide, 1))
		}
	}
	return ""
}

// edgeWide is how well the edge is known, in parts of the period.
func (w *weighed) edgeWide() float64 {
	if w.p.period <= 0 {
		return 0
	}
	return (w.edge.high - w.edge.low) / 2 / w.p.period
}

// countWide is that of a whole number: zero where only one lies in the span.
func countWide(s span) float64 {
	return max(0, span{math.Ceil(s.low - 1e-9), math.Floor(s.high + 1e-9)}.wide())
}

// doubt is a kind that explains the answers worse than the first, but in so much
// larger a part of its params that at these odds the first may fit by chance; nil if none.
func doubt(all []weighed, odds float64) *weighed {
	best := &all[0]
	for i := range all[1:] {
		w := &all[i+1]
		if w.p.long() <= 0 || w.cost-w.gain > best.cost-best.gain+excluded {
			continue
		}
		if w.cost-w.gain+w.narrow() < best.cost-best.gain+best.narrow()+odds {
			return w
		}
	}
	return nil
}

// doubtful is after how many ends of a run of served requests a Plan asks no more for
// doubt alone: what may fit by chance has been tried often.
const doubtful = 4 * confirmed

// doubted reports whether a Plan asks on, as the first of all may fit by chance: up to
// sure, like for what is near.
func (tr *trace) doubted(all []weighed) bool {
	return tr.cycles() < doubtful && doubt(all, sure) != nil
}

// narrow is how small a part of the params the spans are, in logarithms.
func (w *weighed) narrow() (sum float64) {
	for _, x := range [...]struct {
		in    span
		of    float64
		least float64
	}{{w.n, w.p.n, 1 / max(w.p.n, 1)}, {w.rate, w.p.rate, 1e-3}, {w.period, w.p.period, 1e-3}, {w.edge, w.p.period, 1e-3}} {
		if x.of > 0 && (x.in.high > x.in.low || x.in == w.n) {
			sum -= math.Log(max((x.in.high-x.in.low)/x.of, x.least))
		}
	}
	return sum
}

// cycles counts how often a refusal followed a request that was served.
func (tr *trace) cycles() (n int) {
	for i, e := range tr.events {
		if e.n == 0 && (i == 0 || tr.events[i-1].n > 0) {
			n++
		}
	}
	return n
}
