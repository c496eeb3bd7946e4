package knee

import (
	"time"
)

// Result holds the findings of a search. Rates are in requests a second.
type Result struct {
	Objective   Objective // with its defaults filled in
	Concurrency bool      // levels are requests in flight, not rates
	// Knee is the highest level at which the objective holds. If its At is zero,
	// the objective held at no level that was tried.
	Knee Interval
	// AtLeast says that no level failed: the knee is at Knee.At or beyond.
	AtLeast bool
	// Capacity is the highest rate of good answers (goodput) that was seen, and
	// CapacityAt the level at which it was.
	Capacity, CapacityAt float64
	// Curve has a point for each level that was tried, in rising order.
	Curve []Point
	// Latency is the mean latency at the knee, and InFlight the mean number of
	// requests in flight there, by Little's law.
	Latency  time.Duration
	InFlight float64
	Recovery Recovery
	// Stop is why the search ended. If empty, it has not.
	Stop Stop
	// Doubt is empty if the figures can be trusted; otherwise it says in one
	// line why not: the generator was late, or dropped requests.
	Doubt string
	Spent Spent

	good []Point // the curve of the trials that met the objective
}

// Interval is a figure with its 90 % interval.
type Interval struct{ Low, At, High float64 }

// systematic is what an interval adds on both sides for what trials cannot tell
// of themselves: each begins with an idle service, whose queue takes a while to
// become as long as it will.
const systematic = 0.04

// Point holds the figures of one level, over all trials there except those of
// kind Settle, Push and Return.
type Point struct {
	Level            float64 // offered: the rate, or the concurrency
	Trials, Requests int
	// Offered, Served and Goodput are requests a second: sent, answered, and
	// answered within the objective.
	Offered, Served, Goodput float64
	Errors                   float64 // the share of requests that failed or were refused
	Refused                  float64 // of them those refused, as a share of all requests
	// Mean, P50, P90 and P99 are latencies, of several trials the means of
	// theirs, by how many requests were answered. If zero, none was.
	Mean, P50, P90, P99 time.Duration
	Met                 float64 // the probability that the objective holds here, from 0 to 1
	Trusted             bool    // the generator kept its schedule
}

// Verdict says whether a service recovers from an overload.
type Verdict string

const (
	Untested   Verdict = ""           // it was not pushed past its knee, or not watched to the end
	Recovers   Verdict = "recovers"   // the objective holds again within Bounds.Recovery
	Slow       Verdict = "slow"       // it does not yet, but latency or errors fall
	Metastable Verdict = "metastable" // it does not, as long as the load lasts
)

// Recovery describes how the service comes back from an overload.
type Recovery struct {
	Verdict Verdict
	// Pushed is the level of the overload, which lasted For, and Back the level
	// afterwards.
	Pushed, Back float64
	For          time.Duration
	// After is the time from the end of the overload until the objective held
	// for good. If zero and Verdict is Recovers, at once; otherwise how long the
	// service was watched.
	After time.Duration
	// Kept is goodput during the overload as a share of Capacity: far below 1 is
	// congestion collapse.
	Kept float64
	// Rested says that a Metastable or Slow service was well again after a pause
	// without any load.
	Rested bool
}

// Stop is why a search ended.
type Stop string

const (
	Found         Stop = "found"     // the interval is narrow
	NoMore        Stop = "most"      // the objective holds at Bounds.Most
	Never         Stop = "never"     // the objective holds at no level
	TooManySent   Stop = "requests"  // Bounds.Requests
	TooLong       Stop = "time"      // Bounds.Time
	TooManyFailed Stop = "failures"  // Bounds.Failures
	TooLate       Stop = "generator" // the generator cannot send more
	Down          Stop = "down"      // the service did not come back after a trial
	Undecided     Stop = "undecided" // the outcomes are too noisy for a narrow interval
)

// Spent counts the cost of a search.
type Spent struct {
	Trials, Requests, Failures int
	Time                       time.Duration
}

// Result returns what is known so far.
func (s *Search) Result() Result {
	s.begin()
	r := Result{
		Objective: s.Objective, Concurrency: s.Concurrency, Knee: s.interval(), Stop: s.stop,
		Doubt: s.doubt(), Spent: s.spent, Recovery: s.recovery.Recovery,
	}
	r.AtLeast = r.Knee.At > 0 && s.belief.weights == nil
	r.Curve = s.curve(0)
	for _, p := range r.Curve {
		if p.Goodput > r.Capacity {
			r.Capacity, r.CapacityAt = p.Goodput, p.Level
		}
	}
	r.good = s.curve(0.5)
	r.Latency = latencyAt(r.good, r.Knee.At)
	r.InFlight = r.Knee.At * r.Latency.Seconds()
	if s.Concurrency {
		r.InFlight = r.Knee.At
	}
	for _, o := range s.outcomes {
		if o.Trial.Kind == Push && r.Capacity > 0 && len(o.Parts) > pushParts {
			var good int
			for _, p := range o.Parts[:pushParts] {
				good += p.Good
			}
			r.Recovery.Kept = float64(good) / o.Trial.Duration.Seconds() / r.Capacity
		}
	}
	return r
}

// interval is where the knee is: what was measured below Bounds.Most may point above
// it, but no higher level may be offered, so that none is named.
func (s *Search) interval() Interval {
	if s.belief.weights == nil {
		return Interval{s.low, s.low, s.low}
	}
	k := s.belief.interval()
	most := s.bounds.Most
	k.Low, k.At, k.High = min(k.Low*(1-systematic), most), min(k.At, most), min(k.High*(1+systematic), most)
	if s.Concurrency {
		k.Low, k.At, k.High = s.floor(k.Low), s.floor(k.At), s.floor(k.High)
	}
	return k
}

// doubt says why the figures cannot be trusted.
func (s *Search) doubt() string {
	if s.why != "" {
		return s.why
	}
	for _, o := range s.outcomes {
		if bad := o.Slow + o.Failed + o.Refused; o.Dropped > o.Sent/100 && bad < o.Dropped {
			return "the generator dropped requests for too many in flight, while the service was well"
		}
	}
	return ""
}
