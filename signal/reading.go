package signal

import (
	"time"

	"github.com/throttle-go/throttle/pace"
)

// Reading is all that one answer said, as a [Dialect] reads it: the Signal that
// a Controller learns from, and around it what decides whether and where to
// slow down. The zero Reading said nothing.
type Reading struct {
	Signal
	// Permanent says not to ask again. The Verdict is Served where that is so
	// because no wait helps, as with an account that is out of money: that says
	// nothing about the pace. It is Throttled where part of the request was
	// executed, as GraphQL may.
	Permanent bool
	// Retryable says that the server asks for another try (X-Should-Retry:
	// true), whatever the status: the request failed, for this once.
	Retryable bool
	// Concurrency says that too much was in flight at once: fewer at a time
	// will do, and need not be slower.
	Concurrency bool
	// Scope is what the answer is about, and ScopeName what the server calls
	// it: a bucket, a resource, a table; 128 bytes at most. A server may name
	// the scope of any answer, not of refusals alone.
	Scope     Scope
	ScopeName string
	// Reason is the server's own word for a refusal, 128 bytes at most.
	Reason string
	// Policies are all limits that the answer told of, sixteen at most, in the
	// order in which they were read. It is nil when that is the one in Signal
	// and no more.
	Policies []Policy
	// Cost is what the request cost in the unit of the first policy, where the
	// server says so.
	Cost pace.Opt[int64]
	// By names what decided: the wait if there is one, else the verdict, else
	// the limits. It is the name of a field, "body" and a path into the body,
	// "status", or "default" for a wait that the preset knows and the answer
	// did not say. It is empty when nothing was said.
	By string
}

// Policy is one limit of several.
type Policy struct {
	// Name is the server's, if it has one.
	Name string
	// Unit is what is counted: requests, tokens, points, bytes, percent or a
	// word of the server's own such as content-bytes; never empty.
	Unit string
	// Limit, Remaining, Window, Reset and Burst are as in Signal.
	Limit, Remaining pace.Opt[int64]
	Window, Reset    pace.Opt[time.Duration]
	Burst            pace.Opt[int64]
	// Partition is the key that the limit is counted by, as the draft's pk
	// parameter carries it; 128 bytes at most.
	Partition string
}

const (
	requests    = "requests"
	maxPolicies = 16
	maxText     = 128 // bytes of a reason or a name
)

// CountsRequests reports whether p is of the unit that a Controller paces in.
func (p Policy) CountsRequests() bool { return p.Unit == requests }

// isEmpty reports whether nothing is left of p.
func (p Policy) isEmpty() bool { return p.Remaining.OK && p.Remaining.V == 0 }

// Scope is what a limit or a refusal is about, from the narrowest to the
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
	// this one: it is nobody's fault.
	ScopeShared
	// ScopeGlobal is everything that this caller asks of this host.
	ScopeGlobal
)

var scopes = [...]string{"unknown", "resource", "route", "user", "shared", "global"}

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
	return report
}

// Report returns what a caller reports about the limit of p after an answer. It
// has the Verdict of the answer, but a refusal is Ignored where p has tokens
// left, as another limit refused then.
func (p Policy) Report(answer pace.Report) pace.Report {
	r := pace.Report{Verdict: answer.Verdict}
	r.Hints.Limit, r.Hints.Remaining, r.Hints.Window, r.Hints.Reset = p.Limit, p.Remaining, p.Window, p.Reset
	r.Hints.Burst = p.Burst
	if r.Verdict == pace.Throttled {
		if r.After = answer.After; !p.isEmpty() {
			r.Verdict, r.After = pace.Ignored, 0
		}
	}
	return r
}
