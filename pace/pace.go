// Package pace is the client-side rate limiter behind package throttle: it decides when the next
// request to a limited service may start, and learns from the answers. Like package limit it is
// arithmetic on values: times and answers are arguments, nothing waits, and the same events give
// the same decisions, live and in the simulator.
//
// A [Controller] is one policy. Most callers should use [Adaptive], which learns an unknown limit;
// [Fixed] is for a known rate, and [Backoff] for retries without pacing. Package peers has the
// policies of other libraries, to compare with and to migrate from. A [Gate] puts a queue in front
// of a Controller: it decides which call is next, which one rests before a retry, and which one is
// given up. Package throttle adds the waiting, and package load bounds how many requests are in
// flight.
package pace

import (
	"math"
	"time"
)

// Never is a wait that no time ends, only another event. As a rest it forbids a retry.
const Never time.Duration = math.MaxInt64

// Verdict says how a request ended.
type Verdict uint8

const (
	// Ignored teaches nothing: cancelled, never sent, or answered in a way that says nothing
	// of the limit, as by a 500. It is the zero value.
	Ignored Verdict = iota
	// Served was answered and not refused for load, whatever the answer.
	Served
	// Throttled was refused for load, and not executed.
	Throttled
	// Failed ended for a reason that has nothing to do with load, and may have been executed.
	Failed
)

// String returns the name of the verdict in small letters.
func (v Verdict) String() string {
	return [...]string{"ignored", "served", "throttled", "failed"}[v&3]
}

// Opt is a value that may be absent.
type Opt[T any] struct {
	V  T
	OK bool
}

// Some returns v as a value that is present.
func Some[T any](v T) Opt[T] { return Opt[T]{v, true} }

// Luck is the randomness of one try of one request: a hash of the Gate's seed, the number of the
// request and the try. The same try always gets the same draws, so asking twice changes nothing.
type Luck uint64

// luckOf mixes three numbers into a Luck.
func luckOf(seed, arrival uint64, try int) Luck {
	return Luck(mix(mix(seed^mix(arrival)) + uint64(try)))
}

// Unit returns the k-th draw, uniform in [0, 1).
func (l Luck) Unit(k int) float64 {
	return float64(mix(uint64(l)+uint64(k)*0x9e3779b97f4a7c15)>>11) / (1 << 53)
}

// mix is the finalizer of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Request is one try of one call, as a Controller sees it.
type Request struct {
	// Since is when it became ready to start: on arrival, or after its rest. If zero, it has
	// always waited: no time counts as idle.
	Since time.Time
	// Try is 0 for the first try, 1 for the first retry.
	Try int
	// Cost is the estimated cost.
	Cost int64
	// Place is 0 to ask whether it may start. Above zero it asks for a forecast: how long
	// until the Place-th in line may start.
	Place int
	// Rest is how long it rested before this try.
	Rest time.Duration
	Luck Luck
}

// Hints hold the numbers that a server states about its limit.
type Hints struct {
	// Limit and Window are the server's policy: Limit events in each Window.
	Limit  Opt[int64]
	Window Opt[time.Duration]
	// Remaining is how many more events the server would serve now.
	Remaining Opt[int64]
	// Reset is the time until the server has more to give.
	Reset Opt[time.Duration]
	// Full is the time until all of the limit remains again, of one that comes back steadily, as
	// a token bucket does. Unlike at a Reset, nothing ends then.
	Full Opt[time.Duration]
	// Burst is how many events the server serves at once at most, where that differs from
	// Limit: Remaining is then what is left of Burst.
	Burst Opt[int64]
	// Share is this caller's fair share as the server states it, in events a second.
	Share Opt[float64]
}

// Report states how a request ended, as its caller saw it. The zero Report teaches nothing.
type Report struct {
	// Verdict classifies the end of the request.
	Verdict Verdict
	// Final forbids a retry, whatever the Verdict.
	Final bool
	// TimedOut reports that a request that was Ignored or Failed lasted until its caller
	// stopped waiting, as by the deadline of a context. A Throttle sets it. To
	// Gate.Concurrency it is a failure, where requests usually take less. It also teaches how
	// much time calls must have left when they start: see [Gate.GivenUp].
	TimedOut bool
	// After is the least delay before a retry that the server asked for (Retry-After). If
	// zero, it asked for none.
	After time.Duration
	// Crowded reports that a Throttled request exceeded a concurrency limit: too many were in
	// flight at once. A Gate then lowers its own bound on requests in flight, and does not
	// slow down its Controller.
	Crowded bool
	// Unsure reports that a Throttled request may have failed for another reason than load,
	// as an answer of 503 (Service Unavailable) without a Retry-After. Adaptive counts such
	// refusals as failures while they are few: one in sixteen requests served.
	Unsure bool
	// Cost is the actual cost of the request, in the unit of the limit. If zero or below, it is the
	// estimate.
	Cost int64
	// Hints hold the numbers that the server stated about its limit.
	Hints Hints
}

// Outcome states how a request ended, as its Controller sees it: the caller's Report and what the
// Gate adds. Only a Gate makes one.
type Outcome struct {
	Report
	// Request is the request as the Controller admitted it.
	Request Request
	// Sent is when the request started. It is zero, with the Verdict Ignored, for a request
	// that was admitted but never sent: the Controller may refund what Start charged.
	Sent time.Time
	// Elsewhere reports that another limit than the Controller's refused the request. The rest
	// of the Report is then empty, so the Verdict is Ignored.
	Elsewhere bool
}

// Controller is one policy of pacing. Wait asks and changes nothing; Start commits. So controllers
// compose, and may be asked often. Between two events (Start, Observe) the instant now+Wait does
// not move. Every Start is followed by exactly one Observe.
//
// Times never go back. Those of time.Now do not, however the clock is set, as they have a
// monotonic reading. As Wait changes nothing, a Controller cannot tell a clock that was set back
// by an hour from an hour that is to be waited: a driver by times without that reading, as those of
// time.UnixMilli, has to count on from the latest time that it has passed.
//
// A Controller belongs to one [Gate] and is not safe for concurrent use.
type Controller interface {
	// Wait returns the time until r may start: zero or below, at once. With a Place of 0 it is
	// Never only while a request is in flight; as a forecast Never means unknown.
	Wait(now time.Time, r Request) time.Duration
	// Start records that r starts now.
	Start(now time.Time, r Request)
	// Observe learns how a request ended. rest is how long that request rests before a retry,
	// if there is one; Never gives it up.
	Observe(now time.Time, o Outcome) (rest time.Duration)
}

// All lets a request start when every one of its controllers does. It waits and rests for the
// longest of their times.
type All []Controller

var _ Controller = All(nil)

// Wait returns the longest of the waits. A forecast is the longest that is known; Never if one is
// unknown and no other is above zero.
func (all All) Wait(now time.Time, r Request) (wait time.Duration) {
	unknown := false
	for _, c := range all {
		w := c.Wait(now, r)
		if w == Never && r.Place > 0 {
			unknown = true
			continue
		}
		wait = max(wait, w)
	}
	if unknown && wait <= 0 {
		return Never
	}
	return wait
}

// Start starts r in each controller.
func (all All) Start(now time.Time, r Request) {
	for _, c := range all {
		c.Start(now, r)
	}
}

// Observe calls Observe of each controller and returns the longest of the rests.
func (all All) Observe(now time.Time, o Outcome) (rest time.Duration) {
	for _, c := range all {
		rest = max(rest, c.Observe(now, o))
	}
	return rest
}

// Why returns what makes requests wait by the first controller that is an [Explainer]; the others
// are not asked. It is zero if none is.
func (all All) Why(now time.Time) Why {
	for _, c := range all {
		if e, ok := c.(Explainer); ok {
			return e.Why(now)
		}
	}
	return Why{}
}
