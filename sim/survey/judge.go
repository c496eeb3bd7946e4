package survey

import (
	"math"
	"slices"

	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/sim"
)

// Figures are the medians, over the seeds, of the results of one policy in a
// cell. Times are in seconds, Never where there is none.
type Figures struct {
	Sent, Served, Throttled float64
	Retry                   float64 // throttled/sent
	Jain                    float64
	Wait                    float64 // the 99th percentile
	Finish                  float64
	Cut                     bool // most runs were stopped for sending too much
}

// Never is the time of an event that did not happen.
const Never = math.MaxFloat64

// Measure returns the figures of results, one of each seed.
func Measure(results []sim.Result) Figures {
	cut := 0
	for _, r := range results {
		if r.Cut {
			cut++
		}
	}
	or := func(x pace.Opt[float64], absent float64) float64 {
		if x.OK {
			return x.V
		}
		return absent
	}
	return Figures{
		Sent:      median(results, func(r sim.Result) float64 { return float64(r.Sent) }),
		Served:    median(results, func(r sim.Result) float64 { return float64(r.Served) }),
		Throttled: median(results, func(r sim.Result) float64 { return float64(r.Throttled) }),
		Retry:     median(results, func(r sim.Result) float64 { return or(r.RetryRate, 0) }),
		Jain:      median(results, func(r sim.Result) float64 { return or(r.Jain, 0) }),
		Wait:      median(results, func(r sim.Result) float64 { return or(r.WaitP99, Never) }),
		Finish:    median(results, func(r sim.Result) float64 { return or(r.Finish, Never) }),
		Cut:       2*cut > len(results),
	}
}

func median(results []sim.Result, of func(sim.Result) float64) float64 {
	x := make([]float64, len(results))
	for i, r := range results {
		x[i] = of(r)
	}
	slices.Sort(x)
	switch n := len(x); {
	case n == 0:
		return 0
	case n%2 == 1 || x[n/2] == Never:
		return x[n/2]
	default:
		return (x[n/2-1] + x[n/2]) / 2
	}
}

// Informed reports whether a client that reads these hints learns the level or
// the policy: Retry-After or a reset alone are no more than blind clients have.
func (c Cell) Informed(hears sim.Hints) bool {
	told := c.Scenario.Server.Hints
	return told.Remaining && hears.Remaining || told.Policy && hears.Policy
}

// Interval returns the time from one permit of a process to its next, in
// seconds, if the rate at the start is divided evenly.
func (c Cell) Interval() float64 { return float64(c.Processes) / c.Rate }

// Bars of a held cell.
const (
	mostInformed = 0.05 // throttled
	mostBlind    = 0.10
	leastUsed    = 0.9 // of what the bound serves
	leastJain    = 0.9
	mostWait     = 3.0 // times the bound's, and
	moreWait     = 5.0 // intervals
	mostFinish   = 1.5 // times the bound's, and
	moreFinish   = 2.0 // latencies
)

// Bars lists the names of the bars that a cell may miss, in the order of a
// Verdict.
var Bars = [...]string{"throttled", "used", "jain", "wait", "finish"}

// Verdict states how far a cell is from each of Bars: above 1 it misses the bar,
// by so many times.
type Verdict [len(Bars)]float64

// Worst returns the largest.
func (v Verdict) Worst() float64 { return slices.Max(v[:]) }

// Held reports whether no bar is missed.
func (v Verdict) Held() bool { return v.Worst() <= 1 }

// Beyond returns how far beyond all bars together the cell is, a figure that
// moves where Held does not yet: the sum of ln(times) of those that are missed,
// each at most ln 20.
func (v Verdict) Beyond() (sum float64) {
	for _, times := range v {
		sum += math.Log(min(max(times, 1), 20))
	}
	return sum
}

// Missed returns the names of the bars that are missed.
func (v Verdict) Missed() (names []string) {
	for i, times := range v {
		if times > 1 {
			names = append(names, Bars[i])
		}
	}
	return names
}

// Judge compares figures with the bound's.
func (c Cell) Judge(f, bound Figures, informed bool) (v Verdict) {
	most := mostBlind
	if informed {
		most = mostInformed
	}
	v[0] = times(f.Retry, most)
	if f.Cut {
		v[0] = mostTimes
	}
	v[3] = times(f.Wait, mostWait*bound.Wait+moreWait*c.Interval())
	if c.Mode == Job {
		v[4] = times(f.Finish, mostFinish*bound.Finish+moreFinish*c.Scenario.Network.Latency.Seconds())
	} else {
		v[1] = times(leastUsed*bound.Served, f.Served)
	}
	if c.Fair() {
		v[2] = times(leastJain, f.Jain)
	}
	return v
}

// mostTimes is how far beyond a bar anything may be.
const mostTimes = 1e6

// times is a/b, at most mostTimes; nothing of nothing is 0.
func times(a, b float64) float64 {
	if a == 0 {
		return 0
	}
	return min(a/max(b, math.SmallestNonzeroFloat64), mostTimes)
}

// Fair reports whether the processes of the cell should be served alike: those
// of a job share its work as it comes.
func (c Cell) Fair() bool { return c.Mode != Job && c.Processes > 1 }

// Beats reports whether a peer does better than our policy in the cell: it is
// refused no more than 5 points and 10 requests beyond ours, it serves as much
// (a tenth less at most), and its wait or its finish is below three quarters of
// ours less an interval.
func (c Cell) Beats(peer, ours Figures) bool {
	if peer.Cut || peer.Throttled > (ours.Retry+0.05)*peer.Sent+10 || peer.Served < 0.9*ours.Served {
		return false
	}
	sooner := func(a, b float64) bool { return a != Never && a < 0.75*b-c.Interval() }
	return sooner(peer.Wait, ours.Wait) || c.Mode == Job && sooner(peer.Finish, ours.Finish)
}

// Small reports whether the burst is below three for each process: then requests
// of processes that do not talk to each other must collide.
func (c Cell) Small() bool { return c.Burst < 3*int64(c.Processes) }

// Worse reports the losses of a policy that is given one more hint: missed, if
// the cell was held by the blind bars and is not any more; loses, if one of the
// figures is worse by more than a tenth of it and by more than a point of
// throttled, an interval of wait, 0.02 of use or Jain's index.
func (c Cell) Worse(told, before, bound Figures) (missed, loses bool) {
	missed = c.Judge(before, bound, false).Held() && !c.Judge(told, bound, false).Held()
	more := func(after, before, least float64) bool { return after-before > max(0.1*before, least) }
	used := func(f Figures) float64 { return f.Served / max(bound.Served, 1) }
	loses = more(told.Retry, before.Retry, 0.01) || more(told.Wait, before.Wait, c.Interval()) ||
		c.Mode == Job && more(told.Finish, before.Finish, c.Interval()) ||
		c.Mode != Job && fell(used(told), used(before)) ||
		c.Fair() && fell(told.Jain, before.Jain)
	return missed, loses
}

func fell(after, before float64) bool { return before-after > max(0.1*before, 0.02) }
