package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// Clients that share a window are told what remains of it and how long it is, but not when
// it ends, or only to a whole second: they find it out by how what remains leaps, use the
// window up, are refused no more often than blind and wait no longer than two of them or so.
func TestWindowsSharedWithoutTheirEnd(t *testing.T) {
	for _, c := range []struct {
		count     int64
		period    time.Duration
		processes int
		reset     bool
	}{
		{30, time.Second, 3, false},
		{80, time.Second, 8, false},
		{80, time.Second, 8, true},
		{60, 2 * time.Second, 3, true},
		{80, 2 * time.Second, 8, false},
		{30, 5 * time.Second, 2, false},
		{80, 5 * time.Second, 8, false},
		{60, 10 * time.Second, 3, false},
		{90, 30 * time.Second, 3, false},
	} {
		var waits []float64
		used, refused, fair := 0.0, 0.0, 1.0
		for seed := range uint64(5) {
			r := play(t, Scenario{
				Name: "shared", Duration: 200 * c.period,
				Server: Server{
					Limit: limit.Limit{Kind: limit.FixedWindow, Count: c.count, Period: c.period},
					Hints: Hints{Remaining: true, Policy: true, Reset: c.reset},
				},
				Network: Network{Latency: 60 * time.Millisecond, Spread: 0.2},
				Clients: []Group{{Processes: c.processes, Workers: 10}},
			}, "adaptive-informed", seed+1)
			waits = append(waits, r.WaitP99.V)
			used, refused, fair = used+r.Utilisation.V/5, refused+r.RetryRate.V/5, min(fair, r.Jain.V)
		}
		slices.Sort(waits)
		t.Logf("%d on %d in %v: %.2f used, %.1f %% refused, Jain %.2f at least, p99 %.1f s", c.processes, c.count, c.period, used, 100*refused, fair, waits[2])
		if used < 0.9 || refused > 0.025 || fair < 0.95 || waits[2] > 2.5*c.period.Seconds() {
			t.Errorf("%d on %d in %v: %.2f used, %.1f %% refused, Jain %.2f, 99 %% of waits below %.1f s; want at least 0.9, at most 2.5 %%, 0.95 and two and a half windows",
				c.processes, c.count, c.period, used, 100*refused, fair, waits[2])
		}
	}
}

// A window of a second of a few requests for each, shared by clients that call without end. Its end
// is found by all, also by those that ask too seldom to see what remains leap: without that they
// get nothing. What it costs is refusals where there are next to no requests for each.
func TestSmallWindowsSharedWithoutTheirEnd(t *testing.T) {
	for _, c := range []struct {
		kind    limit.Kind
		clients int
		used    float64 // at least,
		refused float64 // at most,
		jain    float64 // at least,
		wait    float64 // seconds at most
	}{
		{limit.FixedWindow, 5, 0.9, 0.02, 0.97, 8},
		{limit.FixedWindow, 8, 0.95, 0.13, 0.85, 20},
		{limit.SlidingLog, 8, 0.8, 0.03, 0.85, 16},
	} {
		for _, hints := range []Hints{{Remaining: true, Policy: true}, {Remaining: true, Policy: true, Reset: true}} {
			var waits, refused, fair, used []float64
			for seed := range uint64(9) {
				r := play(t, Scenario{
					Name: "small", Duration: 6 * time.Minute,
					Server:  Server{Limit: limit.Limit{Kind: c.kind, Count: 20, Period: time.Second}, Hints: hints},
					Network: Network{Latency: 80 * time.Millisecond, Spread: 0.2},
					Clients: []Group{{Processes: c.clients, Workers: 10}},
				}, "adaptive-informed", seed+1)
				waits, refused = append(waits, r.WaitP99.V), append(refused, r.RetryRate.V)
				fair, used = append(fair, r.Jain.V), append(used, r.Utilisation.V)
			}
			for _, x := range [][]float64{waits, refused, fair, used} {
				slices.Sort(x)
			}
			t.Logf("%v of %d, told %+v: %.2f used, %.1f %% refused, Jain %.2f, p99 %.1f s", c.kind, c.clients, hints, used[4], 100*refused[4], fair[4], waits[4])
			if used[4] < c.used || refused[4] > c.refused || fair[4] < c.jain || waits[4] > c.wait {
				t.Errorf("%v of %d, told %+v: %.2f used, %.3f refused, Jain %.2f, 99 %% of waits below %.1f s; want at least %v, at most %v, at least %v, and at most %v s",
					c.kind, c.clients, hints, used[4], refused[4], fair[4], waits[4], c.used, c.refused, c.jain, c.wait)
			}
		}
	}
}

// Three services want most of a window of a second. None waits for long, as each spends what
// remains as its calls come: paced by refusals, or by the level, they waited for minutes.
func TestServicesInSmallWindows(t *testing.T) {
	for _, c := range []struct {
		count int64
		each  float64 // arrivals a second
	}{{10, 2.3}, {10, 2.8}, {20, 4.7}, {20, 5.7}} {
		for _, hints := range []Hints{{Remaining: true, Policy: true}, {Remaining: true, Reset: true}} {
			var waits, refused []float64
			for seed := range uint64(9) {
				r := play(t, Scenario{
					Name: "services", Duration: 10 * time.Minute,
					Server:  Server{Limit: limit.Limit{Kind: limit.FixedWindow, Count: c.count, Period: time.Second}, Hints: hints},
					Network: Network{Latency: 50 * time.Millisecond, Spread: 0.2},
					Clients: []Group{{Processes: 3, Workers: 100, Arrivals: c.each}},
				}, "adaptive-informed", seed+1)
				waits, refused = append(waits, r.WaitP99.V), append(refused, r.RetryRate.V)
			}
			slices.Sort(waits)
			slices.Sort(refused)
			t.Logf("3 × %v/s on %d/s, told %+v: %.1f %% refused, p99 %.1f s", c.each, c.count, hints, 100*refused[4], waits[4])
			if waits[4] > 8 || refused[4] > 0.03 {
				t.Errorf("3 × %v/s on %d/s, told %+v: %.1f %% refused, 99 %% of waits below %.1f s; want at most 3 %%, and 8 s", c.each, c.count, hints, 100*refused[4], waits[4])
			}
		}
	}
}
