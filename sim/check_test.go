package sim

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// What no run could make sense of, or room for, is refused in one line.
func TestCheckOfCallsAndLimits(t *testing.T) {
	for _, test := range []struct {
		want  string
		spoil func(*Server, *Network, *Group)
	}{
		{"tail", func(_ *Server, n *Network, _ *Group) { n.Tail = 4 }},
		{"tail", func(v *Server, _ *Network, _ *Group) { v.Service.Tail = math.NaN() }},
		{"loss", func(_ *Server, n *Network, _ *Group) { n.Loss = 1 }},
		{"no timeout", func(_ *Server, n *Network, _ *Group) { n.Loss = 0.1 }},
		{"retry-after", func(v *Server, _ *Network, _ *Group) {
			v.Changes = []Change{{At: 1, Count: 1, Period: time.Second, RetryAfter: -1}}
		}},
		{"errors", func(v *Server, _ *Network, _ *Group) { v.Errors, v.Final = 0.5, 0.5 }},
		{"limits: at most", func(v *Server, _ *Network, _ *Group) { v.More = make([]Quota, maxQuotas) }},
		{"allows nothing", func(v *Server, _ *Network, _ *Group) { v.More = []Quota{{Limit: limit.Limit{Period: 1}}} }},
		{"limit by", func(v *Server, _ *Network, _ *Group) { v.By = 9 }},
		{"sliding log", func(v *Server, _ *Network, _ *Group) {
			v.More = []Quota{{Limit: limit.Limit{Kind: limit.SlidingLog, Count: 1e7, Period: 1}}}
		}},
		{"nodes", func(v *Server, _ *Network, _ *Group) { v.Nodes = -1 }},
		{"apart", func(v *Server, _ *Network, g *Group) { v.By, v.Nodes, g.Keys = ByKey, 1000, 10_000 }},
		{"scopes of", func(_ *Server, _ *Network, g *Group) { g.Scopes, g.Workers, g.Keys = true, 1000, 10_000 }},
		{"calendar window", func(v *Server, _ *Network, _ *Group) {
			v.Limit = limit.Limit{Kind: limit.CalendarWindow, Count: 5, Period: 2 * time.Minute}
		}},
		{"change at 1ns: period 10s: a calendar window", func(v *Server, _ *Network, _ *Group) {
			v.Limit = limit.Limit{Kind: limit.CalendarWindow, Count: 5, Period: time.Minute}
			v.Changes = []Change{{At: 1, Count: 100, Period: 10 * time.Second}}
		}},
		{"auto-scaler: sets", func(v *Server, _ *Network, _ *Group) {
			v.Limit = limit.Limit{Kind: limit.CalendarWindow, Count: 5, Period: 3 * limit.Month}
			v.Scale = AutoScale{Every: 1, Target: 1, Min: 1, Max: 1}
		}},
		{"queue", func(v *Server, _ *Network, _ *Group) { v.Limit.Kind, v.Queue = limit.FixedWindow, 1 }},
		{"phase", func(v *Server, _ *Network, _ *Group) { v.Phase = -1 }},
		{"missing", func(v *Server, _ *Network, _ *Group) { v.Blur.Missing = 1.1 }},
		{"service", func(v *Server, _ *Network, _ *Group) { v.Service.AtOnce = 1 }},
		{"service", func(v *Server, _ *Network, _ *Group) { v.Service = Service{Time: 1, Queue: 1} }},
		{"steps", func(_ *Server, _ *Network, g *Group) { g.Steps = []Arrive{{At: 1, Rate: 1}} }},
		{"one of them", func(_ *Server, _ *Network, g *Group) { g.Steps, g.Arrivals = []Arrive{{Rate: 1}}, 1 }},
		{"one of them", func(_ *Server, _ *Network, g *Group) { g.Trace, g.Arrivals = []time.Duration{1}, 1 }},
		{"repeat", func(_ *Server, _ *Network, g *Group) { g.Repeat = time.Second }},
		{"batch", func(_ *Server, _ *Network, g *Group) { g.Batch = 2 }},
		{"trace", func(_ *Server, _ *Network, g *Group) { g.Trace = []time.Duration{2, 1} }},
		{"timeout", func(_ *Server, _ *Network, g *Group) { g.Timeout = -1 }},
		{"keys", func(_ *Server, _ *Network, g *Group) { g.Keys = -1 }},
		{"cost", func(_ *Server, _ *Network, g *Group) { g.Cost.Mean = -1 }},
		{"mean 6: must be at most 5", func(v *Server, _ *Network, g *Group) {
			v.More, g.Cost.Mean = []Quota{{Limit: limit.Limit{Kind: limit.FixedWindow, Count: 5, Period: 1}, Costs: true}}, 6
		}},
	} {
		s := small()
		s.Clients = slices.Clone(s.Clients)
		test.spoil(&s.Server, &s.Network, &s.Clients[0])
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("Check = %v, want one line about %q", err, test.want)
		}
	}
}

// Times and rates that a run cannot count to are refused.
func TestCheckOfHugeNumbers(t *testing.T) {
	scale := AutoScale{Every: 1, Target: 1, Min: 1, Max: 1}
	for _, test := range []struct {
		want  string
		spoil func(*AutoScale, *Group)
	}{
		{"auto-scaler", func(a *AutoScale, _ *Group) { a.Target = math.NaN() }},
		{"max <= 1000000000", func(a *AutoScale, _ *Group) { a.Max = 1 << 31 }},
		{"delay", func(a *AutoScale, _ *Group) { a.Delay = math.MaxInt64 }},
		{"join", func(_ *AutoScale, g *Group) { g.Join = math.MaxInt64 }},
		{"off", func(_ *AutoScale, g *Group) { g.On, g.Off = 1, math.MaxInt64 }},
		{"every", func(_ *AutoScale, g *Group) { g.Processes, g.Every = 400, 24*time.Hour }},
	} {
		s := small()
		s.Clients, s.Server.Scale = slices.Clone(s.Clients), scale
		test.spoil(&s.Server.Scale, &s.Clients[0])
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("Check = %v, want one line about %q", err, test.want)
		}
	}
}
