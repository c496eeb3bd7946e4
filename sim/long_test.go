package sim

import (
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// TestFairInTheLongRun plays days of a bucket whose callers are told nothing: none may lose
// its share bit by bit, as all do but one where who has less also takes longer to get more.
func TestFairInTheLongRun(t *testing.T) {
	p, err := ParsePolicy("adaptive")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		limit              limit.Limit
		processes, workers int
		hours              time.Duration
		least              float64
	}{
		{limit.Limit{Kind: limit.TokenBucket, Count: 4500, Period: time.Hour, Burst: 100}, 8, 1, 24, 0.9},
		{limit.Limit{Kind: limit.TokenBucket, Count: 300, Period: 10 * time.Minute, Burst: 20}, 2, 3, 48, 0.9},
	} {
		s := Scenario{
			Name: "long", Server: Server{Limit: c.limit}, Duration: c.hours * time.Hour,
			Network: Network{Latency: 200 * time.Millisecond, Spread: 0.2},
			Clients: []Group{{Processes: c.processes, Workers: c.workers}},
		}
		var jain []float64
		for seed := range uint64(3) {
			run := New(s, p, seed+1)
			for !run.Step(1_000_000) {
			}
			jain = append(jain, run.Result().Jain.V)
		}
		m := median(jain)
		if t.Logf("%v, %d processes: Jain %.3f", c.limit, c.processes, m); m < c.least {
			t.Errorf("%v, %d processes, %d h: Jain %.3f (median), want at least %.2f", c.limit, c.processes, c.hours, m, c.least)
		}
	}
}
