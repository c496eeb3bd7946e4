package signal

import (
	"time"

	"github.com/throttle-go/throttle/pace"
)

// Reading is everything that one answer said, as a [Dialect] reads it: the
// Signal that a Controller learns from, and details that decide whether and
// where to slow down. The zero Reading is an answer that said nothing.
type Reading struct {
	Signal
	// Permanent says not to retry. The Verdict is Served where no wait helps, as
	// with an account that is out of money: that says nothing about the pace. It
	// is Throttled where part of the request was executed, as GraphQL may.
	Permanent bool
	// Retryable says that the server asks for another try (X-Should-Retry:
	// true), whatever the status: the request failed, this time.
	Retryable bool
	// Asked says that the answer asked for the wait After, by Retry-After or a
	// similar field or in its body. If false, After is the reset of a limit or what
	// the vendor documents, so that a 503 need not be a refusal on purpose.
	Asked bool
	// Unsure says that a Throttled answer may be a failure for another reason than
	// load: a 503 that asks for no wait, gives no code and does not say that a limit is
	// used up, except from a rate limiter that is known to answer so, as nginx's.
	Unsure bool
	// Concurrency says that a concurrency limit was exceeded: send fewer
	// requests at a time, not slower ones. A refusal in which a policy of
	// concurrent-requests is used up, and none of requests, says so too.
	Concurrency bool
	// Scope is the breadth of the answer, and ScopeName the server's name for
	// it: a bucket, a resource, a table; 128 bytes at most. A server may name
	// the scope of any answer, not only of refusals.
	Scope     Scope
	ScopeName string
	// Reason is the server's own word for a refusal, 128 bytes at most.
	Reason string
	// Policies are all limits in the answer, sixteen at most, in the order in
	// which they were read. It is nil if the one in Signal is the only one.
	Policies []Policy
	// Cost is the cost of the request in the unit of the first policy, where the
	// server says so.
	Cost pace.Opt[int64]
	// By names the source of the decision: of the wait if there is one, else of
	// the verdict, else of the limits. It is the name of a field, "body" and a
	// path into the body, "status", or "default" for a wait that the preset
	// knows and the answer did not say. It is empty if the answer said nothing.
	By string
}

// Policy is one limit of several in an answer.
type Policy struct {
	// Name is the server's name of the limit, if it has one.
	Name string
	// Unit is the unit that is counted: requests, tokens, points, bytes, percent
	// or a word of the server's own such as content-bytes; never empty.
	Unit string
	// Limit, Remaining, Window, Reset and Burst are as in Signal.
	Limit, Remaining pace.Opt[int64]
	Window, Reset    pace.Opt[time.Duration]
	Burst            pace.Opt[int64]
	// Full is when all of it remains again, of a limit that is refilled steadily, such as a
	// token bucket. Such a limit has no Reset, as nothing ends then.
	Full pace.Opt[time.Duration]
	// Partition is the key that the limit is counted by, as the draft's pk
	// parameter carries it; 128 bytes at most.
	Partition string
}

const (
	requests    = "requests"
	inFlight    = "concurrent-requests" // the draft's unit of a concurrency limit
	maxPolicies = 16
	maxText     = 128 // bytes of a reason or a name
)

// CountsRequests reports whether p counts in the unit that a Controller paces
// in.
func (p Policy) CountsRequests() bool { return p.Unit == requests }

// isEmpty reports whether nothing is left of p.
func (p Policy) isEmpty() bool { return p.Remaining.OK && p.Remaining.V == 0 }

// Scope is the breadth of a limit or a refusal, from the narrowest to the
// widest.
type Scope uint8

const (
	// ScopeUnknown is the zero Scope: the server did not say.
	ScopeUnknown Scope = iota
	// ScopeResource is one resource: a table, an object, an issue, a kind of
	// resource that has a limit of its own.
	ScopeResource
	// ScopeRoute is one endpoint, method or group of routes.
	ScopeRoute
	// ScopeUser is one user, token, key, app or account: the caller.
	ScopeUser
	// ScopeShared is shared with callers that the server counts together with
	// this one: this caller need not be at fault.
	ScopeShared
	// ScopeGlobal is all requests of this caller to this host.
	ScopeGlobal
)

var scopes = [...]string{"unknown", "resource", "route", "user", "shared", "global"}

// String returns the scope in a word, such as "route".
func (s Scope) String() string { return scopes[min(int(s), len(scopes)-1)] }

func scopeNamed(name string) Scope {
	for i, n := range scopes {
		if n == name {
			return Scope(i)
		}
	}
	return ScopeUnknown
}

// Report returns what a caller reports to its Gate after that answer. A
// Permanent answer is Final, and a refusal for Concurrency is Crowded.
func (r Reading) Report() pace.Report {
	report := r.Signal.Report()
	report.Final = r.Permanent
	report.Crowded = r.Concurrency && report.Verdict == pace.Throttled
	report.Unsure = r.Unsure
	return report
}

// Report returns what a caller reports about the limit of p after an answer. It
// has the Verdict of the answer, but a refusal is Ignored where p has tokens
// left, as another limit refused then.
func (p Policy) Report(answer pace.Report) pace.Report {
	r := pace.Report{Verdict: answer.Verdict}
	r.Hints.Limit, r.Hints.Remaining, r.Hints.Window, r.Hints.Reset = p.Limit, p.Remaining, p.Window, p.Reset
	r.Hints.Burst, r.Hints.Full = p.Burst, p.Full
	if r.Verdict == pace.Throttled {
		if r.After = answer.After; !p.isEmpty() {
			r.Verdict, r.After = pace.Ignored, 0
		}
	}
	return r
}
