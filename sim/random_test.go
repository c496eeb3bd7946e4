package sim

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/pace"
)

// dice draws scenarios.
type dice struct{ *rand.Rand }

func (d dice) log(least, most float64) float64 {
	return least * math.Pow(most/least, d.Float64())
}

func (d dice) half() bool { return d.IntN(2) == 0 }

// limit draws a limit of about that many requests a second and that burst; of windows,
// the usual one that is nearest, up to longest.
func (d dice) limit(rate, burst float64, longest time.Duration) limit.Limit {
	kinds := []limit.Kind{limit.TokenBucket, limit.FixedWindow, limit.SlidingLog, limit.SlidingWindow, limit.SlidingSlots, limit.FirstHitWindow, limit.CalendarWindow}
	l := limit.Limit{Kind: kinds[d.IntN(len(kinds))], Period: time.Second}
	if l.Kind == limit.TokenBucket {
		for l.Period < time.Hour && rate*l.Period.Seconds() < 20 {
			l.Period *= 60
		}
		l.Burst = int64(math.Round(burst))
	} else {
		usual := []time.Duration{time.Second, 10 * time.Second, time.Minute, 10 * time.Minute, time.Hour}
		if l.Kind == limit.CalendarWindow {
			usual = []time.Duration{time.Minute, time.Hour}
		}
		usual = slices.DeleteFunc(usual, func(w time.Duration) bool { return w > longest })
		l.Period = slices.MinFunc(usual, func(a, b time.Duration) int {
			far := func(w time.Duration) int { return int(1e6 * math.Abs(math.Log(w.Seconds()*rate/burst))) }
			return far(a) - far(b)
		})
	}
	l.Count = int64(math.Round(rate * l.Period.Seconds()))
	return l
}

// server draws what the server tells, and the way to it.
func (d dice) server(l limit.Limit, latency float64) Scenario {
	s := Scenario{
		Name:    "random",
		Server:  Server{Limit: l, Hints: Hints{RetryAfter: d.half(), Remaining: d.half(), Reset: d.half(), Policy: d.half()}},
		Network: Network{Latency: time.Duration(latency * 1e9), Spread: 0.2},
	}
	if d.IntN(3) == 0 {
		s.Network.Tail = math.Round(20+80*d.Float64()) / 100
	}
	return s
}

func (s *Scenario) informed() bool { return s.Server.Hints.Policy || s.Server.Hints.Remaining }

// finished plays s to its end, for the median of three seeds.
func finished(s Scenario, start func(seed uint64) *Run) (finish, refused float64) {
	var ends, throttled []float64
	for seed := uint64(1); seed <= 3; seed++ {
		run := start(seed)
		for !run.Step(1_000_000) {
		}
		r := run.Result()
		end := math.Inf(1)
		if r.Finish.OK {
			end = r.Finish.V
		}
		ends, throttled = append(ends, end), append(throttled, float64(r.Throttled))
	}
	return median(ends), median(throttled)
}

// TestJobsAtRandom draws jobs of one client, 20 to 2,000 calls under every kind of limit,
// and compares when they are done with the bound: in how many is it within 1.5 × bound and
// 2 latencies, where the server tells what remains or its policy, else within 2 × bound and
// 4, with at most 5 or 10 % refused, or 3 or 10 refusals?
func TestJobsAtRandom(t *testing.T) {
	p, err := ParsePolicy("adaptive-informed")
	if err != nil {
		t.Fatal(err)
	}
	var over, held, all [2][]float64 // informed, blind
	for seed := range uint64(800) {
		d := dice{rand.New(rand.NewPCG(seed, 13))}
		rate, calls, latency := d.log(1.0/60, 1000), int64(d.log(20, 2000)), d.log(1e-3, 10)
		l := d.limit(rate, max(1, rate*d.log(min(1, 1/rate), 60)), time.Minute)
		s := d.server(l, latency)
		if rate = float64(l.Count) / l.Period.Seconds(); l.Count < 1 || rate*latency > 2000 {
			continue
		}
		if l.Kind == limit.TokenBucket && d.half() {
			s.Server.Start = pace.Some[int64](0)
		}
		s.Clients = []Group{{Processes: 1, Workers: int(calls), Work: calls}}
		s.Duration = time.Duration((6*float64(calls)/rate + 60*latency + 120) * 1e9)
		finish, refused := finished(s, func(seed uint64) *Run { return New(s, p, seed) })
		bound, _ := finished(s, func(seed uint64) *Run { return Bound(s, seed) })
		told, waits, times, share, some := 0, 2.0, 1.5, 0.05, 3.0
		if !s.informed() {
			told, waits, times, share, some = 1, 4, 2, 0.1, 10
		}
		all[told] = append(all[told], 1)
		over[told] = append(over[told], (finish-waits/2*latency)/bound)
		if finish <= times*bound+waits*latency && refused <= max(some, share*(refused+float64(calls))) {
			held[told] = append(held[told], 1)
		}
	}
	for i, c := range []struct {
		name       string
		held, over float64 // least share, most of the median
	}{{"informed", 0.52, 1.25}, {"blind", 0.54, 1.25}} {
		share, m := float64(len(held[i]))/float64(len(all[i])), median(over[i])
		if t.Logf("%s: %.3f of %d held; done at %.2f of the bound", c.name, share, len(all[i]), m); share < c.held || m > c.over {
			t.Errorf("%s: %.3f of %d held, done at %.2f of the bound; want %.2f, and %.2f", c.name, share, len(all[i]), m, c.held, c.over)
		}
	}
}

// later returns the wait at p99, in seconds, and the share refused, once a minute is over
// and each process was served 30 times.
func later(run *Run, processes int) (wait, refused float64) {
	over, before := false, Result{}
	for !over && (time.Duration(run.now) < time.Minute || before.Served < int64(30*processes)) {
		over = run.Step(200)
		before = run.Result()
	}
	run.waits = histogram{}
	for !run.Step(1_000_000) {
	}
	r := run.Result()
	return r.WaitP99.V, float64(r.Throttled-before.Throttled) / max(1, float64(r.Sent-before.Sent))
}

// TestServicesAtRandom draws services at 30 to 90 % of limits that hold 20 requests and
// three for each process: in how many is the wait at p99 longer than the bound's by 2 s, or
// 5 intervals of a process's share, 20 above 80 %, at most, and at most 5 % refused, 8 %
// where the server tells neither what remains nor its policy?
func TestServicesAtRandom(t *testing.T) {
	p, err := ParsePolicy("adaptive-informed")
	if err != nil {
		t.Fatal(err)
	}
	held, all := 0, 0
	for seed := range uint64(700) {
		d := dice{rand.New(rand.NewPCG(seed, 17))}
		rate, processes, latency := d.log(10.0/3600, 2000), int(d.log(1, 100)), d.log(1e-3, 10)
		l := d.limit(rate, d.log(20, max(20, rate*3600)), time.Hour)
		s, load := d.server(l, latency), 0.3+0.6*d.Float64()
		rate = float64(l.Count) / l.Period.Seconds()
		each := load * rate / float64(processes)
		long := max(330/each, 4*l.Period.Seconds())
		if burst := max(l.Count, l.Burst); l.Kind == limit.TokenBucket && l.Burst < int64(max(20, 3*processes)) || burst < int64(max(20, 3*processes)) ||
			long*rate > 30_000 || latency*each > 60 {
			continue
		}
		s.Clients = []Group{{Processes: processes, Workers: min(200, 8+int(8*each*latency)), Arrivals: each}}
		s.Duration = time.Duration((long + 60) * 1e9)
		wait, refused := later(New(s, p, 1), processes)
		bound, _ := later(Bound(s, 1), processes)
		intervals, most := 5.0, 0.05
		if load > 0.8 {
			intervals = 20
		}
		if !s.informed() {
			most = 0.08
		}
		all++
		if wait-bound <= max(2, intervals*float64(processes)/rate) && refused <= most {
			held++
		} else {
			t.Logf("seed %d: %v, %d processes, latency %.3g s, load %.2f, told %+v: %.3g s at p99 for %.3g, %.1f %% refused",
				seed, l, processes, latency, load, s.Server.Hints, wait, bound, 100*refused)
		}
	}
	if t.Logf("%d of %d held", held, all); held*100 < 92*all {
		t.Errorf("%d of %d held, want 92 %%", held, all)
	}
}
