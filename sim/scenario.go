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
	// bucket with a Count of zero never refills.
	Limit limit.Limit
	// By says whom Limit counts; if zero, all together. If Costs, it counts
	// what calls cost, otherwise the requests.
	By    By
	Costs bool
	// More are further limits: a request has to pass all, and takes of all or
	// of none. Start, Changes, Scale and Queue are of Limit alone.
	More []Quota
	// Queue, if above zero, makes a token bucket delay what it would refuse: so
	// many requests wait for their token, behind the Burst that goes at once.
	Queue int64
	// Nodes is how many nodes share the work, each with an even part of every
	// limit (one at least); a request comes to any of them. What is said of
	// Remaining and Reset is that node's, but Policy is the whole. If zero, one.
	Nodes int
	// Phase is how far the server's clock is ahead of the clients': windows
	// are aligned to it, and the run begins at zero of the clients'.
	Phase time.Duration
	// Start is the level of the token bucket at the start. If absent, full.
	Start pace.Opt[int64]
	Hints Hints
	// Blur is what is wrong with the hints.
	Blur Blur
	// Errors is the share of admitted requests that fail for another reason.
	Errors float64
	// Final is the share of admitted requests that fail so that a retry is of no
	// use: the call is over.
	Final float64
	// Service is what is done with the requests that are admitted.
	Service Service
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
	Crowded    bool // on refusals for too many at once, that it is for that
}

// Blur is what is wrong with what a server says. The zero Blur is nothing.
type Blur struct {
	// Missing is the share of answers that say nothing at all.
	Missing float64
	// Stale is how old Remaining and Reset may be: they are looked up again when
	// they are older. If zero, they are those of the answer.
	Stale time.Duration
}

// By is whom a limit counts.
type By uint8

const (
	Together  By = iota // all callers together
	ByProcess           // each process by itself
	ByKey               // each key, of all groups, by itself
)

// Quota is one of several limits.
type Quota struct {
	Limit limit.Limit
	By    By
	// Costs says that it counts what calls cost, not the requests.
	Costs bool
}

// Service is what a server does with a request that it has admitted. The zero
// Service takes no time.
type Service struct {
	// Time is how long the work on one request takes. If zero, no time.
	Time time.Duration
	// Spread and Tail are as in Network.
	Spread, Tail float64
	// AtOnce is how many are worked on at a time. If zero, all. Of more, Queue
	// wait, first come, first served; beyond it they are refused, as crowded,
	// before any limit is asked.
	AtOnce, Queue int
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
	// Tail makes latencies log-normal: it is the standard deviation of their
	// logarithm, and Latency is the median. With 1, one in a hundred takes ten
	// times as long. If zero, there is no tail.
	Tail float64
	// Loss is the share of calls of which the request or the answer is lost.
	// All groups then need a Timeout.
	Loss float64
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
	// Steps, if there are any, are Arrivals that change: each holds from its
	// time on, the first from the start. If Repeat is above zero they begin
	// again each time that it is over.
	Steps  []Arrive
	Repeat time.Duration
	// Batch is how many calls come up at once. If zero, one.
	Batch int
	// Trace, if there is any, is when calls come up in all processes together,
	// in rising order; they take turns.
	Trace []time.Duration
	// Timeout is how long a try may take; it then ends as failed, whatever
	// becomes of it. If zero, for ever.
	Timeout time.Duration
	// Patience is how long a caller waits for a call from when it came up; it
	// is then given up. The gate knows, as it is the deadline of a context.
	// If zero, for ever.
	Patience time.Duration
	// Deadline is how soon an answer is of use: what is served later counts as
	// served, but not as goodput. If zero, whenever.
	Deadline time.Duration
	// Retries and Budget are as in pace.Gate. A call that fails more often
	// starts over, unless it has a Patience: it is then over.
	Retries int
	Budget  pace.Budget
	// Cost is what its calls cost, where a limit counts that.
	Cost Cost
	// Keys is how many keys its calls are about, each by an even chance. If
	// zero, one. Key k is the same for all groups.
	Keys int
	// Scopes says that callers know the limits of the server apart: each has a
	// pace.Scope, of each key its own. Otherwise one gate learns from what all
	// answers say.
	Scopes bool
	// Clock is by how much at most the clocks of its processes are off.
	Clock time.Duration
}

// Arrive is how many calls a second come up from a time on.
type Arrive struct {
	At   time.Duration
	Rate float64
}

// Cost is what calls cost: Mean × (1 ± Spread), with a Tail as in Network, in
// whole numbers of at least 1 and at most what the server's limits grant at
// once.
type Cost struct {
	// Mean is the middle of the costs, the median if there is a Tail. If zero, 1.
	Mean         int64
	Spread, Tail float64
	// Estimate is what the caller takes each to cost before its answer. If
	// zero, it knows.
	Estimate int64
}

// arriving reports whether calls come up by themselves.
func (g *Group) arriving() bool { return g.Arrivals > 0 || len(g.Steps) > 0 || len(g.Trace) > 0 }

// inTime is how soon an answer is of use; zero: whenever.
func (g *Group) inTime() time.Duration {
	if g.Deadline > 0 {
		return g.Deadline
	}
	return g.Patience
}

// measured reports whether the group counts in the measures.
func (g *Group) measured() bool { return !g.Rival && g.Policy == nil }
