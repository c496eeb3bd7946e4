// Package sim plays clients against a rate limited server in virtual time and
// scores them. The clients decide with package pace and its concurrency limit in
// package load, the server with package limit: the very code that runs live. It
// does not run admit.Shedder (nor load.Admission behind it),
// admit.Queue and Quota, store.Leases, Guard and InFlight, throttle.Fleet,
// Stores, and transports. It is a discrete-event simulation: a run is a function
// of a [Scenario], a [Policy] and a seed, and gives the same result to the last
// bit each time.
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

// Scenario describes a server, a network and clients.
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
	// Limit is the limit of the server. The zero Limit allows everything. A
	// token bucket with a Count of zero never refills. The Period of a
	// CalendarWindow, after Changes too, is a minute, an hour, a day, or Week or
	// Months of package limit; it takes no Scale.
	Limit limit.Limit
	// By chooses the requests that Limit counts together; if zero, all. If
	// Costs, it counts the costs of calls, otherwise requests.
	By    By
	Costs bool
	// More are further limits: a request has to pass all, and is charged to all
	// or to none. Start, Changes, Scale and Queue apply to Limit alone.
	More []Quota
	// Queue, if above zero, makes a token bucket delay requests that it would
	// refuse: so many wait for their token, behind the Burst that passes at
	// once.
	Queue int64
	// Nodes is the number of nodes that share the work, each with an even part
	// of every limit (one at least); a request comes to any of them. Remaining,
	// Reset and Full are those of that node, but Policy is the whole. If zero, one.
	Nodes int
	// Phase is how far the server's clock is ahead of the clients': windows
	// are aligned to it, and the run begins at zero of the clients'.
	Phase time.Duration
	// Start is the level of the token bucket at the start. If absent, full.
	Start pace.Opt[int64]
	Hints Hints
	// Blur makes the hints of the server inexact.
	Blur Blur
	// Errors is the share of admitted requests that fail for a reason other than
	// load.
	Errors float64
	// Final is the share of admitted requests that fail permanently: the call is
	// over.
	Final float64
	// Plain makes refusals and Errors alike to the caller, as those of a service that
	// answers 503 to both, without a Retry-After: see [pace.Report.Unsure]. Such errors
	// count as throttled.
	Plain bool
	// Down is the share of admitted requests that come to a part of the service that is
	// down, and answers a plain 503 without hints. They count as throttled; see
	// [pace.Report.Unsure].
	Down float64
	// Service is the work on the requests that are admitted.
	Service Service
	// Changes of capacity, in order of time.
	Changes []Change
	// Scale, if its Every is not zero, lets capacity follow the load.
	Scale AutoScale
	// Gap, if not empty, replaces Limit: a request is served if the one before
	// it is longer ago than Gap.
	Gap []Gap
}

// Hints select the hints that the server gives in its answers.
type Hints struct {
	Remaining  bool // how many are left
	RetryAfter bool // on refusals, whole seconds, rounded up
	Reset      bool // seconds until the bucket is full or the window over, rounded up
	// Full states the milliseconds until a token bucket is full, rounded up, and how many
	// it then holds, as OpenAI's x-ratelimit-reset-tokens and -limit-tokens do. Limits of
	// other kinds state nothing by it, nor does a bucket that is not refilled; a server
	// without a token bucket must not have it.
	Full    bool
	Policy  bool // the limit and its window
	Share   bool // the fair part of a process: the rate over how many are active, its own if By is ByProcess
	Crowded bool // on refusals for too many at once, that this is the reason
}

// Blur makes the hints of a server inexact. The zero Blur leaves them exact.
type Blur struct {
	// Missing is the share of answers that say nothing at all.
	Missing float64
	// Stale bounds the age of Remaining, Reset and Full: they are read again when
	// they are older. If zero, they are those of the answer.
	Stale time.Duration
}

// By chooses the requests that a limit counts together.
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
	// Costs says that it counts the costs of calls, not requests.
	Costs bool
}

// Service is the work of a server on a request that it has admitted. The zero
// Service takes no time.
type Service struct {
	// Time is the duration of the work on one request. If zero, no time.
	Time time.Duration
	// Spread and Tail are as in Network.
	Spread, Tail float64
	// AtOnce bounds the requests that are worked on at a time. If zero, all are.
	// Of the others, Queue wait, first come, first served, if below zero all;
	// further ones are refused, as crowded, before any limit is asked. Work is
	// done for callers that have gone.
	AtOnce, Queue int
	// Each is the time that every request adds to the work: to its own, or, if
	// Batch, to that of its batch. Where AtOnce is zero, a request adds it to the
	// work of those that come while it is worked on, too: latency rises with what
	// is in flight, and throughput toward one request every Each. If zero, none.
	Each time.Duration
	// Batch, if above one, lets a worker that becomes free take up to so many of
	// those that wait, and work on them together, as in a group commit.
	Batch int
	// Pause stops all work now and then.
	Pause Pause
	// Slow makes some of the workers slower. Each part has its own queue.
	Slow Slow
	// Speeds change how long work takes, in order of time.
	Speeds []Speed
}

// Change sets another rate from a time on.
type Change struct {
	At     time.Duration
	Count  int64
	Period time.Duration
	// RetryAfter is the wait in refusals from then on until the next change,
	// whatever Hints are, in whole seconds. If zero, the wait is that of the
	// limit.
	RetryAfter time.Duration
	// Down is that of the server from then on. If zero, all of it works.
	Down float64
}

// AutoScale lets capacity follow the served load: every Every, the capacity
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

// Network is the network between clients and server. Of each call's latency,
// uniform within Latency × (1 ± Spread), half is on the way there and half on
// the way back.
type Network struct {
	// Latency must be above zero: without it a closed loop that is refused
	// would spin forever at one instant.
	Latency time.Duration
	Spread  float64
	// Tail makes latencies log-normal: it is the standard deviation of their
	// logarithm, and Latency is the median. With 1, one in a hundred takes ten
	// times as long. If zero, there is no tail.
	Tail float64
	// Loss is the share of calls whose request or answer is lost. All groups
	// then need a Timeout.
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

// Group is a number of like clients: Processes, each with a number of workers
// that have one request in flight each.
type Group struct {
	Processes, Workers int
	// Join and Leave are when its processes come and go. A Leave of zero is
	// never. A process that leaves finishes the call it has. Every delays the
	// coming and going of each further process by so much.
	Join, Leave, Every time.Duration
	// Policy, if not nil, is the policy of this group, whichever policy is
	// tested; the group is then left out of the measures.
	Policy *Policy
	// Rival leaves the group out of the measures. It runs Policy, or the tested
	// policy.
	Rival bool
	// Work is the number of calls that the group makes in all. If zero, it is
	// endless.
	Work int64
	// On and Off alternate, on first; a worker begins calls only while on. If
	// On is zero, always.
	On, Off time.Duration
	// Arrivals, if above zero, is the number of calls that arrive a second in
	// each process, as a Poisson process; they queue for a worker. If zero, a
	// worker makes its next call at once after an answer.
	Arrivals float64
	// Steps, if not empty, are Arrivals that change: each holds from its time
	// on, the first from the start. If Repeat is above zero, they begin again
	// after each such time.
	Steps  []Arrive
	Repeat time.Duration
	// Batch is the number of calls that arrive at once. If zero, one.
	Batch int
	// Trace, if not empty, lists the times at which calls arrive in all
	// processes together, in rising order; the processes take turns.
	Trace []time.Duration
	// Timeout bounds the duration of a try; beyond it the try ends as failed,
	// however it ends at the server. If zero, there is no bound.
	Timeout time.Duration
	// Patience bounds the wait of a caller for a call from when it arrived; then
	// the call is given up. The gate knows it, as the deadline of a context. If
	// zero, there is no bound.
	Patience time.Duration
	// Deadline is the time within which an answer is of use: calls served later
	// count as served, but not as goodput. If zero, there is none.
	Deadline time.Duration
	// Retries and Budget are as in pace.Gate. A call that fails more often
	// starts over, unless it has a Patience: it is then over.
	Retries int
	Budget  pace.Budget
	// Cost is the cost of its calls, where a limit counts costs.
	Cost Cost
	// Keys is the number of keys that its calls are about, with equal chances.
	// If zero, one. Key k is the same for all groups.
	Keys int
	// Scopes says that callers know the limits of the server apart: each has a
	// pace.Scope, one for each key. Otherwise one gate learns from all answers.
	Scopes bool
	// Clock bounds the error of the clocks of its processes.
	Clock time.Duration
}

// Arrive is the number of calls that arrive a second from a time on.
type Arrive struct {
	At   time.Duration
	Rate float64
}

// Cost distributes the costs of calls: Mean × (1 ± Spread), with a Tail as in
// Network, in whole numbers of at least 1. A limit that counts costs counts at
// most what it grants at once.
type Cost struct {
	// Mean is the middle of the costs, the median if there is a Tail, at most
	// the MaxCost of the server. If zero, 1.
	Mean         int64
	Spread, Tail float64
	// Estimate is the cost that the caller assumes for each call before its
	// answer. If zero, it knows the cost.
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
