package sim

import (
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/pace"
)

// Services use a part of their limit. Those that are told what remains of it, and
// nothing else, wait for seconds, not minutes, and are hardly refused.
func TestServicesAreTold(t *testing.T) {
	for _, c := range []struct {
		name      string
		limit     limit.Limit
		latency   time.Duration
		processes int
		rate      float64 // calls a second of each
		wait      float64 // seconds at p99, at most, in the median run
	}{
		{"sliding log of a second", limit.Limit{Kind: limit.SlidingLog, Count: 100, Period: time.Second}, 50 * time.Millisecond, 10, 8, 12},
		{"slots of a second", limit.Limit{Kind: limit.SlidingSlots, Count: 235, Period: time.Second}, 60 * time.Millisecond, 3, 60, 12},
		{"fixed window of 31 s", limit.Limit{Kind: limit.FixedWindow, Count: 123, Period: 31 * time.Second}, 23 * time.Millisecond, 3, 1.14, 40},
	} {
		wait, refused := atP99(t, Scenario{
			Name: "service", Duration: 10 * time.Minute,
			Server:  Server{Limit: c.limit, Hints: Hints{Remaining: true}},
			Network: Network{Latency: c.latency, Spread: 0.2},
			Clients: []Group{{Processes: c.processes, Workers: 64, Arrivals: c.rate}},
		}, 5)
		if t.Logf("%s: %.2f s at p99, %.2f %% refused", c.name, wait, 100*refused); wait > c.wait || refused > 0.02 {
			t.Errorf("%s: %.2f s at p99, %.2f %% refused; want at most %.0f s and 2 %%", c.name, wait, 100*refused, c.wait)
		}
	}
}

// Services of few calls on a limit of few: they wait for seconds, not for minutes, though each
// refusal cuts the rate and growth comes only while calls wait.
func TestServicesOfFewCalls(t *testing.T) {
	for _, c := range []struct {
		limit     limit.Limit
		told      Hints
		processes int
		rate      float64 // calls a second of each
		long      time.Duration
		wait      float64 // seconds at p99, at most, in the median run
		refused   float64
	}{
		{limit.Limit{Kind: limit.SlidingWindow, Count: 5, Period: time.Second}, Hints{}, 18, 0.0972, 10 * time.Hour, 3, 0.025},
		{limit.Limit{Kind: limit.FixedWindow, Count: 5, Period: time.Second}, Hints{}, 10, 0.245, 30 * time.Minute, 0.9, 0.04},
		{limit.Limit{Kind: limit.SlidingLog, Count: 3, Period: 10 * time.Second}, Hints{Policy: true}, 44, 0.0021, 20 * time.Hour, 24, 0.08},
	} {
		wait, refused := atP99(t, Scenario{
			Name: "few", Duration: c.long, Server: Server{Limit: c.limit, Hints: c.told},
			Network: Network{Latency: 20 * time.Millisecond, Spread: 0.2},
			Clients: []Group{{Processes: c.processes, Workers: 20, Arrivals: c.rate}},
		}, 5)
		if t.Logf("%v: %.2f s at p99, %.2f %% refused", c.limit, wait, 100*refused); wait > c.wait || refused > c.refused {
			t.Errorf("%v: %.2f s at p99, %.2f %% refused; want at most %.0f s and %.1f %%", c.limit, wait, 100*refused, c.wait, 100*c.refused)
		}
	}
}

// atP99 plays s by so many seeds, and returns the medians of the wait at p99, in seconds, and of
// the share refused.
func atP99(t *testing.T, s Scenario, seeds uint64) (wait, refused float64) {
	t.Helper()
	var waits, shares []float64
	for seed := uint64(1); seed <= seeds; seed++ {
		r := play(t, s, "adaptive-informed", seed)
		waits, shares = append(waits, r.WaitP99.V), append(shares, r.RetryRate.V)
	}
	return median(waits), median(shares)
}

// Processes that always have calls share a window of which they are told what
// remains: none may take it for something else than the others do.
func TestFairInWindows(t *testing.T) {
	for _, c := range []struct {
		count     int64
		window    time.Duration
		processes int
		workers   int
	}{{100, time.Second, 10, 4}, {20, time.Second, 2, 4}, {50, 5 * time.Second, 3, 4}, {300, 10 * time.Second, 4, 8}} {
		for seed := uint64(1); seed <= 3; seed++ {
			r := play(t, Scenario{
				Name: "window", Duration: 20 * time.Minute,
				Server:  Server{Limit: limit.Limit{Kind: limit.FixedWindow, Count: c.count, Period: c.window}, Hints: Hints{Remaining: true}},
				Network: Network{Latency: 50 * time.Millisecond, Spread: 0.2},
				Clients: []Group{{Processes: c.processes, Workers: c.workers}},
			}, "adaptive-informed", seed)
			if r.Jain.V < 0.95 || r.RetryRate.V > 0.02 || r.Utilisation.V < 0.6 {
				t.Errorf("%d in %v, %d processes, seed %d: Jain %.3f, %.2f %% refused, %.2f used; want 0.95, 2 %%, 0.6", c.count, c.window,
					c.processes, seed, r.Jain.V, 100*r.RetryRate.V, r.Utilisation.V)
			}
		}
	}
}

// However large the part of a service that is slow, some workers are not, and work
// on the requests that come to them.
func TestSlowPartIsNotAll(t *testing.T) {
	for _, c := range []struct {
		atOnce int
		share  float64
	}{{2, 0.8}, {3, 0.9}, {10, 0.96}, {100, 0.999}} {
		r := play(t, Scenario{
			Name: "slow", Duration: 10 * time.Minute,
			Server:  Server{Service: Service{Time: 100 * time.Millisecond, AtOnce: c.atOnce, Queue: -1, Slow: Slow{Share: c.share, Times: 2}}},
			Network: Network{Latency: 50 * time.Millisecond},
			Clients: []Group{{Processes: 1, Workers: 20}},
		}, "none", 1)
		if r.Throttled > 0 || r.Served < 1000 || !(r.Utilisation.V <= 1.1) {
			t.Errorf("%d at once, %v slow: %d served, %d refused, utilisation %.2f; want 1000 and more, 0, and at most 1.1",
				c.atOnce, c.share, r.Served, r.Throttled, r.Utilisation.V)
		}
	}
}

// Draws that no run lasts long enough for, of calls that hardly ever come, work with a
// long tail on a slow server, or work between pauses, are far in the future, and not in
// the past.
func TestDrawsBeyondTheRun(t *testing.T) {
	year := 365 * 24 * time.Hour
	rare := 1 / year.Seconds()
	long := Service{Time: time.Hour, Tail: 3, AtOnce: 2, Queue: -1, Slow: Slow{Share: 0.5, Times: 1000}, Speeds: []Speed{{Times: 1000}}}
	paused := Service{Time: time.Hour, AtOnce: 2, Queue: -1, Pause: Pause{Every: time.Hour, Length: time.Hour - 1}}
	for _, c := range []struct {
		name    string
		service Service
		group   Group
		sent    int64
	}{
		{"batches once in 10,000 years", Service{}, Group{Processes: 2, Workers: 2, Arrivals: rare, Batch: 10_000}, 0},
		{"steps of them", Service{}, Group{Processes: 2, Workers: 2, Steps: []Arrive{{Rate: rare}, {At: time.Second}}, Batch: 10_000}, 0},
		{"months of work", long, Group{Processes: 20, Workers: 20}, 400},
		{"an hour of work, a nanosecond an hour", paused, Group{Processes: 2, Workers: 2}, 4},
	} {
		for seed := uint64(1); seed <= 5; seed++ {
			r := play(t, Scenario{
				Name: "far", Duration: time.Minute, Server: Server{Service: c.service},
				Network: Network{Latency: 50 * time.Millisecond}, Clients: []Group{c.group},
			}, "none", seed)
			if r.Sent != c.sent || r.Served != 0 || r.Overflow != 0 {
				t.Errorf("%s, seed %d: %d sent, %d served, %d overflow in a minute; want %d, 0, 0", c.name, seed, r.Sent, r.Served, r.Overflow, c.sent)
			}
		}
	}
}

// As many wait as the queue says, however many a batch in work holds.
func TestBatchesLeaveTheQueueFree(t *testing.T) {
	ms := time.Millisecond
	s := Scenario{
		Name: "batches", Duration: time.Minute, Network: Network{Latency: 2 * ms},
		Server: Server{Service: Service{Time: 100 * ms, AtOnce: 1, Queue: 4, Batch: 4}},
		Clients: []Group{{
			Processes: 1, Workers: 20,
			// One goes to work, four wait; they go to work, and four more wait; a fifth is refused.
			Trace: []time.Duration{60 * ms, 70 * ms, 71 * ms, 72 * ms, 73 * ms, 170 * ms, 171 * ms, 172 * ms, 173 * ms, 258*ms + ms/2},
		}},
	}
	r := New(s, policy(t, "none"), 1)
	var refused []time.Duration
	r.Watch = func(p Point) {
		if !p.Sent && p.Verdict == pace.Throttled {
			refused = append(refused, p.At)
		}
	}
	for !r.Step(1000) {
	}
	if res := r.Result(); res.Served != 10 || len(refused) != 1 || refused[0] != 260*ms+ms/2 {
		t.Errorf("%d served, refused at %v; want 10, and one refused at 260.5ms", res.Served, refused)
	}
}
