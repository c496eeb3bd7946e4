package limit_test

import (
	"math"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// How often processes ask that share a limit that is used up: what docs/leases.md
// says to size a store by, also where the burst is small beside what refills in a
// Life.
func TestLeaseCalls(t *testing.T) {
	for _, c := range []struct {
		count, burst int64
		processes    int
	}{
		{1000, 1000, 1},
		{1000, 1000, 10},
		{1000, 200, 4},
		{1000, 50, 1},
		{1000, 50, 4},
		{1000, 50, 20},
		{1000, 10, 1},
		{1000, 10, 4},
		{1000, 10, 20},
		{1000, 10, 100},
		{10_000, 100, 10},
		{10_000, 20, 50},
		{100, 5, 10},
		{100, 2, 10},
		{100, 20, 100},
	} {
		r := leaseRun{
			limit: limit.Limit{Count: c.count, Period: time.Second, Burst: c.burst}, demand: 4 * float64(c.count) / float64(c.processes),
			processes: c.processes, cost: 1, life: 100 * ms, slowest: ms, length: 4 * time.Second,
		}
		r.demand = max(r.demand, 1000)
		r.run(3)
		got := float64(r.asked) / r.length.Seconds() / float64(c.processes)
		used := float64(r.used) / (float64(c.burst) + float64(c.count)*r.length.Seconds())
		want := max(8/3.0/r.life.Seconds(), 2.2*float64(c.count)/float64(c.burst)/math.Sqrt(float64(c.processes)))
		t.Logf("%v, %d processes: %.0f questions a second, each %.1f; %.3f of it used", r.limit, c.processes, got*float64(c.processes), got, used)
		if got > 1.3*want || used < 0.99 {
			t.Errorf("%v, %d processes: each asks %.1f times a second, %.3f of it is used; want at most 1.3 × %.1f, and 0.99", r.limit, c.processes, got, used, want)
		}
		if most := float64(c.burst) + float64(c.count)*r.life.Seconds(); r.excess() > most+1e-6 {
			t.Errorf("%v, %d processes: %v above the rate, want at most %v", r.limit, c.processes, r.excess(), most)
		}
	}
}
