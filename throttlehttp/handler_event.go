package throttlehttp

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"sync"
	"time"

	"github.com/throttle-go/throttle/rules"
)

// Event is the decision of a Handler about one request. Callers can choose what
// is in Request, but neither keys (they are hashed) nor the number of rules and
// reasons.
type Event struct {
	// Request is the request.
	Request *http.Request
	// Answer is the answer of the rules. Where there is a Limit and no rules,
	// Rule is the Name of the Handler. Shadow names the rules that would have
	// refused, and ShadowErr is why one of them could not decide.
	Answer rules.Answer
	// Status is the status of the refusal, zero if the request goes to Next.
	Status int
	// Degraded reports that the Degraded handler answers instead of the refusal.
	Degraded bool
	// RetryAfter is the time that the caller is told to wait, limit.Never if
	// that does not help. Zero if it is not refused, or told nothing.
	RetryAfter time.Duration
	// Err is why there was no decision: the error of the Store; or the
	// *store.Error of the Shedder that refused. Nil otherwise.
	Err error
	// RefundErr is why a refund failed. The tokens stay charged.
	RefundErr error

	shed bool
	key  string
}

// Reason returns why, in a word: that of the Answer (unlimited, within,
// allowed; denied, no-key, over, busy); shed if the Shedder refused; undecided
// if the Store failed; gone if the caller did not wait for the decision.
func (e *Event) Reason() string {
	switch {
	case e.Err == nil:
		return e.Answer.Reason.String()
	case e.Request.Context().Err() != nil:
		return "gone"
	case e.shed:
		return "shed"
	}
	return "undecided"
}

// Passed reports whether the request went to Next: it was neither refused nor
// answered by the Degraded handler.
func (e *Event) Passed() bool { return e.Status == 0 }

// KeyID returns 16 hexadecimal digits for the key of the limit that decided,
// see rules.Answer.KeyID. Empty if there is none.
func (e *Event) KeyID() string {
	if e.key == "" {
		return e.Answer.KeyID()
	}
	sum := sha256.Sum256([]byte(e.key))
	return hex.EncodeToString(sum[:8])
}

// eventKey is the context key of an *Event.
type eventKey struct{}

// Why returns the decision that led to the Degraded handler which serves r;
// false in any other handler.
func Why(r *http.Request) (Event, bool) {
	e, ok := r.Context().Value(eventKey{}).(*Event)
	if !ok {
		return Event{}, false
	}
	return *e, true
}

// report calls OnEvent with the decision.
func (v *visit) report(status int, after time.Duration) {
	if v.h.OnEvent != nil {
		v.h.OnEvent(v.event(status, after))
	}
}

func (v *visit) event(status int, after time.Duration) Event {
	e := Event{
		Request: v.r, Answer: v.answer, Status: status, RetryAfter: after,
		Err: v.undecided, RefundErr: v.lost, shed: v.busy != nil,
	}
	if v.busy != nil {
		e.Err = v.busy
	}
	e.Degraded = v.undecided == nil && v.mayDegrade(status)
	if i := v.decided(); i >= 0 {
		e.key = v.asks[i].Key
	}
	return e
}

// Counter counts the decisions of Handlers by rule and reason: set
// Handler.OnEvent to its OnEvent. The zero value is ready. One Counter may
// serve several Handlers. It is safe for concurrent use. There is one number
// for each rule and reason, whatever callers send; beyond 10,000, as after many
// swaps of the rules, new ones count under an empty rule.
type Counter struct {
	mu sync.Mutex
	n  map[Counted]int64
}

// Counted is what is counted together.
type Counted struct {
	// Rule is the rule that decided; empty if none did.
	Rule string
	// Reason is that of the Event; or shadow, for a shadow rule that would have
	// refused; or shadow-error and refund-error, for failures of the Store.
	Reason string
	// Degraded reports that the Degraded handler answered.
	Degraded bool
}

const maxCounts = 10_000

// OnEvent counts e.
func (c *Counter) OnEvent(e Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add(Counted{e.Answer.Rule, e.Reason(), e.Degraded})
	for _, rule := range e.Answer.Shadow {
		c.add(Counted{Rule: rule, Reason: "shadow"})
	}
	if e.Answer.ShadowErr != nil {
		c.add(Counted{Reason: "shadow-error"})
	}
	if e.RefundErr != nil {
		c.add(Counted{Reason: "refund-error"})
	}
}

func (c *Counter) add(what Counted) {
	if c.n == nil {
		c.n = make(map[Counted]int64)
	}
	if _, known := c.n[what]; !known && len(c.n) >= maxCounts {
		what.Rule = ""
	}
	c.n[what]++
}

// Stats returns the counts so far.
func (c *Counter) Stats() map[Counted]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make(map[Counted]int64, len(c.n))
	for what, n := range c.n {
		all[what] = n
	}
	return all
}
