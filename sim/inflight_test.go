package sim

import (
	"fmt"
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/pace/peers"
)

// fare is what a policy of how many at once comes to on a server.
type fare struct {
	name     string
	goodput  float64 // served a second
	p50, p99 float64 // of latency, in ms
	failed   float64 // timed out or refused, for each served
}

// trial is a server in use by one process that always has more to do.
type trial struct {
	name    string
	service Service
	latency time.Duration
	timeout time.Duration
	workers int
	seed    uint64
}

func (c trial) scenario() Scenario {
	workers := c.workers
	if workers == 0 {
		workers = 4096
	}
	return Scenario{
		Name: c.name, Duration: time.Hour,
		Server:  Server{Service: c.service, Hints: Hints{Crowded: true}},
		Network: Network{Latency: c.latency, Spread: 0.2},
		Clients: []Group{{Processes: 1, Workers: workers, Timeout: c.timeout}},
	}
}

// fares measures so many calls or 60 s, after so many to warm up or 10 s, under a
// concurrency limit of none(in-flight=...), or that of failsafe-go, "failsafe". It
// measures whole periods of a server that pauses, so that each limit meets as many
// pauses.
func (c trial) fares(t *testing.T, inFlight string, warm, calls int64) fare {
	t.Helper()
	s := c.scenario()
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	p := Policy{Name: inFlight, New: func() pace.Controller { return &peers.FailsafeLimiter{Most: 10_000} }}
	began := time.Duration(0)
	if inFlight == "failsafe" {
		warm, began = math.MaxInt64, 50*time.Second // it moves once a second, so it gets a minute
	} else {
		p = policy(t, "none(in-flight="+inFlight+")")
	}
	r := New(s, p, c.seed+1)
	until := func(served int64, at time.Duration) {
		for r.server.served < served && r.now < int64(at) {
			if r.Step(1000) {
				t.Fatalf("%s under %s ended early", c.name, inFlight)
			}
		}
	}
	until(warm, began+10*time.Second)
	before, from := r.Result(), r.now
	r.took = histogram{}
	until(r.server.served+calls, time.Duration(r.now)+60*time.Second)
	if every := int64(c.service.Pause.Every); every > 0 {
		periods := (r.now - from + every - 1) / every
		until(math.MaxInt64, time.Duration(from+periods*every))
	}
	after := r.Result()
	served := float64(after.Served - before.Served)
	return fare{
		inFlight, served / time.Duration(r.now-from).Seconds(), 1e3 * after.LatencyP50.V, 1e3 * after.LatencyP99.V,
		float64(after.Throttled+after.TimedOut-before.Throttled-before.TimedOut) / served,
	}
}

// sweep measures fixed bounds and returns the smallest with 99 % of the highest
// goodput.
func (c trial) sweep(t *testing.T, warm, calls int64) (best fare) {
	var all []fare
	most := 0.0
	for n := 1; n <= 4096; n *= 2 {
		for _, m := range []int{n, n + n/2} {
			if m == n && n > 1 || n == 1 && m == 1 && len(all) == 0 || m > n && m < 4096 {
				f := c.fares(t, fmt.Sprint(m), warm, calls)
				all = append(all, f)
				most = max(most, f.goodput)
			}
		}
		if k := len(all); k > 8 && all[k-1].goodput < 1.002*all[k-3].goodput && all[k-3].goodput < 1.002*all[k-5].goodput {
			break // flat
		}
	}
	for _, f := range all {
		if f.goodput >= 0.99*most {
			return f
		}
	}
	panic("none")
}

// speeds are servers 1000-fold apart.
func speeds(whole bool) (trials []trial) {
	for _, each := range []time.Duration{100 * time.Microsecond, time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond} {
		for _, width := range []int{1, 8, 64, 1000} {
			if !whole && (width == 1000 || each == time.Millisecond || each == 10*time.Millisecond == (width == 8)) {
				continue
			}
			trials = append(trials, trial{
				name:    fmt.Sprintf("%v x %d", each, width),
				service: Service{Time: each, Spread: 0.2, AtOnce: width, Queue: -1},
				latency: 500 * time.Microsecond,
			})
		}
	}
	return trials
}

// Across servers whose speeds differ 1000-fold, Adaptive comes near the best of
// all fixed bounds, without a number of its own.
func TestInFlightNearTheBest(t *testing.T) {
	warm, calls := int64(20_000), int64(15_000)
	others := []string{}
	whole := os.Getenv("THROTTLE_SOAK") != ""
	if whole {
		warm, calls, others = 60_000, 40_000, []string{"aimd", "vegas", "gradient2", "failsafe", "8", "512"}
	}
	for _, c := range speeds(whole) {
		best, ours := c.sweep(t, warm, calls), c.fares(t, "adaptive", warm, calls)
		line := fmt.Sprintf("| %s | %s: %.0f/s, %.3g ms | %.3f, %.2f |", c.name, best.name, best.goodput, best.p99, ours.goodput/best.goodput, ours.p99/best.p99)
		if ours.goodput < 0.95*best.goodput || ours.p99 > 2*best.p99 {
			t.Errorf("%s of goodput and p99 of the best; want at least 0.95, at most 2", line)
		}
		for _, name := range others {
			f := c.fares(t, name, warm, calls)
			line += fmt.Sprintf(" %.3f, %.2f |", f.goodput/best.goodput, f.p99/best.p99)
		}
		t.Log(line)
	}
}

// seconds counts what a run serves in each second.
func seconds(t *testing.T, s Scenario, text string, seed uint64) (served []float64) {
	t.Helper()
	served = make([]float64, s.Duration/time.Second)
	r := New(s, policy(t, text), seed)
	r.Watch = func(p Point) {
		if !p.Sent && p.Verdict == pace.Served {
			served[p.At/time.Second]++
		}
	}
	for !r.Step(1_000_000) {
	}
	return served
}

// least is the least of some seconds.
func least(x []float64) float64 { return slices.Min(x) }

// After a trigger, naive retry stays collapsed, and Adaptive is back at 95 % of
// the goodput before within 10 s.
func TestMetastable(t *testing.T) {
	seeds := uint64(1)
	if os.Getenv("THROTTLE_SOAK") != "" {
		seeds = 100
	}
	collapse := builtin(t, "cassandra")
	collapse.Duration = 15 * time.Second
	for seed := range seeds {
		naive, ours := seconds(t, builtin(t, "metastable"), "none", seed), seconds(t, builtin(t, "metastable"), "none(in-flight=adaptive)", seed)
		if slices.Max(naive[20:]) > 100 {
			t.Errorf("seed %d: naive retry serves %v a second after the trigger, want it to stay down", seed, naive[20:])
		}
		if got := least(ours[30:]); got < 0.95*350 { // arrivals are random: 400 a second, 350 in the worst
			t.Errorf("seed %d: %v a second from 10 s after the trigger on, want 95 %% of what comes", seed, got)
		}
		if all := finish(New(builtin(t, "metastable"), policy(t, "none(in-flight=adaptive)"), seed)); float64(all.Sent) > 1.11*float64(all.Served) {
			t.Errorf("seed %d: %d requests sent for %d served, want at most 1.11 each", seed, all.Sent, all.Served)
		}
		fixed, ours := seconds(t, collapse, "none(in-flight=512)", seed), seconds(t, collapse, "none(in-flight=adaptive)", seed)
		if slices.Max(fixed[3:]) > 150 || least(ours[3:]) < 475 {
			t.Errorf("seed %d: 500/s, 600 ms: fixed 512 serves %v at most, ours %v at least; want below 150, above 475", seed, slices.Max(fixed[3:]), least(ours[3:]))
		}
	}
}

// A pause of the server is no reason to lower the limit for long, and one that
// becomes slower or faster is followed within two seconds.
func TestInFlightFollows(t *testing.T) {
	s := database("steps", 20*time.Second)
	s.Server.Service.Time = 5 * time.Millisecond
	s.Server.Service.Speeds = []Speed{{5 * time.Second, 4}, {12 * time.Second, 1}}
	served := seconds(t, s, "none(in-flight=adaptive)", 1)
	full := slices.Max(served)
	if least(served[1:5]) < 0.9*full || least(served[7:12]) < 0.9*full/4 || least(served[14:]) < 0.9*full {
		t.Errorf("served %v a second, want nearly all from two seconds after each change", served)
	}
	s = builtin(t, "gc-pause")
	served, unbounded := seconds(t, s, "none(in-flight=adaptive)", 1), seconds(t, s, "none", 1)
	for i := 1; i < len(served); i++ {
		if served[i] < 0.9*unbounded[i] {
			t.Errorf("second %d: served %v, without a bound %v; want nine tenths", i, served[i], unbounded[i])
		}
	}
}

// A pause delays what is in work, for its length and no more.
func TestPauseAfter(t *testing.T) {
	p := Pause{Every: 100, Length: 20}
	for _, c := range []struct{ now, work, want int64 }{
		{0, 10, 10},
		{0, 100, 100},
		{0, 101, 121},
		{95, 10, 125},
		{100, 1, 121},
		{119, 1, 121},
		{120, 80, 200},
		{120, 81, 221},
		{120, 161, 321},
		{0, 261, 321},
		{150, 50, 200},
		{150, 130, 300},
		{150, 131, 321},
	} {
		if got := p.after(c.now, c.work); got != c.want {
			t.Errorf("%d of work from %d on ends at %d, want %d", c.work, c.now, got, c.want)
		}
	}
}
