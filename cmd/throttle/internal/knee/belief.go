package knee

import "math"

const (
	cellRatio = 1.005 // from one cell of a belief to the next
	beyond    = 64    // times how far a belief looks past its bracket
	// reach is the width of the prior's tails outside the bracket, in logarithms.
	// They are heavy ones: a bracket may be wrong by far, if seldom.
	reach = 0.05
	// certain is the most that one trial may say: further trials can always
	// overrule one that met a pause of the service, or missed one.
	certain = 0.95
	// forgotten is the least weight of a cell, beside a sum of one.
	forgotten = 1e-9
)

// belief is a distribution of the knee over levels that grow by cellRatio.
type belief struct {
	first   float64
	weights []float64 // sum to one
}

// between is a belief in a knee from low to high, where it is bad.
func between(low, high float64) belief {
	b := belief{first: low / beyond}
	n := int(math.Log(high*beyond/b.first)/math.Log(cellRatio)) + 1
	b.weights = make([]float64, n)
	for i := range b.weights {
		out := max(0, math.Log(low/b.level(i)), math.Log(b.level(i)/high))
		b.weights[i] = 1 / (1 + out*out/reach/reach)
	}
	b.normalise()
	return b
}

func (b belief) level(i int) float64 { return b.first * math.Pow(cellRatio, float64(i)) }

// update takes the probability that the objective holds at a level.
func (b belief) update(level, met float64) {
	met = min(max(met, 1-certain), certain)
	from := math.Log(level/b.first)/math.Log(cellRatio) - 1e-6
	for i := range b.weights {
		if float64(i) >= from {
			b.weights[i] *= met
		} else {
			b.weights[i] *= 1 - met
		}
	}
	b.normalise()
}

func (b belief) normalise() {
	sum := 0.0
	for _, w := range b.weights {
		sum += w
	}
	for i := range b.weights {
		b.weights[i] = max(b.weights[i]/sum, forgotten)
	}
}

// quantile is the level below which the knee lies with probability q.
func (b belief) quantile(q float64) float64 {
	sum := 0.0
	for _, w := range b.weights {
		sum += w
	}
	left := q * sum
	for i, w := range b.weights {
		if left -= w; left <= 0 {
			return b.level(i)
		}
	}
	return b.level(len(b.weights) - 1)
}

// interval is the 90 % interval around the median.
func (b belief) interval() Interval {
	return Interval{Low: b.quantile(0.05), At: b.quantile(0.5), High: b.quantile(0.95)}
}
