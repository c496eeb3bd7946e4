package knee

import (
	"math"
	"time"
)

const (
	warmUp = 5 // one in so many parts of a trial is left out, as it begins with an idle service
	// wellWithin is the growth of latency, in seconds a second, that a trial
	// without a bound on latency may show.
	wellWithin = 0.02
	// latest is how late a generator may send at the 99th percentile, in shares
	// of the bound on latency; never less than lateAnyway.
	latest     = 0.1
	lateAnyway = 5 * time.Millisecond
	fewSlow    = 0.2
	kept       = 0.95 // of the rate, what a generator has to send
)

func (o Objective) withDefaults() Objective {
	if o.Quantile == 0 {
		o.Quantile = 0.99
	}
	if o.Errors == 0 {
		o.Errors = 0.001
	}
	return o
}

// tally adds up parts.
type tally struct {
	sent, slow, answered, bad float64 // bad: failed, refused or dropped
}

func (t *tally) add(p Part) {
	t.sent += float64(p.Sent)
	t.slow += float64(p.Slow)
	t.answered += float64(p.Good + p.Slow)
	t.bad += float64(p.Failed + p.Refused)
}

// met is the probability, before anything else is known, that the service meets
// the objective under the load of a trial. The trial says it of its steady
// state: what it began with is left out, and latency must not grow. spread is
// the overdispersion that other trials have shown, at least 1.
func (o Objective) met(out Outcome, spread float64) float64 {
	parts := out.steady()
	var t tally
	for _, p := range parts {
		t.add(p)
	}
	t.bad += float64(out.Dropped)
	if t.sent+t.bad == 0 {
		return 0.5
	}
	met := o.errorsMet(t)
	if o.Latency > 0 && t.answered > 0 {
		spread = max(spread, overdispersion(parts, t))
		met = min(met, within(t.slow/spread, t.answered/spread, 1-o.Quantile))
	}
	if out.Trial.Rate > 0 {
		met = min(met, o.stable(out, parts))
	}
	return met
}

func (o Objective) errorsMet(t tally) float64 {
	if o.Errors > 0 {
		return within(t.bad, t.sent+t.bad, o.Errors)
	}
	if t.bad > 0 {
		return 0
	}
	return 1
}

// steady are the parts of a trial without those of its warm-up. A trial that
// was ended early has none.
func (o Outcome) steady() []Part {
	if len(o.Parts) == 0 {
		return []Part{{o.Sent, o.Good, o.Slow, o.Failed, o.Refused, o.Mean}}
	}
	if len(o.Parts) < o.Trial.Parts || len(o.Parts) < 2*warmUp {
		return o.Parts
	}
	return o.Parts[len(o.Parts)/warmUp:]
}

// within is the probability that a share is at most a bound, having seen x in n,
// when both were as likely before. The prior is Jeffreys' for rare events with
// the weight of half an event at the bound, so that nothing seen in too few says
// little.
func within(x, n, bound float64) float64 {
	const half = 0.5
	prior := gammaBelow(half, half)
	below := gammaBelow(x+half, bound*n+half)
	odds := below / max(1-below, 1e-12) * (1 - prior) / prior
	return odds / (1 + odds)
}

// overdispersion is how many times as much the slow requests vary from part to
// part as independent ones would: requests that wait in one queue, or for one
// pause, are slow together and say as much as one. It is at least 1.
func overdispersion(parts []Part, t tally) float64 {
	share := t.slow / t.answered
	if len(parts) < 2 || t.slow == 0 || t.slow == t.answered {
		return 1
	}
	sum := 0.0
	for _, p := range parts {
		n := float64(p.Good + p.Slow)
		d := float64(p.Slow) - n*share
		sum += d * d
	}
	spread := sum / (t.answered * share * (1 - share)) * float64(len(parts)) / float64(len(parts)-1)
	return min(max(spread, 1), t.answered/float64(len(parts)))
}

// spread is the overdispersion of a number of trials: the geometric mean of those
// in which some requests were slow, but not many. A trial without any slow one
// shows none, and is no better evidence for it.
func (o Objective) spread(trials []Outcome) float64 {
	var sum, n float64
	for _, out := range trials {
		var t tally
		parts := out.steady()
		for _, p := range parts {
			t.add(p)
		}
		if out.Trial.Kind == Narrow && t.slow > 0 && t.slow < fewSlow*t.answered {
			sum, n = sum+math.Log(overdispersion(parts, t)), n+1
		}
	}
	return math.Exp(sum / max(n, 1))
}

// stable is the probability that latency does not grow with time: a queue that
// grows is no breach of the objective yet in a trial that is short enough.
func (o Objective) stable(out Outcome, parts []Part) float64 {
	growth, noise, ok := slope(parts, out.partLength())
	if !ok {
		return 1
	}
	allowed := wellWithin
	if o.Latency > 0 && out.Trial.Duration > 0 {
		allowed = o.Latency.Seconds() / out.Trial.Duration.Seconds() / 2
	}
	// The delay of a queue is a random walk: this is the growth by chance alone.
	noise = max(noise, math.Sqrt(2/float64(max(out.Sent, 1))))
	return min(1, math.Erfc((growth-allowed)/noise/math.Sqrt2))
}

// partLength is the length of a part, in seconds.
func (o Outcome) partLength() float64 {
	return (o.Trial.Duration + o.Trial.ThenFor).Seconds() / float64(max(o.Trial.Parts, 1))
}

// slope fits a line to the mean latencies of parts, by least squares: its slope
// in seconds a second, and the standard error of that.
func slope(parts []Part, length float64) (slope, noise float64, ok bool) {
	var n, sx, sy, sxx, sxy, syy float64
	for i, p := range parts {
		if p.Good+p.Slow == 0 {
			continue
		}
		x, y := float64(i)*length, p.Mean.Seconds()
		n, sx, sy, sxx, sxy, syy = n+1, sx+x, sy+y, sxx+x*x, sxy+x*y, syy+y*y
	}
	vx := sxx - sx*sx/n
	if n < 5 || vx <= 0 {
		return 0, 0, false
	}
	vxy, vy := sxy-sx*sy/n, syy-sy*sy/n
	slope = vxy / vx
	return slope, math.Sqrt(max(0, vy-slope*vxy) / (n - 2) / vx), true
}

// trusted reports whether the generator kept its schedule.
func (o Objective) trusted(out Outcome) bool {
	if out.Trial.Rate == 0 {
		return true
	}
	due := out.Trial.Rate * out.Took.Seconds()
	late := max(lateAnyway, time.Duration(latest*float64(o.Latency)))
	return out.Late <= late && float64(out.Sent+out.Dropped) >= kept*due-3*math.Sqrt(due)-1
}

// gammaBelow is the regularised lower incomplete gamma function P(a, x), by its
// series below a+1 and its continued fraction above (Abramowitz, Stegun 6.5).
func gammaBelow(a, x float64) float64 {
	switch {
	case x <= 0:
		return 0
	case a > 1e6: // as good as normal
		return math.Erfc((a-x)/math.Sqrt(2*a)) / 2
	}
	lg, _ := math.Lgamma(a)
	scale := math.Exp(a*math.Log(x) - x - lg)
	if x < a+1 {
		term, sum := 1/a, 1/a
		for k := 1; k < 10_000 && term > sum*1e-12; k++ {
			term *= x / (a + float64(k))
			sum += term
		}
		return min(1, sum*scale)
	}
	b := x + 1 - a
	c, d := 1e300, 1/b
	h := d
	for k := 1; k < 10_000; k++ {
		an := -float64(k) * (float64(k) - a)
		b += 2
		d = 1 / max(an*d+b, 1e-300)
		c = max(b+an/c, 1e-300)
		h *= d * c
		if math.Abs(d*c-1) < 1e-12 {
			break
		}
	}
	return max(0, 1-scale*h)
}
