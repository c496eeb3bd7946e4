package sim

import (
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// Callers that come to one limit at once and are told its policy, but not what remains, find
// their parts of it by next to no refusals: by what each was served before the first of them,
// and then by keeping to turns.
func TestDividedPolicy(t *testing.T) {
	for _, c := range []struct {
		limit     limit.Limit
		processes int
		latency   time.Duration
		hints     Hints
	}{
		{limit.Limit{Kind: limit.FixedWindow, Count: 20, Period: 10 * time.Second}, 18, 100 * time.Millisecond, Hints{Policy: true}},
		{limit.Limit{Kind: limit.CalendarWindow, Count: 28, Period: time.Minute}, 20, 4 * time.Millisecond, Hints{Policy: true}},
		{limit.Limit{Kind: limit.CalendarWindow, Count: 300, Period: time.Hour}, 4, 50 * time.Millisecond, Hints{Policy: true, Reset: true}},
		{limit.Limit{Kind: limit.SlidingLog, Count: 10, Period: 10 * time.Minute}, 4, 40 * time.Millisecond, Hints{Policy: true}},
		{limit.Limit{Kind: limit.SlidingLog, Count: 80, Period: 10 * time.Minute}, 16, 300 * time.Millisecond, Hints{Policy: true, RetryAfter: true}},
		{limit.Limit{Kind: limit.SlidingSlots, Count: 18, Period: time.Hour}, 2, 8 * time.Millisecond, Hints{Policy: true}},
		{limit.Limit{Kind: limit.SlidingWindow, Count: 43, Period: time.Minute}, 19, 600 * time.Millisecond, Hints{Policy: true, RetryAfter: true}},
		{limit.Limit{Kind: limit.TokenBucket, Count: 200, Period: time.Minute, Burst: 400}, 24, 5 * time.Millisecond, Hints{Policy: true}},
		{limit.Limit{Kind: limit.FirstHitWindow, Count: 100, Period: 10 * time.Second}, 10, 100 * time.Millisecond, Hints{Policy: true, Reset: true}},
	} {
		var refused, used, jain []float64
		for seed := range uint64(5) {
			r := play(t, Scenario{
				Name: "divided", Duration: time.Duration(150*c.processes) * c.limit.Period / time.Duration(c.limit.Count),
				Server:  Server{Limit: c.limit, Hints: c.hints},
				Network: Network{Latency: c.latency, Spread: 0.2},
				Clients: []Group{{Processes: c.processes, Workers: 8}},
			}, "adaptive-informed", seed+1)
			refused, used, jain = append(refused, r.RetryRate.V), append(used, r.Utilisation.V), append(jain, r.Jain.V)
		}
		r, u, j := median(refused), median(used), median(jain)
		t.Logf("%v of %d in %v, %d processes: %.1f %% refused, %.2f used, Jain's index %.2f (medians)",
			c.limit.Kind, c.limit.Count, c.limit.Period, c.processes, 100*r, u, j)
		if r > 0.06 || u < 0.8 || j < 0.75 {
			t.Errorf("%v of %d in %v, %d processes: %.1f %% refused, %.2f used, Jain's index %.2f (medians), want at most 6.0 %%, and 0.80 and 0.75 at least",
				c.limit.Kind, c.limit.Count, c.limit.Period, c.processes, 100*r, u, j)
		}
	}
}

// They keep their parts of it when the server states another policy, more or less, and use it at once.
func TestPolicyChanges(t *testing.T) {
	for _, c := range []struct {
		kind          limit.Kind
		before, after int64 // an hour
	}{
		{limit.TokenBucket, 20, 400},
		{limit.TokenBucket, 20, 2000},
		{limit.SlidingLog, 30, 300},
		{limit.SlidingWindow, 60, 900},
		{limit.TokenBucket, 900, 60},
		{limit.SlidingLog, 300, 30},
	} {
		at := max(20*time.Hour, 3000*time.Hour/time.Duration(c.after)) / 2
		l := limit.Limit{Kind: c.kind, Count: c.before, Period: time.Hour}
		if c.kind == limit.TokenBucket {
			l.Burst = 10
		}
		var refused, used, jain []float64
		for seed := range uint64(15) {
			r := play(t, Scenario{
				Name: "changed", Duration: 3 * at,
				Server:  Server{Limit: l, Changes: []Change{{At: at, Count: c.after, Period: time.Hour}}, Hints: Hints{Policy: true}},
				Network: Network{Latency: 50 * time.Millisecond, Spread: 0.2},
				Clients: []Group{{Processes: 3, Workers: 5}},
			}, "adaptive-informed", seed+1)
			refused, used, jain = append(refused, r.RetryRate.V), append(used, r.Utilisation.V), append(jain, r.Jain.V)
		}
		r, u, j := median(refused), median(used), median(jain)
		t.Logf("%v of %d an hour, then %d: %.1f %% refused, %.2f used, Jain's index %.2f (medians)", c.kind, c.before, c.after, 100*r, u, j)
		if r > 0.03 || u < 0.8 || j < 0.8 {
			t.Errorf("%v of %d an hour, then %d: %.1f %% refused, %.2f used, Jain's index %.2f (medians), want at most 3.0 %%, and 0.80 at least",
				c.kind, c.before, c.after, 100*r, u, j)
		}
	}
}
