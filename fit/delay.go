package fit

import (
	"math"
	"slices"
	"time"
)

// queue reads the burst and the rate of a server that delays: several at once,
// after a rest.
func (p Plan) queue(tr *trace, w *weighed, now time.Time, left int) Step {
	rest := (w.p.n + 1) / w.p.rate
	n := min(int(2*w.n.high)+8, p.AtOnce, left)
	if p.Timeout > 0 {
		n = max(min(n, int(w.p.n+w.p.rate*p.Timeout.Seconds()/2)), 1)
	}
	return Step{At: now.Add(seconds(rest)), N: n, AtOnce: n, Refusals: 1, Why: "the burst and rate of a queue"}
}

// delay fits a queue to the latencies: its rate from the answers that came
// while it was never empty, its burst from the first that waited. gain is by how
// much this explains the latencies better than a usual latency does; it is zero
// where they do not grow.
func (tr *trace) delay() (w weighed, gain float64) {
	w.p.kind = Delay
	sent := slices.Clone(tr.seen)
	sent = slices.DeleteFunc(sent, func(s seen) bool { return s.refused })
	if len(sent) < 4 {
		return w, 0
	}
	slices.SortStableFunc(sent, func(a, b seen) int { return cmpFloat(a.sent, b.sent) })
	low := tr.lowLatency(sent)
	rates := waitingRates(sent, low)
	if len(rates) == 0 {
		return w, 0
	}
	q := queue{sent: sent, low: low, scale: max(0.15*low, 1e-4)}
	best := q.search(&w, rates[len(rates)/2])
	w.n = q.bursts(&w.p, best)
	if best < 3*q.waited() {
		return w, 0
	}
	w.steady = q.steady(&w.p)
	gain = min(best, q.ratio(&w.p))
	q.refine(&w)
	return w, gain
}

// refine finds the rate and the burst again, by the latency and the spread that the answers have
// beside their waits: those of the least latency are too small, and so an interval by them.
func (q *queue) refine(w *weighed) {
	for range 2 {
		rest := make([]float64, 0, len(q.sent))
		free := math.Inf(-1)
		for _, s := range q.sent {
			wait := max(0, free-s.sent-(w.p.n-1)/w.p.rate)
			free = max(free, s.sent) + 1/w.p.rate
			rest = append(rest, s.ended-s.sent-wait)
		}
		q.scale = max(deviation(rest), 1e-4)
		q.low = rest[len(rest)/2] // deviation has sorted them
		w.n = q.bursts(&w.p, q.search(w, w.p.rate))
	}
}

// ratio is how much likelier the latencies are under the queue than under a usual
// one, where each is given the spread that suits it best: latencies that vary much
// look like a queue in a few answers.
func (q *queue) ratio(p *params) float64 {
	queued, usual := make([]float64, len(q.sent)), make([]float64, len(q.sent))
	free := math.Inf(-1)
	for i, s := range q.sent {
		wait := max(0, free-s.sent-(p.n-1)/p.rate)
		free = max(free, s.sent) + 1/p.rate
		usual[i] = s.ended - s.sent
		queued[i] = usual[i] - wait
	}
	least := q.scale / 8
	return float64(len(q.sent))*math.Log((deviation(usual)+least)/(deviation(queued)+least)) - 6 // two params
}

// steady reports whether the answers that waited do not show that it was in a queue: all took
// as long, and none came soon after a rest. A service that has become slower answers so.
func (q *queue) steady(p *params) bool {
	var usual, queued []float64
	free := math.Inf(-1)
	for _, s := range q.sent {
		wait := max(0, free-s.sent-(p.n-1)/p.rate)
		free = max(free, s.sent) + 1/p.rate
		took := s.ended - s.sent
		switch late := took > q.low+4*q.scale; {
		case wait > 0 && late:
			usual, queued = append(usual, took), append(queued, took-wait)
		case wait == 0 && !late && len(usual) > 0:
			return false
		}
	}
	if len(usual) == 0 {
		return true
	}
	least := q.scale / 8
	return float64(len(usual))*math.Log((deviation(usual)+least)/(deviation(queued)+least)) < sure
}

// deviation is the mean distance from the median, and sorts all.
func deviation(all []float64) (sum float64) {
	slices.Sort(all)
	middle := all[len(all)/2]
	for _, x := range all {
		sum += math.Abs(x - middle)
	}
	return sum / float64(len(all))
}

// search finds the rate and the burst near a rate, and returns their gain.
func (q *queue) search(w *weighed, rate float64) float64 {
	best := -math.MaxFloat64
	try := func(r float64) {
		burst := q.burst(r)
		if g := q.gain(r, burst); g > best {
			best, w.p.rate, w.p.n = g, r, burst
		}
	}
	try(rate)
	for _, k := range [...]float64{1.3, 1.1, 1.03, 1.01, 1.003, 1.001, 1.0003, 1.0001} {
		r := w.p.rate
		for _, x := range [...]float64{r * k, r / k, r * k * k, r / k / k} {
			try(x)
		}
	}
	w.rate = q.span(w.p.rate, best, func(r float64) float64 { return q.gain(r, q.burst(r)) })
	return best
}

// bursts is in which bursts the gain stays near its best.
func (q *queue) bursts(p *params, best float64) span {
	n := span{p.n, p.n}
	for _, d := range [...]float64{1, 2, 4, 8} {
		if q.gain(p.rate, p.n+d) > best-explained {
			n.high = p.n + d
		}
		if p.n > d && q.gain(p.rate, p.n-d) > best-explained {
			n.low = p.n - d
		}
	}
	return n
}

// waited counts the answers that came later than usual.
func (q *queue) waited() (n float64) {
	for _, s := range q.sent {
		if s.ended-s.sent > q.low+4*q.scale {
			n++
		}
	}
	return n
}

func cmpFloat(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// lowLatency is that of requests that did not wait.
func (tr *trace) lowLatency(sent []seen) float64 {
	all := make([]float64, len(sent))
	for i, s := range sent {
		all[i] = s.ended - s.sent
	}
	slices.Sort(all)
	return all[len(all)/50]
}

// waitingRates are the rates of answers between two that waited, sorted.
func waitingRates(sent []seen, low float64) (rates []float64) {
	byEnd := slices.Clone(sent)
	slices.SortStableFunc(byEnd, func(a, b seen) int { return cmpFloat(a.ended, b.ended) })
	from := -1
	flush := func(to int) {
		if from >= 0 && to-from >= 3 {
			if d := byEnd[to-1].ended - byEnd[from].ended; d > 0 {
				rates = append(rates, float64(to-1-from)/d)
			}
		}
		from = -1
	}
	for i, s := range byEnd {
		if s.ended-s.sent < 2*low+1e-3 {
			flush(i)
		} else if from < 0 {
			from = i
		} else if i-from >= 32 {
			flush(i)
			from = i
		}
	}
	flush(len(byEnd))
	slices.Sort(rates)
	return rates
}

// A queue is what latencies say about a server that delays.
type queue struct {
	sent       []seen
	low, scale float64
}

// gain sums, over the answers, how much better the queue explains the latency
// than a constant one does.
func (q *queue) gain(rate, burst float64) (sum float64) {
	free := math.Inf(-1)
	for _, s := range q.sent {
		wait := max(0, free-s.sent-(burst-1)/rate)
		free = max(free, s.sent) + 1/rate
		over := s.ended - s.sent - q.low
		sum += min(8, math.Abs(over)/q.scale) - min(8, math.Abs(over-wait)/(q.scale+0.02*wait))
	}
	return sum - 6 // two params
}

// burst is how many the queue at this rate serves at once.
func (q *queue) burst(rate float64) float64 {
	free := math.Inf(-1)
	var all []float64
	for _, s := range q.sent {
		backlog := max(0, free-s.sent)
		free = max(free, s.sent) + 1/rate
		if over := s.ended - s.sent - q.low; over > q.low+2*q.scale && len(all) < 4096 {
			all = append(all, 1+(backlog-over)*rate)
		}
	}
	if len(all) == 0 {
		return 1
	}
	slices.Sort(all)
	return max(1, math.Round(all[len(all)/2]))
}

// span is in which rates the gain stays near its best.
func (q *queue) span(rate, best float64, gain func(float64) float64) span {
	s := span{rate / 1.003, rate * 1.003} // what noise shifts in turn for many answers
	for _, k := range [...]float64{1.01, 1.02, 1.04, 1.08, 1.2, 1.5, 2} {
		if gain(rate*k) > best-explained {
			s.high = max(s.high, rate*k)
		}
		if gain(rate/k) > best-explained {
			s.low = min(s.low, rate/k)
		}
	}
	return s
}
