// Package sim plays clients against a rate limited server in virtual time and
// scores them. The clients decide with package pace, the server with package
// limit: the very code that runs live. It is a discrete-event simulation: a run
// is a function of a [Scenario], a [Policy] and a seed, and gives the same
// result to the last bit each time.
//
//	run := New(scenario, policy, 1)
//	for !run.Step(1_000_000) {
//	}
//	fmt.Println(run.Result().RetryRate)
package sim

import (
	"fmt"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/pace"
)

// Scenario is a server, a network and clients.
type Scenario struct {
	Name string
	// Duration is the length of the run. If zero, until the work is done.
	Duration time.Duration
	Server   Server
	Network  Network
	Stop     Stop
	Clients  []Group
	// Settings are the settings, by the name of a policy, that this scenario
	// gives to a policy which does not set them itself, written as in
	// ParsePolicy: "start=1s".
	Settings map[string]string
}

// Server is the limited service.
type Server struct {
	// Limit is what it allows. The zero Limit allows everything. A token
	// bucket with a Count of zero never refills. A SlidingLog is kept in a
	// limit.Log.
	Limit limit.Limit
	// Start is the level of the token bucket at the start. If absent, full.
	Start pace.Opt[int64]
	Hints Hints
	// Errors is the share of admitted requests that fail for another reason.
	Errors float64
	// Changes of capacity, in order of time.
	Changes []Change
	// Scale, if its Every is not zero, lets capacity follow the load.
	Scale AutoScale
	// Gap, if not empty, replaces Limit: a request is served when the one
	// before is longer ago than Gap.
	Gap []Gap
}

// Hints are what the server says in its answers.
type Hints struct {
	Remaining  bool // how many are left
	RetryAfter bool // on refusals, whole seconds, rounded up
	Reset      bool // seconds until the bucket is full or the window over, rounded up
	Policy     bool // the limit and its window
	Share      bool // the fair part of a process: the rate over how many are active
}

// Change sets another rate at a time.
type Change struct {
	At     time.Duration
	Count  int64
	Period time.Duration
	// RetryAfter is what refusals say to wait from then on until the next
	// change, whatever Hints are, in whole seconds. If zero, what the limit
	// makes of it.
	RetryAfter time.Duration
}

// AutoScale lets capacity follow served load: every Every, the capacity
// becomes served/Target, within Min and Max a second, Delay later.
type AutoScale struct {
	Every, Delay time.Duration
	Target       float64
	Min, Max     int64
}

// Gap is a least distance between requests, in force from the From-th request
// on, counting from 1.
type Gap struct {
	From  int64
	Least time.Duration
}

// Network is what lies between. Of each call's latency, uniform within
// Latency × (1 ± Spread), half is on the way there and half on the way back.
type Network struct {
	// Latency must be above zero: without it a closed loop that is refused
	// would spin forever at one instant.
	Latency time.Duration
	Spread  float64
}

// Stop ends a run early.
type Stop struct {
	// Remaining, if present: at the first answer with no more than so many
	// remaining.
	Remaining pace.Opt[int64]
	// Sent, if not zero: when so many requests have been answered.
	Sent int64
}

// Group is clients that are alike: Processes, each with a number of workers
// that have one request in flight each.
type Group struct {
	Processes, Workers int
	// Join and Leave are when its processes come and go. A Leave of zero is
	// never. A leaver finishes the call it has. Every delays each further
	// process's coming and going by so much.
	Join, Leave, Every time.Duration
	// Policy, if not nil, is what this group does whatever policy is tested;
	// it is then left out of the measures.
	Policy *Policy
	// Rival is left out of the measures. It runs Policy, or what is tested.
	Rival bool
	// Work is how many calls the group has to make in all. If zero, endless.
	Work int64
	// On and Off alternate, on first; a worker begins calls only while on. If
	// On is zero, always.
	On, Off time.Duration
	// Arrivals, if above zero, is how many calls a second come up in each
	// process, as a Poisson process; they queue for a worker. If zero, a
	// worker makes its next call at once after an answer.
	Arrivals float64
}

// measured reports whether the group counts in the measures.
func (g Group) measured() bool { return !g.Rival && g.Policy == nil }

// Bounds of a scenario; beyond them it is refused.
const (
	maxDuration = 366 * 24 * time.Hour
	maxWorkers  = 1_000_000
	maxChanges  = 10_000
	maxQueue    = 10_000 // calls that wait for a worker, in each process
	startWithin = 50 * time.Millisecond
)

// Check says in one line what is wrong with the scenario, if anything.
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
	if !(s.Network.Spread >= 0 && s.Network.Spread < 1) {
		return fmt.Errorf("spread %v: must be at least 0 and below 1", s.Network.Spread)
	}
	return nil
}

func (s Scenario) checkServer() error {
	v := s.Server
	switch {
	case v.Limit.Count < 0 || v.Limit.Burst < 0 || v.Limit.Period < 0:
		return fmt.Errorf("limit %+v: must not be negative", v.Limit)
	case v.Limit.Kind == limit.SlidingLog && v.mostCount() > limit.MaxLog:
		return fmt.Errorf("count %d: a sliding log keeps at most %d", v.mostCount(), limit.MaxLog)
	case !(v.Errors >= 0 && v.Errors < 1):
		return fmt.Errorf("errors %v: must be at least 0 and below 1", v.Errors)
	case s.dries() && dry(v.Limit.Burst) < 100*max(s.Duration, time.Hour):
		return fmt.Errorf("burst %d: too many for a bucket without refill in a run of %v", v.Limit.Burst, s.Duration)
	case v.Start.V < 0:
		return fmt.Errorf("start %d: must not be negative", v.Start.V)
	case len(v.Changes) > maxChanges:
		return fmt.Errorf("%d changes: at most %d", len(v.Changes), maxChanges)
	case (len(v.Changes) > 0 || v.Scale.Every > 0) && v.Limit.Unlimited():
		return fmt.Errorf("changes need a limit to change")
	case v.Scale.Every > 0 && (v.Scale.Target <= 0 || v.Scale.Min <= 0 || v.Scale.Max < v.Scale.Min || v.Scale.Delay < 0):
		return fmt.Errorf("auto-scaler %+v: needs a target and 0 < min <= max", v.Scale)
	}
	last := time.Duration(-1)
	for _, c := range v.Changes {
		if c.At <= last || c.Count < 0 || c.Period <= 0 {
			return fmt.Errorf("change at %v: changes need rising times and rates of zero or above", c.At)
		}
		if c.RetryAfter < 0 || c.RetryAfter > maxDuration {
			return fmt.Errorf("change at %v: retry-after %v: must be within 0 and %v", c.At, c.RetryAfter, maxDuration)
		}
		last = c.At
	}
	return nil
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
	workers, endless := 0, false
	for i, g := range s.Clients {
		where := fmt.Sprintf("clients %d: ", i+1)
		switch {
		case g.Processes < 1 || g.Workers < 1:
			return fmt.Errorf("%sneeds at least 1 process and 1 worker", where)
		case g.Processes > maxWorkers/g.Workers || workers > maxWorkers-g.Processes*g.Workers:
			return fmt.Errorf("%smore than %d workers in all", where, maxWorkers)
		case g.Join < 0 || g.Leave < 0 || g.Every < 0 || g.On < 0 || g.Off < 0 || g.Work < 0:
			return fmt.Errorf("%stimes and work must not be negative", where)
		case g.Leave > 0 && g.Leave <= g.Join:
			return fmt.Errorf("%sleaves at %v but joins at %v", where, g.Leave, g.Join)
		case g.Off > 0 && g.On == 0:
			return fmt.Errorf("%soff needs an on", where)
		case !(g.Arrivals >= 0 && g.Arrivals <= 1e6):
			return fmt.Errorf("%sarrivals %v: must be within 0 and 1,000,000 a second", where, g.Arrivals)
		}
		workers += g.Processes * g.Workers
		endless = endless || g.measured() && g.Work == 0
	}
	if workers == 0 {
		return fmt.Errorf("no clients")
	}
	if s.Duration == 0 && s.Stop.Sent == 0 && endless {
		return fmt.Errorf("no duration, and clients whose work never ends")
	}
	return nil
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
