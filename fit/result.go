package fit

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Interval is a range in which a parameter lies with a probability of about
// 95 %, given that the kind is right. Both ends are zero where the kind has no
// such parameter.
type Interval struct{ Low, High float64 }

// Candidate is one Kind with the parameters that explain the answers best.
type Candidate struct {
	Model
	// LogLikelihood is the natural logarithm of the likelihood of the answers
	// under the Model. Only differences between candidates mean something.
	LogLikelihood float64
	// Share is the posterior probability of the Kind, all being equally likely
	// before.
	Share float64
	// Edge is when a window began, where that was seen best, by the caller's
	// clock: of a FixedWindow that is not FromFirst, and of a SlidingCounter. Use
	// it rather than Phase, which a small error of the Period spoils.
	Edge time.Time
	// RateIn, BurstIn, CountIn, PeriodIn and InFlightIn are the intervals of the
	// parameters of that name; those of Period are in seconds.
	RateIn, BurstIn, CountIn, PeriodIn, InFlightIn Interval
}

// Result holds the kinds of rate limiter that may have given the answers.
type Result struct {
	// Candidates has one Candidate for each Kind that is not excluded, with
	// FixedWindow twice (FromFirst and not), the likeliest first. It is never
	// empty: without a refusal it is Unlimited, or Delay.
	Candidates []Candidate
	// Decided reports that the first Candidate is more than 99 times as
	// likely as any other, that it explains the answers, if need be by the requests
	// of other callers, and that its parameters are known to about 4 %. Of
	// Unlimited it means that a thousand requests were served, and no more.
	Decided bool
	// Why is the reason in one line where Decided is false; otherwise it is
	// empty.
	Why string
	// Used and Refused count the answers that were used, and those of them that
	// were refused.
	Used, Refused int
	// Unexplained is the number of answers that the first Candidate does not
	// explain by this caller's requests alone; repeats in a row count once.
	Unexplained int
	// Shared reports that the first Candidate explains the answers best where
	// other callers use the same limit, or that many refusals came too early for
	// this caller alone. A TokenBucket's rate is then what they leave.
	Shared bool
}

// odds is the logarithm of how much likelier than any other the first has to be,
// 99 times; a Plan asks on up to sure, as the noise model is only a model.
const (
	odds = 4.6
	sure = 8.0
)

// precise is how wide, relative to the middle, half an interval may be.
const precise = 0.04

// unsure is the most that the answers may cost to be decided on: that of one
// refusal with next to nothing left.
const unsure = 4.5

// enough is the number of served requests after which Unlimited is decided.
const enough = 1000

// Fit returns which rate limiter explains the answers, in any order. It uses at
// most MaxAnswers, and needs O(n log n) for their sort and a bounded time beyond
// it.
func Fit(answers []Answer) Result {
	tr := readTrace(answers)
	all := tr.weighAll()
	r := Result{Used: tr.used, Refused: tr.refused}
	for _, w := range all {
		r.Candidates = append(r.Candidates, tr.candidate(w))
	}
	share(r.Candidates)
	if r.Why = why(tr, all, odds); r.Why == "" {
		if w := tr.changed(all); w != nil {
			r.Why = fmt.Sprintf("%v that changed meanwhile explains the answers better", w.p.label())
		}
	}
	r.Decided = r.Why == ""
	r.Unexplained = tr.unexplained(&all[0].p)
	r.Shared = all[0].p.others > 0 || r.Unexplained >= 3 && r.Unexplained*8 > tr.cycles()
	return r
}

// weighAll weighs every kind that the answers do not exclude.
func (tr *trace) weighAll() (all []weighed) {
	c := tr.scorer()
	c.ceiling = math.Inf(1)
	add := func(w weighed) {
		w.cost += penalty(&w.p, tr.latency)
		c.ceiling = min(c.ceiling, w.cost+4*excluded) // other callers may explain them
		all = append(all, w)
	}
	add(weighed{found: found{cost: c.cost(&params{}, hopeless)}})
	if w, gain := tr.delay(); gain > sure {
		w.cost, w.gain = c.cost(&w.p, hopeless), gain
		add(w)
	}
	if tr.refused > 0 || tr.told {
		for _, k := range [...]params{
			{kind: TokenBucket},
			{kind: FixedWindow},
			{kind: FixedWindow, first: true},
			{kind: SlidingLog},
			{kind: SlidingCounter},
			{kind: Concurrency},
		} {
			if f := c.search(k.kind, k.first); f.p.n > 0 && !f.p.sameAsBucket() {
				add(c.weigh(f))
			}
		}
	}
	c.shareAll(all)
	slices.SortStableFunc(all, func(a, b weighed) int { return cmpFloat(a.cost-a.gain, b.cost-b.gain) })
	return all
}

// sameAsBucket reports whether p decides as a TokenBucket of Burst 1 does: one in
// each Period, whatever it is called.
func (p *params) sameAsBucket() bool {
	return p.n == 1 && (p.first || p.kind == SlidingLog || p.kind == SlidingCounter)
}

// penalty is what the freedom to choose params costs: one for each, and more
// for a phase, of which few fit. A bucket that is full again when an answer comes
// is rather a concurrency limit.
func penalty(p *params, latency float64) float64 {
	if back := p.n / max(p.rate, 1e-9); p.kind == TokenBucket && back > latency/2 && back < 2*latency {
		return 6
	}
	switch {
	case p.kind == Unlimited || p.kind == Delay:
		return 0 // counted in its gain
	case p.kind == Concurrency:
		return 1
	case p.kind == TokenBucket || p.kind == SlidingLog || p.first:
		return 2
	case p.kind == SlidingCounter:
		return 4 // servers round it up or down
	}
	return 3
}

// excluded is how much less likely than another a kind is, in logarithms, that
// is left out.
const excluded = 30

// share makes shares of the likelihoods.
func share(all []Candidate) {
	sum := 0.0
	for i := range all {
		all[i].Share = math.Exp(all[i].LogLikelihood - all[0].LogLikelihood)
		sum += all[i].Share
	}
	for i := range all {
		all[i].Share /= sum
	}
}

// candidate is w in the units of a Model.
func (tr *trace) candidate(w weighed) Candidate {
	c := Candidate{LogLikelihood: w.gain - w.cost}
	c.Kind, c.FromFirst = w.p.kind, w.p.first
	c.RateIn, c.PeriodIn = Interval{w.rate.low, w.rate.high}, Interval{w.period.low, w.period.high}
	n := Interval{w.n.low, w.n.high}
	switch w.p.kind {
	case TokenBucket, Delay:
		c.Rate, c.Burst, c.BurstIn = w.p.rate, w.p.n, n
	case Concurrency:
		c.InFlight, c.InFlightIn = int(w.p.n), n
	case Unlimited:
	default:
		c.Count, c.CountIn = w.p.n, n
		c.Period = time.Duration(min(w.p.period, 1e9) * 1e9)
		c.Rate = w.p.n / w.p.period
		if w.p.kind != SlidingLog && !w.p.first {
			edge := w.p.edge
			if edge < 0 { // a midnight
				edge += math.Ceil(-edge/w.p.period) * w.p.period
			}
			c.Phase, c.Edge = tr.phase(edge, c.Period), tr.origin.Add(time.Duration(edge*1e9))
		}
	}
	return c
}

// phase is where in a multiple of the period since 1970 the edge lies.
func (tr *trace) phase(edge float64, period time.Duration) time.Duration {
	if period <= 0 {
		return 0
	}
	at := tr.origin.UnixNano()%int64(period) + int64(math.Mod(edge, period.Seconds())*1e9)
	at %= int64(period)
	if at < 0 {
		at += int64(period)
	}
	return time.Duration(at)
}

func (p *params) label() string {
	switch {
	case p.first:
		return "a fixed window from the first request"
	case p.kind == Unlimited:
		return "no limit"
	}
	return "a " + p.kind.String()
}

func (p *params) countName() string {
	switch p.kind {
	case TokenBucket, Delay:
		return "burst"
	case Concurrency:
		return "number in flight"
	}
	return "count"
}

// unexplained counts the events that cost something under p.
func (tr *trace) unexplained(p *params) (n int) {
	c := tr.scorer()
	alone := *p
	alone.others = 0
	was := 0.0
	for i := tr.from; i < len(tr.events); i++ { // quadratic in at most a few hundred
		c.events = tr.events[:i+1]
		if x := c.cost(&alone, math.Inf(1)); x > was+1 {
			n, was = n+1, x
		}
	}
	return n
}
