// Package signal reads what a server says about its limit: from a status,
// header fields and, if wanted, the beginning of a body to one normalised
// [Reading], and back again for servers. It knows no HTTP library and no clock;
// fields come and go through functions.
//
// Servers say the same in many ways, and different things by the same name. A
// [Dialect] knows how one vendor does it: [For] chooses it by the host, [Named]
// by its name, and [Dialect.Explain] explains how each field was read. For hosts
// that no preset lists there is a general one. It understands Retry-After in
// every form, the RateLimit and RateLimit-Policy fields of
// draft-ietf-httpapi-ratelimit-headers (the current form, that of draft-07 and
// the three fields of draft-06 and before), and the X-RateLimit triple that the
// drafts grew from. Malformed fields are ignored, and absurd waits are capped:
// see [MaxAfter].
//
// [Read] is for answers of an unknown host, and returns only what a Controller
// needs: a [Signal]. [Signal.Write] is for servers.
package signal

import (
	"time"

	"github.com/throttle-go/throttle/pace"
)

// Signal holds what a Controller learns from one answer. The zero Signal is an
// answer that said nothing. It is comparable.
type Signal struct {
	// Verdict classifies the answer: unless its dialect knows better, Served
	// below 500 but for 429, Throttled for 429 and 503, Failed for the rest.
	Verdict pace.Verdict
	// After is the wait it asked for (Retry-After), never negative.
	After pace.Opt[time.Duration]
	// Limit, Window, Remaining and Reset are those of the binding policy among
	// those that count requests: token quotas are left out, as they are no
	// request rate.
	Limit, Remaining pace.Opt[int64]
	Window, Reset    pace.Opt[time.Duration]
	// Burst is the largest number that the server serves at once, where that
	// differs from the Limit: the depth of a token bucket, whose level is
	// Remaining.
	Burst pace.Opt[int64]
	// Share is this caller's fair share according to the server, a rate a
	// second: above zero, at most MaxShare.
	Share pace.Opt[float64]
}

// Report returns the caller's report to its Gate after that answer.
func (s Signal) Report() pace.Report {
	r := pace.Report{Verdict: s.Verdict}
	r.Hints.Limit, r.Hints.Remaining = s.Limit, s.Remaining
	r.Hints.Window, r.Hints.Reset = s.Window, s.Reset
	r.Hints.Burst, r.Hints.Share = s.Burst, s.Share
	if s.After.OK && s.Verdict != pace.Served {
		r.After = s.After.V
	}
	return r
}

// Believed returns s with absurd waits and resets capped or removed, as a client
// reads them: see [MaxAfter] and [FallbackAfter].
func (s Signal) Believed() Signal {
	s.After, s.Reset = awaited(s.After), believed(s.Reset)
	return s
}

// Seconds returns d in whole seconds, rounded up, as Retry-After and the
// RateLimit fields carry it: rounding down would invite a request that is
// refused.
func Seconds(d time.Duration) time.Duration {
	up := d.Truncate(time.Second)
	if up < d && up <= pace.Never-time.Second {
		up += time.Second
	}
	return up
}
