package sim

import (
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// A client that has a limit to itself and is told its policy keeps to it: a job of
// six times the quota is refused once or twice where the server counts as it says, a
// few times where it counts by slots or two windows, and is done a window after the
// last permits were to be had. Where it hears what remains as well, it is done a window
// and a half later at most, as it takes a window to show that nobody else is there.
func TestAloneWithAPolicy(t *testing.T) {
	for _, kind := range []struct {
		limit.Kind
		refused float64 // at most, a median
		done    float64 // in windows, at most, a median
	}{
		{limit.FixedWindow, 2, 6.3},
		{limit.FirstHitWindow, 2, 6.3},
		{limit.CalendarWindow, 2, 6.3},
		{limit.SlidingLog, 2, 6.3},
		{limit.SlidingSlots, 7, 7.3},
		{limit.SlidingWindow, 8, 7.3},
	} {
		for _, told := range []Hints{
			{Policy: true},
			{Policy: true, RetryAfter: true},
			{Policy: true, Reset: true},
			{Policy: true, Remaining: true},
			{Policy: true, Remaining: true, RetryAfter: true, Reset: true},
		} {
			for _, c := range []struct {
				count   int64
				period  time.Duration
				workers int
			}{{5, 10 * time.Second, 8}, {5, time.Minute, 3}, {33, time.Minute, 14}, {12, time.Hour, 40}, {100, time.Hour, 20}} {
				if kind.Kind == limit.CalendarWindow && c.period < time.Minute {
					continue // there is none
				}
				s := Scenario{
					Name: "alone", Duration: 24 * time.Hour,
					Server:  Server{Limit: limit.Limit{Kind: kind.Kind, Count: c.count, Period: c.period}, Hints: told},
					Network: Network{Latency: 50 * time.Millisecond, Spread: 0.2},
					Clients: []Group{{Processes: 1, Workers: c.workers, Work: 6 * c.count}},
				}
				var windows, refusals []float64
				for seed := range uint64(5) {
					r := play(t, s, "adaptive-informed", seed+1)
					if !r.Finish.OK {
						t.Fatalf("%v of %d in %v, told %+v: not done in a day", kind.Kind, c.count, c.period, told)
					}
					windows, refusals = append(windows, r.Finish.V/c.period.Seconds()), append(refusals, float64(r.Throttled))
				}
				done, refused := median(windows), median(refusals)
				most := kind.done
				if told.Remaining {
					most += 1.4
				}
				t.Logf("%v of %d in %v, told %+v: %v refused, done in %.2f windows", kind.Kind, c.count, c.period, told, refused, done)
				if refused > kind.refused || done > most {
					t.Errorf("%v of %d in %v, told %+v: %v refused, done in %.2f windows; want at most %v, and in %.2f", kind.Kind, c.count, c.period,
						told, refused, done, kind.refused, most)
				}
			}
		}
	}
}

// Nor does it leave part of a log of a second or ten to nobody: it hears that what remains is
// what its own starts explain, of any quota, and keeps to the policy instead of above empty.
func TestAloneInShortLogs(t *testing.T) {
	for _, c := range []struct {
		count   int64
		period  time.Duration
		latency time.Duration
	}{
		{5, time.Second, 80 * time.Millisecond},
		{20, time.Second, 80 * time.Millisecond},
		{20, time.Second, time.Millisecond},
		{50, time.Second, 40 * time.Millisecond},
		{100, time.Second, 40 * time.Millisecond},
		{60, 10 * time.Second, 40 * time.Millisecond},
	} {
		r := play(t, Scenario{
			Name: "log", Duration: 10 * time.Minute,
			Server:  Server{Limit: limit.Limit{Kind: limit.SlidingLog, Count: c.count, Period: c.period}, Hints: Hints{Remaining: true, Policy: true}},
			Network: Network{Latency: c.latency, Spread: 0.2},
			Clients: []Group{{Processes: 1, Workers: 10}},
		}, "adaptive-informed", 1)
		t.Logf("%d in %v, answers after %v: %.2f used, %.2f %% refused", c.count, c.period, c.latency, r.Utilisation.V, 100*r.RetryRate.V)
		if r.Utilisation.V < 0.93 || r.RetryRate.V > 0.01 {
			t.Errorf("%d in %v, answers after %v: %.2f used, %.2f %% refused; want at least 0.93, at most 1 %%", c.count, c.period, c.latency, r.Utilisation.V, 100*r.RetryRate.V)
		}
	}
}

// A client alone in a long window that is told what remains, but not when it comes back, is
// refused little more often than one that is told nothing.
func TestAloneInLongWindows(t *testing.T) {
	for _, c := range []struct {
		limit   limit.Limit
		windows time.Duration
		most    float64 // refused
	}{
		{limit.Limit{Kind: limit.FixedWindow, Count: 100, Period: time.Hour}, 24, 0.2},
		{limit.Limit{Kind: limit.FixedWindow, Count: 300, Period: 10 * time.Minute}, 48, 0.05},
		{limit.Limit{Kind: limit.CalendarWindow, Count: 28, Period: time.Minute}, 28, 0.15},
	} {
		var refused []float64
		for seed := range uint64(9) {
			r := play(t, Scenario{
				Name: "alone", Duration: c.windows * c.limit.Period,
				Server:  Server{Limit: c.limit, Hints: Hints{Remaining: true}},
				Network: Network{Latency: 50 * time.Millisecond, Spread: 0.2},
				Clients: []Group{{Processes: 1, Workers: 14}},
			}, "adaptive-informed", seed+1)
			refused = append(refused, r.RetryRate.V)
		}
		if m := median(refused); m > c.most {
			t.Errorf("%v: %.3f refused (median), want at most %v", c.limit, m, c.most)
		} else {
			t.Logf("%v: %.3f refused", c.limit, m)
		}
	}
}

// A client alone that is told the reset of two counters does not take them for a window twice
// as long, of which it would use half; nor does what it does to find out cost a window anything.
func TestAloneInTwoCounters(t *testing.T) {
	for _, c := range []struct {
		limit limit.Limit
		used  float64 // at least
	}{
		{limit.Limit{Kind: limit.SlidingWindow, Count: 12, Period: 10 * time.Second}, 0.7},
		{limit.Limit{Kind: limit.SlidingWindow, Count: 40, Period: time.Minute}, 0.8},
		{limit.Limit{Kind: limit.SlidingWindow, Count: 100, Period: 10 * time.Minute}, 0.8},
		{limit.Limit{Kind: limit.FixedWindow, Count: 12, Period: 10 * time.Second}, 0.97},
		{limit.Limit{Kind: limit.FixedWindow, Count: 40, Period: time.Minute}, 0.97},
	} {
		var used, refused []float64
		for seed := range uint64(5) {
			r := play(t, Scenario{
				Name: "alone", Duration: 60 * c.limit.Period,
				Server:  Server{Limit: c.limit, Hints: Hints{Remaining: true, Reset: true}},
				Network: Network{Latency: 20 * time.Millisecond, Spread: 0.2},
				Clients: []Group{{Processes: 1, Workers: 8}},
			}, "adaptive-informed", seed+1)
			used, refused = append(used, r.Utilisation.V), append(refused, r.RetryRate.V)
		}
		if t.Logf("%v: %.2f used, %.3f refused", c.limit, median(used), median(refused)); median(used) < c.used || median(refused) > 0.01 {
			t.Errorf("%v: %.2f used, %.3f refused (medians), want at least %v, at most 0.01", c.limit, median(used), median(refused), c.used)
		}
	}
}

// Clients that share a small limit, and are told its policy and what remains, become equal: who
// comes to a bucket that is nearly empty does not take what it sees for all that there is, and
// a client that is not alone does not keep to the whole policy.
func TestTogetherWithAPolicy(t *testing.T) {
	told := Hints{Remaining: true, RetryAfter: true, Reset: true, Policy: true}
	for _, c := range []struct {
		name    string
		limit   limit.Limit
		clients []Group
	}{
		{"joins", bucketOf(20, time.Second, 20), []Group{{Processes: 1, Workers: 4}, {Processes: 1, Workers: 4, Join: time.Second}}},
		{"two join", bucketOf(20, time.Second, 20), []Group{{Processes: 1, Workers: 4}, {Processes: 2, Workers: 4, Join: time.Second}}},
		{"log", limit.Limit{Kind: limit.SlidingLog, Count: 20, Period: time.Second}, []Group{{Processes: 2, Workers: 4}}},
		{"long log", limit.Limit{Kind: limit.SlidingLog, Count: 30, Period: time.Second}, []Group{{Processes: 2, Workers: 4}}},
	} {
		worst := 1.0
		for seed := range uint64(20) {
			r := play(t, Scenario{
				Name: c.name, Duration: 5 * time.Minute,
				Server:  Server{Limit: c.limit, Hints: told},
				Network: Network{Latency: time.Microsecond},
				Clients: c.clients,
			}, "adaptive-informed", seed+1)
			worst = min(worst, r.Jain.V)
		}
		if t.Logf("%s: Jain's index %.2f at worst", c.name, worst); worst < 0.9 {
			t.Errorf("%s: Jain's index %.2f at worst, want 0.9", c.name, worst)
		}
	}
}
