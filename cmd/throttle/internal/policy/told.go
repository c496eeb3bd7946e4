package policy

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/pace/peers"
	"github.com/throttle-go/throttle/sim"
)

// told is what some peers know.
type told struct {
	scenario sim.Scenario
	// group is that whose own policy it is; -1: those that have none.
	group int
	parts func() [][]peers.Bucket // of the scenario, made once
}

// tell returns what the tested policy may know of a scenario.
func tell(s sim.Scenario) told {
	return told{s, -1, sync.OnceValue(func() [][]peers.Bucket { return parts(s) })}
}

// refill is the rate a second at which the server serves at the start; zero if
// it serves everything, or nothing.
func refill(s sim.Scenario) float64 {
	switch l := s.Server.Limit; {
	case len(s.Server.Gap) > 0:
		return 1 / s.Server.Gap[0].Least.Seconds()
	case len(s.Server.More) > 0 || s.Server.Service.AtOnce > 0 || s.Server.By != sim.Together || s.Server.Costs:
		if bound := s.Bound(); !math.IsInf(bound, 1) {
			return bound
		}
		return 0
	case l.Unlimited():
		return 0
	default:
		return float64(l.Count) / l.Period.Seconds()
	}
}

func unlimited(s sim.Scenario) bool {
	return len(s.Server.Gap) == 0 && math.IsInf(s.Bound(), 1)
}

// unpaced is a policy for a server without a limit.
func unpaced() sim.Policy {
	return sim.Policy{New: func() pace.Controller { return nil }}
}

// bursts is how many the server serves at once at the start, and at most.
func bursts(s sim.Scenario) (start, most float64) {
	l := s.Server.Limit
	if len(s.Server.Gap) > 0 || l.Kind != limit.TokenBucket || l.Unlimited() {
		return 0, 1
	}
	most = float64(l.Burst)
	if l.Burst == 0 {
		most = float64(l.Count)
	}
	most += float64(s.Server.Queue) // they wait there as well as here
	if s.Server.Start.OK {
		return min(float64(s.Server.Start.V), most), most
	}
	return most, most
}

// evenly is an even part of the rate for each process, and no burst: what the
// bucket holds at the start is not divided. Only where nothing is refilled each
// process gets its part of those tokens.
func evenly(t told) sim.Policy {
	s := t.scenario
	if unlimited(s) {
		return unpaced()
	}
	all := 0
	for _, g := range s.Clients {
		all += g.Processes
	}
	n := float64(max(all, 1))
	rates, burst := []peers.Rate{{Second: refill(s) / n}}, 1.0
	if rates[0].Second == 0 {
		start, _ := bursts(s)
		burst = max(1, math.Floor(start/n))
	}
	return sim.Policy{New: func() pace.Controller {
		return &peers.Bucket{Rates: rates, Level: burst, Burst: burst}
	}}
}

// stay is when a process is there.
type stay struct {
	join, leave time.Duration // leave 0: never
	group       int
}

// stays are those of all processes, in the order in which a run makes them.
func stays(s sim.Scenario) (all []stay) {
	for group, g := range s.Clients {
		for i := range g.Processes {
			later := time.Duration(i) * g.Every
			p := stay{join: g.Join + later, group: group}
			if g.Leave > 0 {
				p.leave = g.Leave + later
			}
			all = append(all, p)
		}
	}
	return all
}

// omniscient gives each process, at each time, its part of the limit then among
// the processes there then. Their turns alternate: what is sent by a time never
// exceeds what the server has to give by then.
func omniscient(t told) sim.Policy {
	if unlimited(t.scenario) {
		return unpaced()
	}
	return sim.Policy{Begin: func() func() pace.Controller {
		buckets, made := t.buckets(), 0
		return func() pace.Controller {
			b := buckets[made%len(buckets)]
			made++
			return &b
		}
	}}
}

// buckets are those of the processes whose policy it is.
func (t told) buckets() (buckets []peers.Bucket) {
	if t.group >= 0 {
		return t.parts()[t.group]
	}
	for i, g := range t.scenario.Clients {
		if g.Policy == nil {
			buckets = append(buckets, t.parts()[i]...)
		}
	}
	return buckets
}

// Told returns what a peer knows of s, empty if it knows nothing.
func Told(s sim.Scenario, name string) string {
	p, ok := findPeer(name)
	if !ok || unlimited(s) {
		return ""
	}
	rate := refill(s)
	switch p.name {
	case "x-time-rate":
		all := 0
		for _, g := range s.Clients {
			all += g.Processes
		}
		if rate == 0 {
			return "an even part of what is there for each process"
		}
		return fmt.Sprintf("%s a second for each process, an even part of the rate at the start", words.Number(roughly(rate/float64(max(all, 1)))))
	case "omniscient":
		return "the rate, its changes and who is there when"
	}
	return ""
}

// roughly is x to four digits.
func roughly(x float64) float64 {
	scale := math.Pow(10, 3-math.Floor(math.Log10(x)))
	return math.Round(x*scale) / scale
}

// parts are the buckets of the processes of each group.
func parts(s sim.Scenario) [][]peers.Bucket {
	all := stays(s)
	rates := shares(s, all)
	level, most := bursts(s)
	if level == most { // a full bucket gains nothing until the first arrives
		level -= refill(s) * (comes + oneWay(s)).Seconds()
	}
	there := 0 // at the start
	for _, p := range all {
		if p.join == 0 {
			there++
		}
	}
	n, turn := float64(max(there, 1)), 0.0
	buckets := make([][]peers.Bucket, len(s.Clients))
	for i, p := range all {
		b := peers.Bucket{Rates: rates, Since: time.Unix(0, int64(p.join)), Burst: max(1, (most+n-1)/n)}
		if p.join == 0 { // the k-th of n has its first token when there are k in all
			turn++
			b.Level = (max(level, 0) + n - turn) / n
		} else {
			b.Level = -float64(i) / float64(len(all))
		}
		buckets[p.group] = append(buckets[p.group], b)
	}
	return buckets
}

// comes is within what time of its join a worker of the simulator begins.
const comes = 50 * time.Millisecond

// oneWay is how long a request is on its way at the longest.
func oneWay(s sim.Scenario) time.Duration {
	return time.Duration(float64(s.Network.Latency) * (1 + s.Network.Spread) / 2)
}

// spaced is the rate at which no two requests arrive too close together,
// however long each is on its way: that differs by Latency × Spread. In a log
// it counts once a period; in a bucket all but one of a burst make up for it.
func spaced(s sim.Scenario, rate float64) float64 {
	differs := s.Network.Latency.Seconds() * s.Network.Spread
	_, most := bursts(s)
	switch {
	case rate == 0:
		return 0
	case len(s.Server.Gap) > 0 || s.Server.Limit.Kind == limit.TokenBucket:
		return 1 / (1/rate + max(0, differs-(most-1)/rate))
	case s.Server.Limit.Kind == limit.SlidingLog:
		return rate / (1 + differs/s.Server.Limit.Period.Seconds())
	}
	return rate
}

// shares are the rates of one process over time.
func shares(s sim.Scenario, all []stay) (rates []peers.Rate) {
	type event struct {
		at   time.Duration
		come int
		rate float64 // below zero: as before
	}
	events := []event{{0, 0, refill(s)}}
	for _, p := range all {
		events = append(events, event{p.join, 1, -1})
		if p.leave > 0 {
			events = append(events, event{p.leave, -1, -1})
		}
	}
	for _, c := range s.Server.Changes {
		events = append(events, event{c.At, 0, float64(c.Count) / c.Period.Seconds()})
	}
	slices.SortStableFunc(events, func(a, b event) int { return int(a.at - b.at) })
	there, rate := 0, 0.0
	for _, e := range events {
		there += e.come
		if e.rate >= 0 {
			rate = e.rate
		}
		r := peers.Rate{From: time.Unix(0, int64(e.at)), Second: spaced(s, rate) / float64(max(there, 1))}
		if n := len(rates); n > 0 && rates[n-1].From.Equal(r.From) {
			rates[n-1] = r
		} else {
			rates = append(rates, r)
		}
	}
	return rates
}
