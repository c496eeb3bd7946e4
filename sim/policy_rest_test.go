package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// Clients that share a limit, and are told its policy and what remains of it, share it as well
// as those that are told the policy alone: what remains is followed where it is a bucket's.
func TestPolicyWithWhatRemains(t *testing.T) {
	log := func(n int64, d time.Duration) limit.Limit {
		return limit.Limit{Kind: limit.SlidingLog, Count: n, Period: d}
	}
	slots := func(n int64, d time.Duration) limit.Limit {
		return limit.Limit{Kind: limit.SlidingSlots, Count: n, Period: d, Slots: 10}
	}
	fixed := func(n int64, d time.Duration) limit.Limit {
		return limit.Limit{Kind: limit.FixedWindow, Count: n, Period: d}
	}
	rest := Hints{Remaining: true, Policy: true}
	reset := Hints{Remaining: true, Policy: true, Reset: true}
	for _, c := range []struct {
		name      string
		limit     limit.Limit
		hints     Hints
		processes int
		hours     float64
		refused   float64 // at most
		jain      float64 // at least
		wait      float64 // p99 at most, seconds
	}{
		{"log of a minute, a crowd", log(60, time.Minute), rest, 12, 1, 0.05, 0.75, 420},
		{"log of a minute, a crowd told a reset", log(60, time.Minute), reset, 12, 1, 0.06, 0.6, 420},
		{"log of ten minutes", log(300, 10*time.Minute), rest, 3, 3, 0.03, 0.85, 300},
		{"log of an hour", log(1000, time.Hour), rest, 4, 10, 0.035, 0.85, 600},
		{"slots of a minute, a crowd", slots(60, time.Minute), rest, 12, 1, 0.05, 0.75, 400},
		{"slots of ten minutes, told a reset", slots(300, 10*time.Minute), reset, 3, 3, 0.03, 0.9, 250},
		{"window of an hour", fixed(1000, time.Hour), rest, 4, 10, 0.03, 0.9, 700},
		{"window of a minute, a crowd", fixed(60, time.Minute), rest, 12, 1, 0.055, 0.85, 400},
		{"bucket of ten minutes", bucketOf(300, 10*time.Minute, 300), rest, 3, 3, 0.005, 0.95, 120},
		{"bucket of a minute", bucketOf(600, time.Minute, 600), rest, 8, 1, 0.005, 0.95, 20},
		{"bucket of a minute, a crowd", bucketOf(60, time.Minute, 60), rest, 12, 1, 0.05, 0.4, 400},
	} {
		var refused, jain, wait []float64
		for seed := range uint64(5) {
			r := play(t, Scenario{
				Name: "rest", Duration: time.Duration(c.hours * float64(time.Hour)),
				Server:  Server{Limit: c.limit, Hints: c.hints},
				Network: Network{Latency: 60 * time.Millisecond, Spread: 0.2},
				Clients: []Group{{Processes: c.processes, Workers: 5}},
			}, "adaptive-informed", seed+1)
			refused, jain, wait = append(refused, r.RetryRate.V), append(jain, r.Jain.V), append(wait, r.WaitP99.V)
		}
		p, j, w := median(refused), median(jain), median(wait)
		got := fmt.Sprintf("%s, %d clients: %.3f refused, Jain's index %.2f, %.1f s", c.name, c.processes, p, j, w)
		t.Log(got)
		if p > c.refused || j < c.jain || w > c.wait {
			t.Errorf("%s; want at most %.3f, at least %.2f, at most %.0f s", got, c.refused, c.jain, c.wait)
		}
	}
}

// Where a policy is of few requests for each client, what remains is used up before most have
// heard of it. Clients that are told it share the policy as well as those that are told the policy
// alone: none takes several times its part at once, and each begins with the part that it got.
func TestSmallPolicies(t *testing.T) {
	of := func(kind limit.Kind, n int64, d time.Duration) limit.Limit {
		return limit.Limit{Kind: kind, Count: n, Period: d, Slots: 10}
	}
	rest := Hints{Remaining: true, Policy: true}
	all := Hints{Remaining: true, Policy: true, Reset: true, RetryAfter: true}
	for _, c := range []struct {
		limit     limit.Limit
		processes int
		told      []Hints
		wait      float64 // p99 at most, seconds
	}{
		{of(limit.FixedWindow, 20, time.Minute), 10, []Hints{rest}, 330},
		{of(limit.SlidingLog, 8, time.Minute), 4, []Hints{rest, all}, 320},
		{of(limit.SlidingSlots, 8, time.Minute), 4, []Hints{rest, all}, 370},
		{of(limit.FirstHitWindow, 8, time.Minute), 4, []Hints{rest, all}, 320},
		{of(limit.CalendarWindow, 8, time.Minute), 4, []Hints{rest, all}, 320},
		{of(limit.SlidingLog, 20, time.Minute), 10, []Hints{rest}, 350},
		{bucketOf(20, time.Minute, 20), 10, []Hints{rest, all}, 290},
		{bucketOf(40, time.Minute, 40), 12, []Hints{rest, all}, 230},
	} {
		for _, hints := range c.told {
			var refused, jain, wait []float64
			for seed := range uint64(5) {
				r := play(t, Scenario{
					Name: "small", Duration: 300 * c.limit.Period / 5,
					Server:  Server{Limit: c.limit, Hints: hints},
					Network: Network{Latency: 80 * time.Millisecond, Spread: 0.2},
					Clients: []Group{{Processes: c.processes, Workers: 5}},
				}, "adaptive-informed", seed+1)
				refused, jain, wait = append(refused, r.RetryRate.V), append(jain, r.Jain.V), append(wait, r.WaitP99.V)
			}
			p, j, w := median(refused), median(jain), median(wait)
			got := fmt.Sprintf("%v, reset stated: %v, %d clients: %.3f refused, Jain's index %.2f, %.0f s",
				c.limit, hints.Reset, c.processes, p, j, w)
			t.Log(got)
			if p > 0.045 || j < 0.93 || w > c.wait {
				t.Errorf("%s; want at most 0.045, at least 0.93, at most %.0f s", got, c.wait)
			}
		}
	}
}
