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
