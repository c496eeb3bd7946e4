package sim

import (
	"fmt"
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/pace"
)

// finish runs to the end.
func finish(r *Run) Result {
	for !r.Step(1_000_000) {
	}
	return r.Result()
}

func TestBound(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*Scenario)
		served int64
		finish float64
	}{
		// 5 at once, 4 at a time, then one a second.
		{"bucket", func(s *Scenario) { s.Clients[0].Work = 10 }, 10, 5.1},
		{"empty bucket", func(s *Scenario) { s.Clients[0].Work, s.Server.Start = 10, pace.Some[int64](0) }, 10, 10.05},
		{"one worker far away", func(s *Scenario) {
			s.Clients[0].Work, s.Clients[0].Workers, s.Network.Latency = 10, 1, 3*time.Second
		}, 10, 30},
		{"outage", func(s *Scenario) {
			s.Clients[0].Work = 10
			s.Server.Changes = []Change{{At: 2500 * time.Millisecond, Period: time.Second}, {At: time.Minute, Count: 1, Period: time.Second}}
		}, 10, 62.5},
		{"joins", func(s *Scenario) {
			s.Clients = []Group{{Processes: 1, Workers: 4, Work: 5}, {Processes: 1, Workers: 4, Work: 5, Join: time.Minute}}
		}, 10, 60.1},
		{"windows", func(s *Scenario) {
			s.Clients[0].Work = 10
			s.Server.Limit = limit.Limit{Kind: limit.FixedWindow, Count: 4, Period: 10 * time.Second}
		}, 10, 20.05},
		{"log", func(s *Scenario) {
			s.Clients[0].Work = 10
			s.Server.Limit = limit.Limit{Kind: limit.SlidingLog, Count: 4, Period: 10 * time.Second}
		}, 10, 20.1},
		{"gaps", func(s *Scenario) {
			s.Clients[0].Work = 10
			s.Server.Gap = []Gap{{1, time.Second}, {6, 2 * time.Second}}
		}, 10, 14.1},
		{"nothing", func(s *Scenario) {
			s.Server.Limit = limit.Limit{Kind: limit.FixedWindow, Period: time.Second}
		}, 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := small()
			s.Clients[0].Workers = 4
			test.change(&s)
			r := finish(Bound(s, 1))
			if r.Served != test.served || r.Throttled != 0 {
				t.Errorf("%d served and %d throttled, want %d and 0", r.Served, r.Throttled, test.served)
			}
			// Workers begin within 50 ms, and so may all that follows.
			if d := r.Finish.V - test.finish; d < -1e-3 || d > 0.12 {
				t.Errorf("finished after %v s, want %v", r.Finish.V, test.finish)
			}
		})
	}
}

// TestCallsComeUpAtTheSameTimes: those that come up by themselves do so whatever
// else is drawn, so that policies are compared by the same ones.
func TestCallsComeUpAtTheSameTimes(t *testing.T) {
	times := func(latency time.Duration) (at []time.Duration) {
		s := small()
		s.Server.Limit, s.Network = limit.Limit{}, Network{Latency: latency, Spread: 0.2}
		s.Clients = []Group{{Processes: 2, Workers: 50, Arrivals: 3}, {Processes: 1, Workers: 1}}
		r := New(s, policy(t, "none"), 7)
		r.Watch = func(p Point) {
			if p.Group == 0 && p.Sent && p.At > startWithin {
				at = append(at, p.At)
			}
		}
		finish(r)
		return at
	}
	a, b := times(100*time.Millisecond), times(30*time.Millisecond)
	if len(a) < 500 || !slices.Equal(a, b) {
		t.Errorf("%d and %d calls, or at other times; want some 600, and the same", len(a), len(b))
	}
}

// tiny is a case of the brute force: one process whose calls come up by
// themselves, and what they need between being decided on.
type tiny struct {
	scenario Scenario
	seed     uint64
	wants    []int64
}

// tinyOf has two or three calls in a period, which is often more than the limit.
func tinyOf(kind limit.Kind, count int64, workers int, seed uint64) tiny {
	period := time.Second
	if kind == limit.CalendarWindow {
		period = time.Minute
	}
	s := Scenario{
		Name: "tiny", Duration: 8 * period,
		Server:  Server{Limit: limit.Limit{Kind: kind, Count: count, Period: period}},
		Network: Network{Latency: period / 8},
		Clients: []Group{{Processes: 1, Workers: workers, Arrivals: 2.5 / period.Seconds()}},
	}
	return tiny{scenario: s, seed: seed}
}

// bound is when the server decides on each call under the bound.
func (c *tiny) bound() (decided []int64) {
	r := Bound(c.scenario, c.seed)
	latency := int64(c.scenario.Network.Latency)
	r.Watch = func(p Point) {
		if !p.Sent {
			decided = append(decided, int64(p.At)-(latency-latency/2))
		}
	}
	p := process{random: stream(c.seed, 0)}
	for at := p.gap(c.scenario.Clients[0].Arrivals); at < int64(c.scenario.Duration); {
		c.wants = append(c.wants, at)
		at += p.gap(c.scenario.Clients[0].Arrivals)
	}
	finish(r)
	return decided
}

// admits reports whether the server would decide so.
func (c *tiny) admits(decided []int64) bool {
	random := random(1)
	v := newServer(&c.scenario, &random)
	f := flight{worker: &worker{}, cost: 1}
	for _, at := range decided {
		if admitted, _ := v.answer(at, &f); !admitted {
			return false
		}
	}
	return true
}

// soonest is when the k-th could reach the server after the others.
func (c *tiny) soonest(decided []int64, k int) int64 {
	latency := int64(c.scenario.Network.Latency)
	at := c.wants[k] + latency/2
	if w := c.scenario.Clients[0].Workers; k >= w {
		at = max(at, decided[k-w]+latency)
	}
	return at
}

// search tries every schedule on a grid, and keeps the best time of each call.
func (c *tiny) search(decided, best []int64, grid int64) {
	k := len(decided)
	if k == len(best) {
		return
	}
	from := c.soonest(decided, k)
	if k > 0 {
		from = max(from, decided[k-1])
	}
	try := func(at int64) {
		next := append(decided[:k:k], at)
		if c.admits(next) {
			best[k] = min(best[k], at)
			c.search(next, best, grid)
		}
	}
	try(from) // off the grid
	for at := (from/grid + 1) * grid; at <= from+5*grid; at += grid {
		try(at)
	}
}

// TestBoundAgainstBruteForce: whatever a coordinator tries, on a grid of a
// quarter of the period and as soon as it can, it serves no call sooner; and
// what the bound claims the server admits.
func TestBoundAgainstBruteForce(t *testing.T) {
	seeds := uint64(12)
	if os.Getenv("THROTTLE_SOAK") != "" {
		seeds = 30
	}
	for _, kind := range []limit.Kind{limit.TokenBucket, limit.FixedWindow, limit.SlidingLog, limit.SlidingWindow, limit.SlidingSlots, limit.FirstHitWindow, limit.CalendarWindow} {
		for seed := uint64(1); seed <= seeds; seed++ {
			c := tinyOf(kind, int64(seed%3+1), int(seed%4+1), seed)
			decided := c.bound()
			if c.wants[0] < int64(startWithin) {
				continue // before its worker begins
			}
			t.Run(fmt.Sprint(kind, seed), func(t *testing.T) { c.compare(t, decided) })
		}
	}
}

func (c *tiny) compare(t *testing.T, decided []int64) {
	if len(decided) < 5 || len(decided) > len(c.wants) {
		t.Fatalf("%d of %d calls decided on", len(decided), len(c.wants))
	}
	if !c.admits(decided) {
		t.Errorf("the server does not admit %v", decided)
	}
	for k, at := range decided {
		if soonest := c.soonest(decided, k); at < soonest {
			t.Errorf("call %d reaches the server at %d, before %d", k, at, soonest)
		}
	}
	if c.scenario.Server.Limit.Kind == limit.FirstHitWindow {
		return // who knows what comes may keep the first back
	}
	best := make([]int64, 5)
	for i := range best {
		best[i] = math.MaxInt64
	}
	c.search(nil, best, int64(c.scenario.Server.Limit.Period/4))
	for k, at := range best {
		if decided[k] > at+1000 { // the limit counts in microseconds
			t.Errorf("call %d is decided on at %d, by brute force at %d", k, decided[k], at)
		}
	}
}

// TestBoundOfServersThatCountApart: nothing is refused and no policy finishes
// sooner where limits are several, of each process, of costs, or of how many are
// worked on at once.
func TestBoundOfServersThatCountApart(t *testing.T) {
	for name, change := range map[string]func(*Server){
		"two limits":   func(v *Server) { v.More = []Quota{{Limit: bucketOf(20, time.Minute, 5)}} },
		"each process": func(v *Server) { v.By = ByProcess },
		"queue":        func(v *Server) { v.Queue = 3 },
		"costs":        func(v *Server) { v.Costs = true },
		"service":      func(v *Server) { v.Limit, v.Service = limit.Limit{}, Service{Time: time.Second, AtOnce: 2} },
		"nodes":        func(v *Server) { v.Nodes = 2 },
		"clock":        func(v *Server) { v.Phase = 1234567 },
	} {
		s := small()
		s.Duration = 20 * time.Minute
		change(&s.Server)
		s.Clients = []Group{{Processes: 2, Workers: 3, Work: 30}, {Processes: 1, Workers: 3, Work: 20}}
		if s.Server.Costs {
			s.Clients[0].Cost.Mean = 3
		}
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
		bound := finish(Bound(s, 3))
		if bound.Served != 50 || bound.Throttled != 0 {
			t.Errorf("%s: %d served and %d throttled, want 50 and 0", name, bound.Served, bound.Throttled)
		}
		for _, p := range []string{"none", "aimd", "adaptive-informed"} {
			r := New(s, policy(t, p), 3)
			if got := finish(r).Finish.V; got < bound.Finish.V-1e-3 {
				t.Errorf("%s: %s finishes after %v s, the bound after %v s", name, p, got, bound.Finish.V)
			}
		}
	}
}

// Callers that give up before their request has come to the server take nothing from
// others that the server counts apart.
func TestBoundOfCallersThatGiveUp(t *testing.T) {
	s := Scenario{
		Name: "apart", Duration: 5 * time.Minute, Network: Network{Latency: 87 * time.Millisecond},
		Server:  Server{Limit: bucketOf(11, 3*time.Second, 11), By: ByProcess},
		Clients: []Group{{Processes: 3, Workers: 3}},
	}
	want := finish(Bound(s, 1)).Groups[0].Served
	s.Clients = append(s.Clients, Group{Processes: 2, Workers: 2, Arrivals: 16, Patience: 10 * time.Second})
	if got := finish(Bound(s, 1)).Groups[0].Served; got < want-10 {
		t.Errorf("served %d beside callers that give up, want %d as without them", got, want)
	}
}

// No policy serves more than the bound where callers give up: it does not spend the
// limit on calls whose answers come too late.
func TestBoundOfTheImpatient(t *testing.T) {
	for _, patience := range []time.Duration{450 * time.Millisecond, 600 * time.Millisecond, time.Second, 3 * time.Second} {
		s := Scenario{
			Name: "impatient", Duration: 5 * time.Minute, Network: Network{Latency: 430 * time.Millisecond},
			Server:  Server{Limit: limit.Limit{Kind: limit.SlidingWindow, Count: 22, Period: 3 * time.Second}},
			Clients: []Group{{Processes: 4, Workers: 3, Patience: patience}},
		}
		most := finish(Bound(s, 1)).Served
		for _, policy := range []string{"none", "backoff", "adaptive-informed"} {
			if got := play(t, s, policy, 1).Served; float64(got) > 1.02*float64(most) {
				t.Errorf("patience %v: %s serves %d calls, and the bound %d", patience, policy, got, most)
			}
		}
	}
}

// A server that delays answers too late for a timeout where many wait for a token: the
// coordinator sends no request before its token is there.
func TestBoundOfDelays(t *testing.T) {
	s := Scenario{
		Name: "delays", Duration: 5 * time.Minute, Network: Network{Latency: 65 * time.Millisecond},
		Server:  Server{Limit: bucketOf(16, 10*time.Second, 1), Queue: 9},
		Clients: []Group{{Processes: 4, Workers: 3}},
	}
	want := finish(Bound(s, 1)).Served
	s.Clients[0].Timeout = time.Second
	if got := finish(Bound(s, 1)).Served; want < 480 || got < want-5 {
		t.Errorf("served %d calls with a timeout, want %d as without one, of 480", got, want)
	}
}
