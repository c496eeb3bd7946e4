package sim

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/pace"
)

// played is what a run came to.
type played struct {
	Result
	longest float64   // wait, seconds, of calls that still wait too
	late    float64   // share refused, beyond the first few of each process
	at      []float64 // when each was served, seconds
}

// watched plays run to its end; few refusals of each process do not count.
func watched(run *Run, few int64) played {
	var p played
	refused, late := make([]int64, len(run.procs)), 0.0
	run.Watch = func(x Point) {
		switch {
		case x.Sent:
		case x.Verdict == pace.Served:
			p.at = append(p.at, x.At.Seconds())
		case x.Verdict == pace.Throttled:
			if refused[x.Process]++; refused[x.Process] > few {
				late++
			}
		}
	}
	for !run.Step(1_000_000) {
	}
	p.Result = run.Result()
	p.late = late / float64(max(1, p.Sent))
	for b, n := range run.waits.counts {
		if n > 0 {
			p.longest = middle(b) / 1e9
		}
	}
	for _, w := range run.workers {
		if w.calling {
			p.longest = max(p.longest, float64(run.now-w.want)/1e9)
		}
	}
	return p
}

// tally counts how many of the scenarios drawn hold, informed and blind.
type tally [2]struct{ held, all int }

func (y *tally) add(informed, held bool) {
	i := 1
	if informed {
		i = 0
	}
	if y[i].all++; held {
		y[i].held++
	}
}

// check fails where a smaller share holds than that.
func (y *tally) check(t *testing.T, informed, blind float64) {
	t.Helper()
	for i, least := range []float64{informed, blind} {
		name := []string{"informed", "blind"}[i]
		share := float64(y[i].held) / float64(y[i].all)
		if t.Logf("%s: %.3f of %d held", name, share, y[i].all); share < least {
			t.Errorf("%s: %.3f of %d held, want %.2f", name, share, y[i].all, least)
		}
	}
}

// TestLowRatesAtRandom draws limits of 10 an hour to 60 a minute for 1 to 5 processes that
// call without end: in how many are at most 5 % refused, 12 % blind, but for the first 3 or
// 10 refusals of each process, and is the longest wait 3 times the bound's and 2 intervals
// of a share at most, 5 times blind? The bound is refused nothing; many of these limits hold
// less than three requests a process, and blind clients learn of those by refusals alone.
func TestLowRatesAtRandom(t *testing.T) {
	p, err := ParsePolicy("adaptive-informed")
	if err != nil {
		t.Fatal(err)
	}
	var y tally
	for seed := range uint64(1000) {
		d := dice{rand.New(rand.NewPCG(seed, 19))}
		rate, latency, processes, workers := d.log(10.0/3600, 1), d.log(1e-3, 10), 1+d.IntN(5), int(d.log(1, 21))
		l := d.limit(rate, d.log(1, max(60, rate*3600)), time.Hour)
		s := d.server(l, latency)
		if rate = float64(l.Count) / l.Period.Seconds(); rate > 1 || rate < 10.0/3600 {
			continue
		}
		if l.Kind == limit.TokenBucket && d.half() {
			s.Server.Start = pace.Some[int64](0)
		}
		s.Clients = []Group{{Processes: processes, Workers: workers}}
		s.Duration = time.Duration(max(100*float64(processes)/rate, 4*l.Period.Seconds()) * 1e9)
		few, most, times := int64(3), 0.05, 3.0
		if !s.informed() {
			few, most, times = 10, 0.12, 5
		}
		ours, bound := watched(New(s, p, 1), few), watched(Bound(s, 1), 0)
		y.add(s.informed(), ours.late <= most && ours.longest <= times*bound.longest+2*float64(processes)/rate)
	}
	y.check(t, 0.5, 0.62)
}

// TestChangesAtRandom draws clients of a limit that rises or falls by up to ten times, or an
// outage of up to 10 minutes, after they have settled: in how many is 0.9 of the new capacity
// served within 20 intervals or 30 s, and a window, after the bound; blind, within 2 probes?
func TestChangesAtRandom(t *testing.T) {
	p, err := ParsePolicy("adaptive-informed")
	if err != nil {
		t.Fatal(err)
	}
	var y tally
	for seed := range uint64(400) {
		d := dice{rand.New(rand.NewPCG(seed, 29))}
		rate, latency, processes := d.log(1.0/6, 500), d.log(1e-3, 5), int(d.log(1, 31))
		l := d.limit(rate, d.log(1, max(2, rate*600)), time.Minute)
		s := d.server(l, latency)
		if rate = float64(l.Count) / l.Period.Seconds(); l.Count < 4 {
			continue
		}
		now, most, at, changes := d.change(l, max(300, 60*float64(processes)/rate))
		long := at + max(600, 200/now, 2*(at-changes[0].At.Seconds()))
		if at*rate+(long-at)*now > 60_000 {
			continue
		}
		s.Server.Changes = changes
		s.Clients = []Group{{Processes: processes, Workers: int(d.log(2, 21)) + int(2*most*latency/float64(processes))}}
		s.Duration = time.Duration(long * 1e9)
		within, share := max(30, 20/now), now/float64(processes)
		if !s.informed() {
			within = max(within, 2*min(7200, max(60*math.Pow(0.55/share, 0.2), 40/share)))
		}
		span := max(10, 20/now, 2*l.Period.Seconds())
		ours, bound := watched(New(s, p, 1), 0), watched(Bound(s, 1), 0)
		if least := bound.back(at, span, now); !math.IsInf(least, 0) {
			y.add(s.informed(), ours.back(at, span, now) <= least+within+l.Period.Seconds())
		}
	}
	y.check(t, 0.66, 0.55)
}

// change draws a rise, a fall or an outage of l that begins at that second. It returns the
// rate a second afterwards, the higher of the rates before and after, the second at which
// the rate of afterwards begins, and the changes.
func (d dice) change(l limit.Limit, second float64) (now, most, at float64, c []Change) {
	count, factor, begin := float64(l.Count), d.log(1.5, 10), time.Duration(second*1e9)
	at = second
	switch d.IntN(3) {
	case 0:
		count = math.Round(count * factor)
	case 1:
		count = max(1, math.Round(count/factor))
	default:
		at += d.log(10, 600)
		c = []Change{{At: begin, Period: l.Period}}
	}
	c = append(c, Change{At: time.Duration(at * 1e9), Count: int64(count), Period: l.Period})
	now = count / l.Period.Seconds()
	return now, max(now, float64(l.Count)/l.Period.Seconds()), at, c
}

// back returns how long after that second the first span began in which 0.9 of rate was served;
// infinite, if there was none.
func (p *played) back(second, span, rate float64) float64 {
	need := int(math.Ceil(0.9 * rate * span))
	for i, at := range p.at {
		if last := i + need - 1; at >= second && last < len(p.at) && p.at[last] <= at+span {
			return at - second
		}
	}
	return math.Inf(1)
}
