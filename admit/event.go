package admit

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/rules"
)

// Verdict says how a [Control] decided, for transports to translate into a
// status.
type Verdict uint8

const (
	// Undecided requests are refused, as the Store failed or their context
	// ended: 503 in HTTP, UNAVAILABLE in gRPC.
	Undecided Verdict = iota
	// Admitted requests may start.
	Admitted
	// Limited requests are refused, as their key has used up its limit or has
	// too many in flight: 429, RESOURCE_EXHAUSTED.
	Limited
	// Overloaded requests are refused, as the service has no room: 503,
	// UNAVAILABLE.
	Overloaded
	// Denied requests are refused by a deny list: 403, PERMISSION_DENIED.
	Denied
	// Keyless requests are refused, as they lack a part of a key that a rule
	// requires: 400, INVALID_ARGUMENT.
	Keyless
)

var verdicts = [...]string{"undecided", "admitted", "limited", "overloaded", "denied", "keyless"}

// String returns the verdict in a word, such as "limited".
func (v Verdict) String() string {
	if int(v) < len(verdicts) {
		return verdicts[v]
	}
	return "unknown"
}

// Event is the decision of a [Control] about one request. Callers can choose
// what is in Request and in the keys of Asks, but neither what KeyID returns nor
// the number of rules and reasons.
type Event struct {
	// Request is the request.
	Request Request
	// Verdict is how the Control decided.
	Verdict Verdict
	// Answer is the answer of the rules. Where there is a Limit and no rules,
	// Rule is the Name of the Control. Shadow names the rules that would have
	// refused, and ShadowErr is why one of them could not decide.
	Answer rules.Answer
	// Asks are the asks of the limits that count, and Decisions those of the Store
	// about them. Empty if there are none, except that with the Reason rules.Killed
	// and no Limit they are then those of a shadow rule. They must not be changed, and
	// are valid until the Admission is done. Their keys may name persons: see KeyID.
	Asks      []limit.Ask
	Decisions []limit.Decision
	// RetryAfter is the wait that a refused caller is given, to the millisecond:
	// limit.Never if that does not help, zero if there was no decision.
	RetryAfter time.Duration
	// RetryAfterWhole is the same for callers that know whole seconds only.
	// Where many wait it is not RetryAfter rounded up, but planned separately,
	// as if all callers read whole seconds: see [Control.Spread].
	RetryAfterWhole time.Duration
	// Degraded reports that the request is answered with less instead of the
	// refusal, see [Request.Degrades].
	Degraded bool
	// Took is how long the decision took, with the Store and the wait for room. It
	// is measured where there is an OnEvent; else zero.
	Took time.Duration
	// Err is why there was no decision: the error of the Store; or the
	// *store.Error of the Shedder that refused. Nil otherwise.
	Err error
	// RefundErr is why a refund failed. The tokens stay charged.
	RefundErr error

	gone bool
	key  string
}

// Reason returns why, in a word: that of the Answer (unlimited, within,
// allowed, killed, away; denied, no-key, over, busy); shed if the Shedder refused; undecided
// if the Store failed; gone if the caller did not wait for the decision.
func (e *Event) Reason() string {
	switch {
	case e.gone:
		return "gone"
	case e.Verdict == Undecided:
		return "undecided"
	case e.Err != nil:
		return "shed"
	}
	return e.Answer.Reason.String()
}

// KeyID returns 16 hexadecimal digits for the key of the limit that decided,
// see rules.Answer.KeyID. Empty if there is none.
func (e *Event) KeyID() string {
	if e.key == "" {
		return e.Answer.KeyID()
	}
	sum := sha256.Sum256([]byte(e.key))
	return hex.EncodeToString(sum[:8])
}

// conclude completes the Event and what the Admission says. err is why there is
// no decision.
func (a *Admission) conclude(err error) {
	if err != nil {
		a.Degraded, a.Err, a.gone = false, err, a.ctx.Err() != nil
		return
	}
	if !a.Answer.Limit.Unlimited() || a.Answer.Reason == rules.Killed { // else they are of a shadow rule
		a.Asks, a.Decisions = a.charged.asks, a.charged.decisions
	}
	decided := -1
	if !a.Answer.Limit.Unlimited() {
		decided = limit.Binding(a.Decisions)
		a.key = a.Asks[decided].Key
	}
	if a.busy != nil {
		a.Err, a.gone = a.busy, a.ctx.Err() != nil
	} else {
		a.Binding = decided // what was refunded says nothing
	}
	a.Verdict = a.verdict()
	a.OK = a.Verdict == Admitted
	a.Degraded = a.Degraded && (a.Verdict == Limited || a.Verdict == Overloaded)
	if !a.OK {
		w := a.wait()
		a.RetryAfter, a.RetryAfterWhole = w.exact, w.whole
	}
}

func (a *Admission) verdict() Verdict {
	switch {
	case a.busy != nil || a.Answer.Reason == rules.Busy && a.Answer.Common:
		return Overloaded
	case a.Answer.OK:
		return Admitted
	case a.Answer.Reason == rules.Denied:
		return Denied
	case a.Answer.Reason == rules.NoKey:
		return Keyless
	}
	return Limited
}

// soon is the time to come again where none is known.
const soon = time.Second

// wait returns when to come again, limit.Never if that does not help.
func (a *Admission) wait() wait {
	switch i := a.Binding; {
	case a.busy != nil:
		return a.waitShed()
	case i >= 0:
		return a.slot(a.Asks[i].Key, a.At(), promiseOf(a.Asks[i].Limit, a.Asks[i].N, a.Decisions[i].RetryAfter))
	case a.Answer.Reason == rules.Busy: // when the others are done is unknown
		return waitOf(soon)
	}
	return waitOf(a.Answer.Decision.RetryAfter)
}

// waitShed spreads refusals at the rate at which the service works.
func (a *Admission) waitShed() wait {
	after := a.busy.Wait
	if after == limit.Never || after <= 0 {
		after = soon
	}
	s, key := a.shedder().Stats(), "shed/"
	if a.Request.Shed != nil { // each has a line of its own
		key = fmt.Sprintf("shed/%p", a.Request.Shed)
	}
	return a.slot(key, time.Now(), promise{
		earliest: after, each: s.Took / time.Duration(max(s.Limit, 1)),
	})
}
