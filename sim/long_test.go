package sim

import (
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// TestFairInTheLongRun plays days of a limit whose callers are not told what remains: none
// may lose its share bit by bit, as all do but one where who has less also takes longer to
// get more. Fixed windows, that refuse all of them at once, must be nearly used up too.
func TestFairInTheLongRun(t *testing.T) {
	p, err := ParsePolicy("adaptive")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		limit              limit.Limit
		processes, workers int
		hours              time.Duration
		retryAfter         bool
		jain, used         float64 // at least
	}{
		{limit.Limit{Kind: limit.TokenBucket, Count: 4500, Period: time.Hour, Burst: 100}, 8, 1, 24, false, 0.9, 0.98},
		{limit.Limit{Kind: limit.TokenBucket, Count: 300, Period: 10 * time.Minute, Burst: 20}, 2, 3, 48, false, 0.9, 0.98},
		{limit.Limit{Kind: limit.TokenBucket, Count: 600, Period: time.Hour, Burst: 10}, 3, 3, 96, false, 0.9, 0.98},
		{limit.Limit{Kind: limit.TokenBucket, Count: 300, Period: time.Hour, Burst: 5}, 3, 3, 96, false, 0.9, 0.98},
		{limit.Limit{Kind: limit.TokenBucket, Count: 60, Period: time.Hour, Burst: 4}, 5, 3, 192, false, 0.75, 0.98},
		{limit.Limit{Kind: limit.FixedWindow, Count: 300, Period: 10 * time.Minute}, 2, 3, 24, false, 0.9, 0.95},
		{limit.Limit{Kind: limit.FixedWindow, Count: 348, Period: time.Minute}, 11, 3, 8, true, 0.9, 0.95},
		{limit.Limit{Kind: limit.FixedWindow, Count: 101, Period: 10 * time.Minute}, 5, 3, 24, true, 0.9, 0.95},
		{limit.Limit{Kind: limit.FixedWindow, Count: 500, Period: time.Minute}, 1, 3, 8, false, 1, 0.9},
	} {
		s := Scenario{
			Name: "long", Server: Server{Limit: c.limit, Hints: Hints{RetryAfter: c.retryAfter}}, Duration: c.hours * time.Hour,
			Network: Network{Latency: 200 * time.Millisecond, Spread: 0.2},
			Clients: []Group{{Processes: c.processes, Workers: c.workers}},
		}
		var jain, used []float64
		for seed := range uint64(7) {
			run := New(s, p, seed+1)
			for !run.Step(1_000_000) {
			}
			r := run.Result()
			jain = append(jain, r.Jain.V)
			used = append(used, float64(r.Served)/(float64(c.limit.Count)*float64(s.Duration)/float64(c.limit.Period)))
		}
		j, u := median(jain), median(used)
		if t.Logf("%v, %d processes: Jain %.3f, used %.3f", c.limit, c.processes, j, u); j < c.jain-1e-9 || u < c.used {
			t.Errorf("%v, %d processes, %d h: Jain %.3f, used %.3f (medians), want at least %.2f and %.2f",
				c.limit, c.processes, c.hours, j, u, c.jain, c.used)
		}
	}
}
