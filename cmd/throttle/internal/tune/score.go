package tune

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/throttle-go/throttle/cmd/throttle/internal/measures"
	"github.com/throttle-go/throttle/cmd/throttle/internal/usage"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/sim"
)

// weight is what a measure counts.
type weight struct {
	measure int // in sim.Measures
	by      float64
}

// defaultWeights are for those that a scenario has.
const defaultWeights = "retry_rate=1,max_sleep_s=1,jain=1,utilisation=1,finish_s=1"

// parseWeights reads MEASURE=NUMBER,...
func parseWeights(text string) (weights []weight, err error) {
	sum := 0.0
	for _, item := range strings.Split(text, ",") {
		name, number, ok := strings.Cut(item, "=")
		w, parsed := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if !ok || parsed != nil || !(w >= 0 && w <= 1e6) {
			return nil, usage.Errorf("-weight %s: write MEASURE=NUMBER, the number from 0 to 1000000", words.Quote(strings.TrimSpace(item)))
		}
		m, err := rankedMeasure("-weight", strings.TrimSpace(name))
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(weights, func(other weight) bool { return other.measure == m }) {
			return nil, usage.Errorf("-weight: %s occurs twice", sim.Measures[m].Name)
		}
		weights, sum = append(weights, weight{m, w}), sum+w
	}
	if sum == 0 {
		return nil, usage.Error("-weight: one must be above 0")
	}
	return weights, nil
}

// rankedMeasure is a measure that should be low, or high.
func rankedMeasure(option, name string) (int, error) {
	if m := measures.At(name); m >= 0 && sim.Measures[m].Better != 0 {
		return m, nil
	}
	var known []string
	for _, m := range sim.Measures {
		if m.Better != 0 {
			known = append(known, m.Name)
		}
	}
	return 0, usage.Errorf("%s: measure %s is not among those that count; %s", option, words.Quote(name), words.Meant(name, known))
}

// readings are what one run measured, or the medians of several, in the order
// of sim.Measures.
type readings []pace.Opt[float64]

// readingsOf are those of a run. Work that was not done by the end of the run
// is taken to be finished then: else only those that finish would be counted.
func readingsOf(s sim.Scenario, r sim.Result) readings {
	f := make(readings, len(sim.Measures))
	for i, m := range sim.Measures {
		f[i] = m.Of(r)
	}
	ends := slices.ContainsFunc(s.Clients, func(g sim.Group) bool { return g.Work > 0 })
	if i := measures.At("finish_s"); !f[i].OK && ends && s.Duration > 0 {
		f[i] = pace.Some(s.Duration.Seconds())
	}
	return f
}

func mediansOf(runs []readings) readings {
	all := make(readings, len(sim.Measures))
	for i := range all {
		var one []pace.Opt[float64]
		for _, f := range runs {
			one = append(one, f[i])
		}
		if s := sim.Over(one); s.OK {
			all[i] = pace.Some(s.V.Median)
		}
	}
	return all
}

// badness is how far a measure is from the best that there is: zero is ideal.
func badness(m int, v float64) float64 {
	switch {
	case sim.Measures[m].Better < 0:
		return v
	case isShare(m):
		return max(0, 1-v)
	}
	return 1 / max(v, 1e-9) // throughput
}

// isShare reports whether a measure lies between 0 and 1.
func isShare(m int) bool {
	switch sim.Measures[m].Name {
	case "retry_rate", "retry_rate_worker_mean", "jain", "jain_workers", "utilisation", "in_time":
		return true
	}
	return false
}

// trifle is the least badness that counts as a whole: a default that is as good
// as perfect is no reason to punish what is nearly so.
func trifle(m int, s sim.Scenario) float64 {
	switch {
	case isShare(m):
		return 0.01
	case strings.HasSuffix(sim.Measures[m].Name, "_s"):
		return s.Network.Latency.Seconds()
	case sim.Measures[m].Better > 0:
		return 0
	}
	return 1
}

// part is one part of the score: weight × badness/unit.
type part struct {
	weight
	unit float64 // the badness of the default, or a trifle if that is more
}

// scorer makes one number of the measures: 0 is ideal, 1 as good as the
// default.
type scorer []part

// newScorer leaves out what does not apply to the scenario.
func newScorer(weights []weight, s sim.Scenario, byDefault readings) (score scorer, left []string) {
	for _, w := range weights {
		if f := byDefault[w.measure]; f.OK && w.by > 0 {
			score = append(score, part{w, max(badness(w.measure, f.V), trifle(w.measure, s))})
			continue
		}
		if w.by > 0 {
			left = append(left, sim.Measures[w.measure].Name)
		}
	}
	return score, left
}

// of is Σ weight × badness/unit / Σ weight, infinite where a measure is absent.
func (s scorer) of(f readings) float64 {
	var sum, all float64
	for _, t := range s {
		if !f[t.measure].OK {
			return math.Inf(1)
		}
		sum += t.by * badness(t.measure, f[t.measure].V) / t.unit
		all += t.by
	}
	return sum / all
}

// front is the trials than which no other is better in one of two measures and
// no worse in the other, ordered by the first.
func front(trials []*trial, axes [2]int) (best []*trial) {
	value := func(t *trial, axis int) float64 { return badness(axes[axis], t.median[axes[axis]].V) }
	for _, t := range trials {
		if t.median[axes[0]].OK && t.median[axes[1]].OK {
			best = append(best, t)
		}
	}
	slices.SortStableFunc(best, func(a, b *trial) int {
		return cmp.Or(cmp.Compare(value(a, 0), value(b, 0)), cmp.Compare(value(a, 1), value(b, 1)))
	})
	least := math.Inf(1)
	return slices.DeleteFunc(best, func(t *trial) bool {
		if value(t, 1) >= least {
			return true
		}
		least = value(t, 1)
		return false
	})
}

// spread is n of the trials, the first and the last among them.
func spread(trials []*trial, n int) (few []*trial) {
	if n >= len(trials) {
		return trials
	}
	for i := range n {
		few = append(few, trials[i*(len(trials)-1)/max(n-1, 1)])
	}
	return few
}
