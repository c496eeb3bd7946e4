package sim

import (
	"testing"
	"time"
)

// A service whose failures look like refusals is used where they are few, and refuses
// little more than one whose refusals are sure.
func TestPlainRefusals(t *testing.T) {
	for _, c := range []struct {
		errors, refused, used float64
	}{{0, 0.04, 0.85}, {0.01, 0.05, 0.8}, {0.05, 0.08, 0.45}} {
		r := play(t, Scenario{
			Name: "plain", Duration: 10 * time.Minute,
			Server:  Server{Limit: bucketOf(100, time.Second, 50), Errors: c.errors, Plain: true},
			Network: Network{Latency: 20 * time.Millisecond, Spread: 0.2},
			Clients: []Group{{Processes: 3, Workers: 10}},
		}, "adaptive", 1)
		t.Logf("%.2f fail: %.3f refused, %.2f used", c.errors, r.RetryRate.V, r.Utilisation.V)
		if r.RetryRate.V > c.refused || r.Utilisation.V < c.used {
			t.Errorf("%.2f fail: %.3f refused, %.2f used; want at most %.2f and %.2f or more", c.errors, r.RetryRate.V, r.Utilisation.V, c.refused, c.used)
		}
	}
}

// Where a part of a service is down, and answers a plain 503 whatever the rate, its callers go
// on as if they were not refused; the bars of most are ten times what they were served when
// each such refusal cut the rate.
func TestPartIsDown(t *testing.T) {
	for _, c := range []struct {
		rate, burst int64
		down        float64
		processes   int
		workers     int
		calls       float64 // that arrive in each second; zero: as many as can be
		used        float64 // of the limit, at least
		wait        float64 // p99 at most, seconds
	}{
		{10, 10, 0.1, 1, 16, 0, 0.45, 12},
		{10, 10, 0.2, 1, 16, 0, 0.3, 30},
		{10, 10, 0.33, 1, 16, 0, 0.1, 80},
		{1, 5, 0.1, 1, 4, 0, 0.4, 35},
		{100, 100, 0.1, 1, 32, 0, 0.35, 5},
		{10, 20, 0.1, 4, 8, 0, 0.55, 30},
		{10, 20, 0.2, 4, 8, 0, 0.35, 60},
		{100, 50, 0.1, 20, 8, 0, 0.55, 20},
		{10, 30, 0.1, 1, 200, 5, 0.42, 300},
	} {
		var used, wait []float64
		for seed := range uint64(5) {
			r := play(t, Scenario{
				Name: "down", Duration: 20 * time.Minute,
				Server:  Server{Limit: bucketOf(c.rate, time.Second, c.burst), Down: c.down},
				Network: Network{Latency: 50 * time.Millisecond, Spread: 0.2},
				Clients: []Group{{Processes: c.processes, Workers: c.workers, Arrivals: c.calls}},
			}, "adaptive", seed+1)
			used, wait = append(used, r.Utilisation.V), append(wait, r.WaitP99.V)
		}
		u, w := median(used), median(wait)
		t.Logf("%.2f of %d/s down, %d processes: %.2f used, %.1f s", c.down, c.rate, c.processes, u, w)
		if u < c.used || w > c.wait {
			t.Errorf("%.2f of %d/s down, %d processes: %.2f used, %.1f s; want %.2f or more, at most %.0f s", c.down, c.rate, c.processes, u, w, c.used, c.wait)
		}
	}
}

// When the part works again, so do its callers: they are not slow for what they were refused.
func TestPartIsDownForMinutes(t *testing.T) {
	for _, c := range []struct {
		down, used float64
	}{{0.1, 0.8}, {0.2, 0.75}, {0.33, 0.6}} {
		var used []float64
		for seed := range uint64(5) {
			r := play(t, Scenario{
				Name: "down for minutes", Duration: 20 * time.Minute,
				Server: Server{Limit: bucketOf(10, time.Second, 20), Changes: []Change{
					{At: 5 * time.Minute, Count: 10, Period: time.Second, Down: c.down},
					{At: 10 * time.Minute, Count: 10, Period: time.Second},
				}},
				Network: Network{Latency: 50 * time.Millisecond, Spread: 0.2},
				Clients: []Group{{Processes: 3, Workers: 8}},
			}, "adaptive", seed+1)
			used = append(used, r.Utilisation.V)
		}
		if u := median(used); u < c.used {
			t.Errorf("%.2f down for five of twenty minutes: %.2f used, want %.2f or more", c.down, u, c.used)
		} else {
			t.Logf("%.2f down for five of twenty minutes: %.2f used", c.down, u)
		}
	}
}

// A limiter that answers nothing but a plain 503 is a limit to its callers still, alone or not,
// and when it becomes slower.
func TestPlainLimiterIsALimit(t *testing.T) {
	half := []Change{{At: 5 * time.Minute, Count: 5, Period: time.Second}}
	for _, c := range []struct {
		name      string
		rate      int64
		burst     int64
		processes int
		changes   []Change
		refused   float64 // at most
		jain      float64 // at least
	}{
		{"one", 10, 10, 1, nil, 0.05, 1},
		{"four", 10, 20, 4, nil, 0.075, 0.7},
		{"twenty", 100, 50, 20, nil, 0.1, 0.65},
		{"one, half as fast", 10, 10, 1, half, 0.08, 1},
		{"four, half as fast", 10, 10, 4, half, 0.14, 0.5},
	} {
		var refused, jain []float64
		for seed := range uint64(9) {
			r := play(t, Scenario{
				Name: "limiter", Duration: 15 * time.Minute,
				Server:  Server{Limit: bucketOf(c.rate, time.Second, c.burst), Plain: true, Changes: c.changes},
				Network: Network{Latency: 50 * time.Millisecond, Spread: 0.2},
				Clients: []Group{{Processes: c.processes, Workers: 8}},
			}, "adaptive", seed+1)
			refused, jain = append(refused, r.RetryRate.V), append(jain, r.Jain.V)
		}
		p, j := median(refused), median(jain)
		t.Logf("%s: %.3f refused, Jain's index %.2f", c.name, p, j)
		if p > c.refused || j < c.jain {
			t.Errorf("%s: %.3f refused, Jain's index %.2f; want at most %.3f, at least %.2f", c.name, p, j, c.refused, c.jain)
		}
	}
}
