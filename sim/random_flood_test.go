package sim

import (
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// TestFloodedAtRandom draws the logs and windows of TestPoliciesDividedAtRandom, which state nothing.
// Clients that start together use up the first at once. None may take that for its rate: the first to
// come back would have all of the next window, and the others learn that next to nothing is theirs.
func TestFloodedAtRandom(t *testing.T) {
	divided(t, Hints{}, 0.87, 0.03, 0.93)
}

// TestFloodedToldWhenToComeBack is the same where a refusal says when to try again.
func TestFloodedToldWhenToComeBack(t *testing.T) {
	divided(t, Hints{RetryAfter: true}, 0.885, 0.02, 0.945)
}

// TestFloodedToldWhatRemains is the same where answers say what remains, and neither when it comes
// back nor of how much: all clients go by refusals after the first flood, as one that went by what
// remains would be the only one to slow down.
func TestFloodedToldWhatRemains(t *testing.T) {
	divided(t, Hints{Remaining: true}, 0.825, 0.03, 0.895)
}

// TestFloodedHours has crowds use up a window of an hour at once, for 20 hours: in so long a window a
// rate that grew before the window could show what it was worth would have all of it.
func TestFloodedHours(t *testing.T) {
	for _, c := range []struct {
		count              int64
		processes, workers int
	}{{6349, 13, 14}, {325, 11, 6}, {280, 7, 3}} {
		var fair []float64
		for seed := range uint64(5) {
			r := play(t, Scenario{
				Name: "hours", Duration: 20 * time.Hour,
				Server:  Server{Limit: limit.Limit{Kind: limit.CalendarWindow, Count: c.count, Period: time.Hour}},
				Network: Network{Latency: 20 * time.Millisecond, Spread: 0.2},
				Clients: []Group{{Processes: c.processes, Workers: c.workers}},
			}, "adaptive", seed+1)
			fair = append(fair, r.Jain.V)
		}
		j := median(fair)
		t.Logf("%d an hour, %d processes: Jain's index %.2f", c.count, c.processes, j)
		if j < 0.93 {
			t.Errorf("%d an hour, %d processes: Jain's index %.2f, want at least 0.93", c.count, c.processes, j)
		}
	}
}
