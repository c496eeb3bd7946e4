package sim

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
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

// fares measures, after the first 150,000 calls or 10 s, 100,000 calls or 60 s.
func (c trial) fares(t *testing.T, inFlight string, warm, calls int64) fare {
	t.Helper()
	s := c.scenario()
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	r := New(s, policy(t, "none(in-flight="+inFlight+")"), c.seed+1)
	until := func(served int64, at time.Duration) {
		for r.server.served < served && r.now < int64(at) {
			if r.Step(1000) {
				t.Fatalf("%s under %s ended early", c.name, inFlight)
			}
		}
	}
	until(warm, 10*time.Second)
	before, from := r.Result(), r.now
	r.took = histogram{}
	until(r.server.served+calls, time.Duration(r.now)+60*time.Second)
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

func TestTune(t *testing.T) {
	if os.Getenv("TUNE") == "" {
		t.Skip()
	}
	names := strings.Split(os.Getenv("TUNE"), ",")
	var trials []trial
	var seed uint64
	fmt.Sscan(os.Getenv("SEED"), &seed)
	for _, tail := range []float64{0, 1} {
		for _, ms := range []float64{0.1, 1, 10, 100} {
			for _, width := range []int{1, 8, 64, 1000} {
				trials = append(trials, trial{
					name:    fmt.Sprintf("%vms x %d tail %v", ms, width, tail),
					service: Service{Time: time.Duration(ms * 1e6), Spread: 0.2, Tail: tail, AtOnce: width, Queue: -1},
					latency: 500 * time.Microsecond, seed: seed,
				})
			}
		}
	}
	for _, c := range trials {
		best := c.sweep(t, 60_000, 40_000)
		line := fmt.Sprintf("%-22s best %4s %9.1f/s p99 %8.2f", c.name, best.name, best.goodput, best.p99)
		for _, name := range names {
			f := c.fares(t, name, 60_000, 40_000)
			bad := " "
			if f.goodput < 0.95*best.goodput || f.p99 > 2*best.p99 {
				bad = "!"
			}
			line += fmt.Sprintf(" | %s %s%.3f %.2f", name, bad, f.goodput/best.goodput, f.p99/best.p99)
		}
		fmt.Println(line)
	}
}
