package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// Bounds of a scenario; beyond them it is refused.
const (
	maxDuration = 366 * 24 * time.Hour
	maxWorkers  = 1_000_000
	maxChanges  = 10_000
	maxQueue    = 10_000 // calls that wait for a worker, in each process
	maxQuotas   = 16
	maxNodes    = 1_000
	maxKeys     = 10_000
	maxTrace    = 1_000_000
	maxTail     = 3
	maxScale    = 1_000_000_000
	maxCells    = 1_000_000 // that a server counts apart, and that callers do
	startWithin = 50 * time.Millisecond
)

// Check returns an error of one line if the scenario is not valid.
func (s Scenario) Check() error {
	for _, check := range []func() error{s.checkServer, s.checkNetwork, s.checkClients, s.checkSettings} {
		if err := check(); err != nil {
			return fmt.Errorf("scenario %s: %w", s.Name, err)
		}
	}
	if s.Duration < 0 || s.Duration > maxDuration {
		return fmt.Errorf("scenario %s: duration %v: must be within 0 and %v", s.Name, s.Duration, maxDuration)
	}
	return nil
}

func (s Scenario) checkNetwork() error {
	if s.Network.Latency <= 0 || s.Network.Latency > time.Hour {
		return fmt.Errorf("latency %v: must be above 0 and at most 1h", s.Network.Latency)
	}
	if !(s.Network.Loss >= 0 && s.Network.Loss < 1) {
		return fmt.Errorf("loss %v: must be at least 0 and below 1", s.Network.Loss)
	}
	return checkSpread(s.Network.Spread, s.Network.Tail)
}

func checkSpread(spread, tail float64) error {
	if !(spread >= 0 && spread < 1) {
		return fmt.Errorf("spread %v: must be at least 0 and below 1", spread)
	}
	if !(tail >= 0 && tail <= maxTail) {
		return fmt.Errorf("tail %v: must be from 0 to %v", tail, maxTail)
	}
	return nil
}

func (s Scenario) checkServer() error {
	v := s.Server
	switch {
	case !(v.Errors >= 0 && v.Final >= 0 && v.Down >= 0 && v.Errors+v.Final+v.Down < 1):
		return fmt.Errorf("errors %v: must be at least 0 and, with those that are final and what is down, below 1", v.Errors)
	case s.dries() && dry(v.Limit.Burst) < 100*max(s.Duration, time.Hour):
		return fmt.Errorf("burst %d: too many for a bucket without refill in a run of %v", v.Limit.Burst, s.Duration)
	case v.Start.V < 0:
		return fmt.Errorf("start %d: must not be negative", v.Start.V)
	case len(v.Changes) > maxChanges:
		return fmt.Errorf("%d changes: at most %d", len(v.Changes), maxChanges)
	case (len(v.Changes) > 0 || v.Scale.Every > 0) && v.Limit.Unlimited():
		return fmt.Errorf("changes need a limit to change")
	case v.Scale.Every > 0 && (!(v.Scale.Target > 0) || v.Scale.Min <= 0 || v.Scale.Max < v.Scale.Min || v.Scale.Max > maxScale):
		return fmt.Errorf("auto-scaler %+v: needs a target and 0 < min <= max <= %d", v.Scale, maxScale)
	case v.Scale.Delay < 0 || max(v.Scale.Delay, v.Scale.Every) > maxDuration:
		return fmt.Errorf("auto-scaler %+v: delay and every must be within 0 and %v", v.Scale, maxDuration)
	}
	return s.checkChanges()
}

// checkChanges is about the rates that Limit has later.
func (s Scenario) checkChanges() error {
	v, last := &s.Server, time.Duration(-1)
	if v.Limit.Kind == limit.CalendarWindow && v.Scale.Every > 0 {
		return fmt.Errorf("auto-scaler: sets a rate a second, and a calendar window is a minute or longer")
	}
	for _, c := range v.Changes {
		if c.At <= last || c.Count < 0 || c.Period <= 0 {
			return fmt.Errorf("change at %v: changes need rising times and rates of zero or above", c.At)
		}
		if v.Limit.Kind == limit.CalendarWindow && !wholeUnits(limit.Limit{Count: c.Count, Period: c.Period}) {
			return fmt.Errorf("change at %v: period %v: a calendar window is a minute, an hour, a day, a week or months", c.At, c.Period)
		}
		if c.RetryAfter < 0 || c.RetryAfter > maxDuration {
			return fmt.Errorf("change at %v: retry-after %v: must be within 0 and %v", c.At, c.RetryAfter, maxDuration)
		}
		if !(c.Down >= 0 && v.Errors+v.Final+c.Down < 1) {
			return fmt.Errorf("change at %v: down %v: must be at least 0 and, with errors, below 1", c.At, c.Down)
		}
		last = c.At
	}
	return s.checkMore()
}

// checkMore is about what a server has besides a limit.
func (s Scenario) checkMore() error {
	v := &s.Server
	for i, q := range v.quotas() {
		most := q.Limit.Count
		if i == 0 {
			most = v.mostCount()
		}
		switch {
		case q.Limit.Count < 0 || q.Limit.Burst < 0 || q.Limit.Period < 0:
			return fmt.Errorf("limit %+v: must not be negative", q.Limit)
		case q.Limit.Kind == limit.SlidingLog && most > limit.MaxLog:
			return fmt.Errorf("count %d: a sliding log keeps at most %d", most, limit.MaxLog)
		case q.By > ByKey:
			return fmt.Errorf("limit by %d: must be Together, ByProcess or ByKey", q.By)
		case i > 0 && q.Limit.Count == 0 && !q.Limit.Unlimited():
			return fmt.Errorf("one of several limits allows nothing")
		case q.Limit.Kind == limit.CalendarWindow && !wholeUnits(q.Limit):
			return fmt.Errorf("period %v: a calendar window is a minute, an hour, a day, a week or months", q.Limit.Period)
		}
	}
	switch {
	case len(v.More) >= maxQuotas:
		return fmt.Errorf("%d limits: at most %d", 1+len(v.More), maxQuotas)
	case s.cells() > maxCells:
		return fmt.Errorf("limits by process and key, on %d nodes, count %d apart: at most %d", max(v.Nodes, 1), s.cells(), maxCells)
	case v.Nodes < 0 || v.Nodes > maxNodes:
		return fmt.Errorf("%d nodes: at most %d", v.Nodes, maxNodes)
	case v.Queue < 0 || v.Queue > 0 && (v.Limit.Kind != limit.TokenBucket || v.Limit.Unlimited() || v.Limit.Count == 0):
		return fmt.Errorf("queue %d: needs a token bucket that is refilled", v.Queue)
	case v.Phase < 0 || v.Phase > maxDuration:
		return fmt.Errorf("phase %v: must be within 0 and %v", v.Phase, maxDuration)
	case v.Hints.Full && !slices.ContainsFunc(v.quotas(), Quota.fills):
		return fmt.Errorf("the hints say when a bucket is full, and no limit is a token bucket; leave full out")
	case !(v.Blur.Missing >= 0 && v.Blur.Missing <= 1) || v.Blur.Stale < 0:
		return fmt.Errorf("hints: missing %v must be from 0 to 1, and stale %v not negative", v.Blur.Missing, v.Blur.Stale)
	}
	return v.Service.check()
}

// wholeUnits reports whether a limit says the length that its windows have if it
// is a CalendarWindow, which rounds its Period up.
func wholeUnits(l limit.Limit) bool {
	l.Kind, l.Zone = limit.CalendarWindow, nil
	read, err := limit.Parse(l.String(), nil)
	return l.Unlimited() || err == nil && read.Period == l.Period
}

// mostCount is the largest Count there ever is.
func (v *Server) mostCount() int64 {
	most := max(v.Limit.Count, v.Scale.Max)
	for _, c := range v.Changes {
		most = max(most, c.Count)
	}
	return most
}

// dries reports whether there is ever a bucket without refill.
func (s Scenario) dries() bool {
	none := s.Server.Limit.Count == 0
	for _, c := range s.Server.Changes {
		none = none || c.Count == 0
	}
	return none && s.Server.Limit.Kind == limit.TokenBucket && !s.Server.Limit.Unlimited()
}

func (s Scenario) checkClients() error {
	workers := 0
	for i, g := range s.Clients {
		where := fmt.Sprintf("clients %d: ", i+1)
		switch {
		case g.Processes < 1 || g.Workers < 1:
			return fmt.Errorf("%sneeds at least 1 process and 1 worker", where)
		case g.Processes > maxWorkers/g.Workers || workers > maxWorkers-g.Processes*g.Workers:
			return fmt.Errorf("%smore than %d workers in all", where, maxWorkers)
		case g.Join < 0 || g.Leave < 0 || g.Every < 0 || g.On < 0 || g.Off < 0 || g.Work < 0:
			return fmt.Errorf("%stimes and work must not be negative", where)
		case max(g.Join, g.Leave, g.On, g.Off) > maxDuration || g.Every > maxDuration/time.Duration(g.Processes):
			return fmt.Errorf("%sjoin, leave, on, off, and every times the processes, must be within %v", where, maxDuration)
		case g.Leave > 0 && g.Leave <= g.Join:
			return fmt.Errorf("%sleaves at %v but joins at %v", where, g.Leave, g.Join)
		case g.Off > 0 && g.On == 0:
			return fmt.Errorf("%soff needs an on", where)
		}
		if err := s.checkCalls(&g); err != nil {
			return fmt.Errorf("%s%w", where, err)
		}
		workers += g.Processes * g.Workers
	}
	if workers == 0 {
		return fmt.Errorf("no clients")
	}
	if s.Duration == 0 && s.Stop.Sent == 0 && s.endless() {
		return fmt.Errorf("no duration, and clients whose work never ends")
	}
	return nil
}

// endless reports whether the work of some client that the run has to wait for
// never ends: a measured one, or any if none is measured.
func (s Scenario) endless() bool {
	some := slices.ContainsFunc(s.Clients, func(g Group) bool { return g.measured() })
	return slices.ContainsFunc(s.Clients, func(g Group) bool { return g.Work == 0 && (g.measured() || !some) })
}

// cells is how many a server counts apart.
func (s Scenario) cells() (n int) {
	c := s.crowd()
	for _, q := range s.Server.quotas() {
		n += max(s.Server.Nodes, 1) * int([...]float64{1, c.processes, c.keys}[q.By])
	}
	return n
}

// checkCalls is about the calls of a group.
func (s Scenario) checkCalls(g *Group) error {
	last := time.Duration(-1)
	for i, a := range g.Steps {
		if a.At <= last || i == 0 && a.At != 0 || !(a.Rate >= 0 && a.Rate <= 1e6) || g.Repeat > 0 && a.At >= g.Repeat {
			return fmt.Errorf("arrivals from %v on: steps begin at 0, rise, end before they repeat, and are within 0 and 1,000,000 a second", a.At)
		}
		last = a.At
	}
	for i, at := range g.Trace {
		if at < 0 || at > maxDuration || i > 0 && at < g.Trace[i-1] {
			return fmt.Errorf("trace: call %d at %v: times must rise, within %v", i+1, at, maxDuration)
		}
	}
	switch {
	case !(g.Arrivals >= 0 && g.Arrivals <= 1e6):
		return fmt.Errorf("arrivals %v: must be within 0 and 1,000,000 a second", g.Arrivals)
	case g.Arrivals > 0 && len(g.Steps) > 0 || g.arriving() && len(g.Trace) > 0 && g.Arrivals+float64(len(g.Steps)) > 0:
		return fmt.Errorf("arrivals, steps and a trace: one of them")
	case len(g.Steps) > maxChanges || len(g.Trace) > maxTrace:
		return fmt.Errorf("at most %d steps of arrivals, and %d in a trace", maxChanges, maxTrace)
	case g.Repeat < 0 || g.Repeat > 0 && len(g.Steps) == 0 || g.Repeat > 0 && g.Repeat < time.Millisecond:
		return fmt.Errorf("repeat %v: needs steps to repeat, and at least 1ms", g.Repeat)
	case g.Batch < 0 || g.Batch > maxQueue || g.Batch > 0 && !g.arriving():
		return fmt.Errorf("batch %d: must be from 0 to %d, and needs arrivals", g.Batch, maxQueue)
	case g.Timeout < 0 || g.Patience < 0 || g.Deadline < 0 || g.Clock < 0 || max(g.Timeout, g.Patience, g.Deadline, g.Clock) > maxDuration:
		return fmt.Errorf("timeout, patience, deadline and clock must be within 0 and %v", maxDuration)
	case s.Network.Loss > 0 && g.Timeout == 0:
		return fmt.Errorf("calls are lost and have no timeout: they would wait forever")
	case g.Keys < 0 || g.Keys > maxKeys:
		return fmt.Errorf("%d keys: at most %d", g.Keys, maxKeys)
	case g.Scopes && g.Processes*g.Workers > maxCells/max(g.Keys, 1):
		return fmt.Errorf("scopes of %d keys for each of %d workers: at most %d", g.Keys, g.Processes*g.Workers, maxCells)
	case g.Cost.Mean < 0 || g.Cost.Mean > 1e9 || g.Cost.Estimate < 0 || g.Cost.Estimate > 1e9:
		return fmt.Errorf("cost %+v: must be within 0 and 1,000,000,000", g.Cost)
	case g.Cost.Mean > s.Server.MaxCost():
		return fmt.Errorf("cost: mean %d: must be at most %d, what the limit grants at once", g.Cost.Mean, s.Server.MaxCost())
	}
	return checkSpread(g.Cost.Spread, g.Cost.Tail)
}

func (s Scenario) checkSettings() error {
	known := 0
	for _, f := range families {
		if presets, ok := s.Settings[f.name]; ok {
			known++
			if _, err := f.build(nil, presets); err != nil {
				return err
			}
		}
	}
	if known < len(s.Settings) {
		return fmt.Errorf("settings for a policy that is not known; known are %s", policyNames())
	}
	return nil
}
