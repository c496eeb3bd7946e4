package knee

import (
	"math"
	"slices"
	"time"
)

const (
	sameLevel = 0.02 // two levels are one point of the curve if so close, as a share
	near      = 0.05 // in logarithms of level, whose latency counts for the knee's
)

// curve merges the trials by level, those in which the objective was met with a
// probability of least and more.
func (s *Search) curve(least float64) (points []Point) {
	var all []Outcome
	for _, o := range s.outcomes {
		k := o.Trial.Kind
		if (k == Climb || k == Narrow || k == Base) && o.Sent > 0 && (least == 0 || s.Objective.met(o, 1) >= least) {
			all = append(all, o)
		}
	}
	slices.SortStableFunc(all, func(a, b Outcome) int { return compare(a.level(), b.level()) })
	spread := s.Objective.spread(s.outcomes)
	for len(all) > 0 {
		n := 1
		for n < len(all) && all[n].level() <= all[0].level()*(1+sameLevel) {
			n++
		}
		points = append(points, s.Objective.merge(all[:n], spread))
		all = all[n:]
	}
	return points
}

func compare(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// merge is one point of several trials.
func (o Objective) merge(trials []Outcome, spread float64) Point {
	p := Point{Trials: len(trials), Trusted: true}
	var took, busy, sent, answered, good, bad, refused, odds float64
	var mean, p50, p90, p99 float64
	for _, t := range trials {
		n := float64(t.Good + t.Slow)
		p.Level += t.level() / float64(len(trials))
		took += max(t.Took.Seconds(), 1e-3)
		busy += n / max(t.served(), 1e-9)
		sent, answered, good = sent+float64(t.Sent), answered+n, good+float64(t.Good)
		bad, refused = bad+float64(t.Failed+t.Refused), refused+float64(t.Refused)
		mean, p50 = mean+n*float64(t.Mean), p50+n*float64(t.P50)
		p90, p99 = p90+n*float64(t.P90), p99+n*float64(t.P99)
		met := min(max(o.met(t, spread), 1-certain), certain)
		odds += math.Log(met / (1 - met))
		p.Trusted = p.Trusted && o.trusted(t)
	}
	p.Offered, p.Goodput = sent/took, good/took
	p.Requests, p.Refused = int(sent), refused/sent
	if p.Errors = bad / sent; answered > 0 {
		p.Served = answered / busy
		p.Mean, p.P50 = time.Duration(mean/answered), time.Duration(p50/answered)
		p.P90, p.P99 = time.Duration(p90/answered), time.Duration(p99/answered)
	}
	p.Met = 1 / (1 + math.Exp(-odds))
	return p
}

// latencyAt is the mean latency at a level: that of the points around it, by how
// near they are. Points above it do not count, as a queue grows there.
func latencyAt(curve []Point, level float64) time.Duration {
	if level <= 0 {
		return 0
	}
	var sum, weights float64
	for _, p := range curve {
		if p.Mean <= 0 || p.Level > level*(1+sameLevel) {
			continue
		}
		d := math.Log(p.Level/level) / near
		w := math.Exp(-min(d*d/2, 600)) * float64(p.Trials)
		sum, weights = sum+w*float64(p.Mean), weights+w
	}
	if weights == 0 {
		return 0
	}
	return time.Duration(sum / weights)
}
