package sim

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// TestPoliciesDividedAtRandom draws logs and windows of one second to two minutes that state their
// policy and nothing else, divided by clients that call without end for thirty windows, each with
// 10 to 300 requests in a window. A refusal says that as many were served in the window before, so
// each keeps the part that it had of that, and is back in time when a window that was used up ends.
func TestPoliciesDividedAtRandom(t *testing.T) {
	divided(t, Hints{Policy: true}, 0.93, 0.02, 0.94)
}

// TestPoliciesDividedToldWhatRemains is the same where answers state what remains as well. What
// remains of a log comes late by as long as it is, so clients that followed it would swing.
func TestPoliciesDividedToldWhatRemains(t *testing.T) {
	divided(t, Hints{Policy: true, Remaining: true}, 0.93, 0.02, 0.94)
}

// divided plays them, and reports means beyond those bounds.
func divided(t *testing.T, told Hints, leastUsed, mostRefused, leastFair float64) {
	t.Helper()
	kinds := []limit.Kind{limit.FixedWindow, limit.SlidingLog, limit.SlidingWindow, limit.SlidingSlots, limit.FirstHitWindow}
	var used, refused, fair, n float64
	for seed := range uint64(60) {
		d := dice{rand.New(rand.NewPCG(seed, 41))}
		length, processes, each := d.log(1, 120), int(d.log(2, 13)), d.log(10, 300)
		l := limit.Limit{Kind: kinds[d.IntN(len(kinds))], Count: int64(each * float64(processes)), Period: time.Duration(length * 1e9)}
		latency := d.log(1e-3, length/30)
		s := Scenario{
			Name: "divided", Duration: 30 * l.Period,
			Server:  Server{Limit: l, Hints: told},
			Network: Network{Latency: time.Duration(latency * 1e9), Spread: 0.2},
			Clients: []Group{{Processes: processes, Workers: int(d.log(2, 12)) + int(3*each*latency/length)}},
		}
		r := play(t, s, "adaptive-informed", 1)
		used, refused, fair, n = used+r.Utilisation.V, refused+r.RetryRate.V, fair+r.Jain.V, n+1
	}
	t.Logf("%.3f used, %.3f refused, Jain's index %.3f (means)", used/n, refused/n, fair/n)
	if used < leastUsed*n || refused > mostRefused*n || fair < leastFair*n {
		t.Errorf("want at least %v used, at most %v refused, Jain's index at least %v", leastUsed, mostRefused, leastFair)
	}
}

// TestPolicyDividedFromTheStart has clients that start together use up the first window or log of a
// policy. Each comes back in time for the next; one that chance served a little less does not take it from
// the others; and none grows away from them before the limit could show what its rate was worth.
func TestPolicyDividedFromTheStart(t *testing.T) {
	for _, c := range []struct {
		limit              limit.Limit
		processes, workers int
		latency            time.Duration
		windows            time.Duration
		used, fair         float64 // at least
	}{
		{limit.Limit{Kind: limit.CalendarWindow, Count: 4545, Period: time.Minute}, 10, 17, 6 * time.Millisecond, 3, 0.93, 0.95},
		{limit.Limit{Kind: limit.FirstHitWindow, Count: 151, Period: 15 * time.Second}, 10, 2, 183 * time.Millisecond, 30, 0.93, 0.9},
		{limit.Limit{Kind: limit.SlidingSlots, Count: 2790, Period: 118 * time.Second, Slots: 10}, 10, 6, 5 * time.Millisecond, 20, 0.85, 0.9},
	} {
		var used, fair []float64
		for seed := range uint64(5) {
			r := play(t, Scenario{
				Name: "start", Duration: c.windows * c.limit.Period,
				Server:  Server{Limit: c.limit, Hints: Hints{Policy: true}},
				Network: Network{Latency: c.latency, Spread: 0.2},
				Clients: []Group{{Processes: c.processes, Workers: c.workers}},
			}, "adaptive-informed", seed+1)
			used, fair = append(used, r.Utilisation.V), append(fair, r.Jain.V)
		}
		u, j := median(used), median(fair)
		t.Logf("%v, %d clients: %.2f used, Jain's index %.2f", c.limit, c.processes, u, j)
		if u < c.used || j < c.fair {
			t.Errorf("%v, %d clients: %.2f used, Jain's index %.2f, want at least %.2f and %.2f", c.limit, c.processes, u, j, c.used, c.fair)
		}
	}
}
