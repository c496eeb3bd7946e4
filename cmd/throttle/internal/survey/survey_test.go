package survey

import (
	"slices"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/policy"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/sim"
	"github.com/throttle-go/throttle/sim/survey"
)

// served is when calls were served, the first so many.
func served(r *sim.Run, most int) (at []time.Duration) {
	r.Watch = func(p sim.Point) {
		if !p.Sent && p.Verdict == pace.Served {
			at = append(at, p.At)
		}
	}
	r.MaxSent = 3000
	for len(at) < most && !r.Step(1000) {
	}
	slices.Sort(at)
	return at[:min(most, len(at))]
}

// TestNoPolicyBeatsTheBound: whatever the cell, the k-th call is served no
// sooner under any policy, for every k; so none finishes sooner, and in none is
// the mean wait shorter.
func TestNoPolicyBeatsTheBound(t *testing.T) {
	const cells, calls = 60, 200
	for number := range cells {
		c := survey.Draw(11, number)
		s := c.Scenario
		s.Network.Spread, s.Server.Errors = 0, 0
		if s.Server.Limit.Kind == limit.FirstHitWindow {
			continue // who knows what comes may keep the first back
		}
		bound := served(sim.Bound(s, 5), calls)
		for _, p := range policy.All(s) {
			for k, at := range served(sim.New(s, p, 5), calls) {
				if k >= len(bound) || at < bound[k]-time.Microsecond {
					t.Errorf("cell %d (%s): %s serves call %d at %v, sooner than the bound (%d calls)", number, gist(c), p.Name, k, at, len(bound))
					break
				}
			}
		}
	}
}
