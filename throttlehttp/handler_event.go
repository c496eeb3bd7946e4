package throttlehttp

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"sync"
	"time"

	"github.com/throttle-go/throttle/rules"
)

// Event is what a Handler has decided about a request. What it says of keys, and
// how many rules and reasons there are, no caller can choose; what is in the
// Request a caller can.
type Event struct {
	Request *http.Request
	// Answer is that of the rules. Of a Limit, the Rule is the Handler's Name.
	// Shadow are the rules that would have refused, and ShadowErr is why one of
	// them could not say so.
	Answer rules.Answer
	// Status is by what the request is refused; zero if it goes to Next. If
	// Degraded, a smaller answer is given instead.
	Status   int
	Degraded bool
	// RetryAfter is the time that the caller is told to wait, limit.Never if
	// that does not help. Zero if it is not refused, or nothing is told.
	RetryAfter time.Duration
	// Err is why it could not be decided: the error of the Store; or the
	// *store.Error of the Shedder, if that refuses. Nil otherwise.
	Err error
	// GiveBackErr is why something could not be given back. It stays charged.
	GiveBackErr error

	shed bool
	key  string
}

// Reason is why, in a word: that of the Answer (unlimited, within, allowed; denied,
// no-key, over, busy), shed if there was no room for it, undecided if the Store
// failed, and gone if the caller did not wait for the decision.
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

// KeyID is 16 letters for the key of the limit that decided, see
// rules.Answer.KeyID. Empty if there is none.
func (e *Event) KeyID() string {
	if e.key == "" {
		return e.Answer.KeyID()
	}
	sum := sha256.Sum256([]byte(e.key))
	return hex.EncodeToString(sum[:8])
}

// eventKey is the key of an *Event in a context.
type eventKey struct{}

// Why is what led to the Degraded handler of a Handler that serves r: false in
// any other.
func Why(r *http.Request) (Event, bool) {
	e, ok := r.Context().Value(eventKey{}).(*Event)
	if !ok {
		return Event{}, false
	}
	return *e, true
}

// report tells what was decided.
func (v *visit) report(status int, after time.Duration) {
	if v.h.OnEvent != nil {
		v.h.OnEvent(v.event(status, after))
	}
}

func (v *visit) event(status int, after time.Duration) Event {
	e := Event{
		Request: v.r, Answer: v.answer, Status: status, RetryAfter: after,
		Err: v.undecided, GiveBackErr: v.lost, shed: v.busy != nil,
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

// Counter count what Handlers decide, by rule and reason: set Handler.On to the
// method On. The zero value is ready, one may serve several Handlers, and all is
// safe for concurrent use. There is one number for each rule and each of its
// reasons, and for shadow rules, whatever callers do; beyond 10,000, as after many
// swaps, all that is new counts under an empty rule.
type Counter struct {
	mu sync.Mutex
	n  map[Counted]int64
}

// Counted is what is counted together.
type Counted struct {
	// Rule is the one that decided; empty if none did.
	Rule string
	// Reason is that of the Event; or shadow, for a shadow rule that would have
	// refused; shadow-error and give-back-error for what the Store could not do.
	Reason string
	// Degraded is whether a smaller answer was given.
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
	if e.GiveBackErr != nil {
		c.add(Counted{Reason: "give-back-error"})
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

// Stats are the counts so far.
func (c *Counter) Stats() map[Counted]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make(map[Counted]int64, len(c.n))
	for what, n := range c.n {
		all[what] = n
	}
	return all
}
