package sim

import (
	"math"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/pace"
)

// listener sends two requests a second and keeps the hints of the last answer.
type listener struct {
	pace.Fixed
	last *pace.Hints
}

func (l *listener) Observe(now time.Time, o pace.Outcome) time.Duration {
	*l.last = o.Hints
	return l.Fixed.Observe(now, o)
}

// lastHints plays a scenario and returns the hints of the last answer.
func lastHints(t *testing.T, s Scenario) (last pace.Hints) {
	t.Helper()
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	p := Policy{Name: "listener", Hears: s.Server.Hints, New: func() pace.Controller {
		return &listener{Fixed: pace.Fixed{Rate: 2}, last: &last}
	}}
	r := New(s, p, 1)
	for !r.Step(1_000_000) {
	}
	return last
}

func TestPolicyOfNodesFollowsTheLimit(t *testing.T) {
	server := Server{Nodes: 2, Limit: limit.Limit{Kind: limit.FixedWindow, Count: 10, Period: time.Second}, Hints: Hints{Policy: true}}
	changed, scaled := server, server
	changed.Changes = []Change{{At: 10 * time.Second, Count: 200, Period: 2 * time.Second}}
	scaled.Scale = AutoScale{Every: 5 * time.Second, Target: 0.7, Min: 50, Max: 100}
	for _, test := range []struct {
		server Server
		count  int64
		period time.Duration
	}{{server, 10, time.Second}, {changed, 200, 2 * time.Second}, {scaled, 50, time.Second}} {
		h := lastHints(t, serving(30*time.Second, test.server, 1))
		if h.Limit != pace.Some(test.count) || h.Window != pace.Some(test.period) {
			t.Errorf("changes %v, scale %v: the policy is %v in %v, want %d in %v",
				test.server.Changes, test.server.Scale, h.Limit, h.Window, test.count, test.period)
		}
	}
}

func TestShareOfLimitsByProcess(t *testing.T) {
	five := bucketOf(5, time.Second, 5)
	shared := Quota{Limit: bucketOf(2, time.Second, 2)}
	for _, test := range []struct {
		server Server
		want   float64
	}{
		{Server{Limit: five, By: ByProcess}, 5},
		{Server{Limit: five, By: ByProcess, Changes: []Change{{At: time.Second, Count: 30, Period: time.Minute}}}, 0.5},
		{Server{Limit: five, By: ByProcess, More: []Quota{shared}}, 2},
		{Server{Limit: five, By: ByProcess, Service: Service{Time: time.Second, AtOnce: 1, Queue: -1}}, 1},
		{Server{Limit: five}, 5},
	} {
		test.server.Hints.Share = true
		s := serving(20*time.Second, test.server, 1)
		s.Clients = append(s.Clients, Group{Processes: 20, Workers: 1, Join: time.Minute})
		if h := lastHints(t, s); !h.Share.OK || math.Abs(h.Share.V-test.want) > 0.01*test.want {
			t.Errorf("by %d, besides %v, changes %v: the only active process of 21 is told a share of %v, want %v",
				test.server.By, test.server.More, test.server.Changes, h.Share, test.want)
		}
	}
}

// TestToldOfADeepBucket: clients of a bucket that holds much more than the quota of its policy
// are hardly ever refused, as where no policy is stated.
func TestToldOfADeepBucket(t *testing.T) {
	for _, h := range []Hints{{Remaining: true}, {Remaining: true, Policy: true}, {Remaining: true, Policy: true, Reset: true, RetryAfter: true}} {
		refused, waits := 0.0, []float64{}
		for seed := range uint64(3) {
			r := play(t, Scenario{
				Name: "deep", Duration: 20 * time.Minute,
				Server:  Server{Limit: bucketOf(2, time.Second, 40), Hints: h},
				Network: Network{Latency: 150 * time.Millisecond, Spread: 0.3},
				Clients: []Group{{Processes: 4, Workers: 4}},
			}, "adaptive-informed", seed+1)
			refused, waits = refused+r.RetryRate.V/3, append(waits, r.WaitP99.V)
		}
		t.Logf("told %+v: %.1f %% refused, 99 %% of waits below %.1f s", h, 100*refused, median(waits))
		if refused > 0.012 || median(waits) > 13 {
			t.Errorf("told %+v: %.1f %% refused, 99 %% of waits below %.1f s; want at most 1.2 %% and 13 s", h, 100*refused, median(waits))
		}
	}
}

// Of a slow bucket each client sees few answers. That one of them saw it empty is chance, and
// no sign of others that do not yield.
func TestSlowDeepBucket(t *testing.T) {
	var refused, waits []float64
	for seed := range uint64(7) {
		r := play(t, Scenario{
			Name: "deep", Duration: 10 * time.Minute,
			Server:  Server{Limit: bucketOf(60, time.Minute, 600), Hints: Hints{Remaining: true, Policy: true, Reset: true}},
			Network: Network{Latency: 5 * time.Millisecond, Spread: 0.5},
			Clients: []Group{{Processes: 5, Workers: 8}},
		}, "adaptive-informed", seed+1)
		refused, waits = append(refused, r.RetryRate.V), append(waits, r.WaitP99.V)
	}
	p, w := median(refused), median(waits)
	t.Logf("%.1f %% refused, 99 %% of waits below %.0f s", 100*p, w)
	if p > 0.015 || w > 90 {
		t.Errorf("%.1f %% refused, 99 %% of waits below %.0f s; want at most 1.5 %% and 90 s", 100*p, w)
	}
}
