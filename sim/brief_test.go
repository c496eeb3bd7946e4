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

// Of a window of a few requests for each, some could not find out when it ends: what remains
// is left to the law without hints, by all.
func TestSmallWindowsSharedWithoutTheirEnd(t *testing.T) {
	for _, kind := range []limit.Kind{limit.FixedWindow, limit.SlidingLog} {
		for _, hints := range []Hints{{Remaining: true, Policy: true}, {Remaining: true, Policy: true, Reset: true}} {
			var waits, refused, fair, used []float64
			for seed := range uint64(9) {
				r := play(t, Scenario{
					Name: "small", Duration: 6 * time.Minute,
					Server:  Server{Limit: limit.Limit{Kind: kind, Count: 20, Period: time.Second}, Hints: hints},
					Network: Network{Latency: 80 * time.Millisecond, Spread: 0.2},
					Clients: []Group{{Processes: 8, Workers: 10}},
				}, "adaptive-informed", seed+1)
				waits, refused = append(waits, r.WaitP99.V), append(refused, r.RetryRate.V)
				fair, used = append(fair, r.Jain.V), append(used, r.Utilisation.V)
			}
			for _, x := range [][]float64{waits, refused, fair, used} {
				slices.Sort(x)
			}
			t.Logf("%v, told %+v: %.2f used, %.1f %% refused, Jain %.2f, p99 %.1f s", kind, hints, used[4], 100*refused[4], fair[4], waits[4])
			if used[4] < 0.8 || refused[4] > 0.03 || fair[4] < 0.85 || waits[4] > 16 {
				t.Errorf("%v, told %+v: %.2f used, %.1f %% refused, Jain %.2f, 99 %% of waits below %.1f s; want at least 0.8, at most 3 %%, at least 0.85, and at most 16 s",
					kind, hints, used[4], 100*refused[4], fair[4], waits[4])
			}
		}
	}
}
