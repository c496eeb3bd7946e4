package throttlehttp

import (
	"encoding/json"
	"net/http"
	"sync"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/signal"
)

// Headers chooses what a Handler tells its callers.
type Headers uint8

const (
	// Draft is RateLimit and RateLimit-Policy on every answer, in the form of
	// draft-ietf-httpapi-ratelimit-headers-08 and later, and Retry-After on
	// refusals.
	Draft Headers = iota
	// OnlyRetryAfter is Retry-After on refusals. Use it where the number
	// remaining would help an attacker, as at a login.
	OnlyRetryAfter
	// OnlyRemaining is a bare RateLimit-Remaining on every answer and nothing
	// else, as Heroku's API does.
	OnlyRemaining
	// Silent is no field at all.
	Silent
)

// Handler limits how often Next is called. What is refused is answered by 429
// (Too Many Requests), with the time to come again and a problem document (RFC
// 9457). The zero value lets everything pass.
//
// The fields must not change once requests come in. A Handler is safe for
// concurrent use if what its fields hold is.
type Handler struct {
	// Next serves what passes. If nil, that is an empty 204: a way to ask
	// whether something would pass.
	Next http.Handler
	// Store remembers who has used how much. If nil, a throttle.Memory of
	// this Handler's own.
	Store throttle.Store
	// Limit is how much each key may use. If zero, everything.
	Limit limit.Limit
	// LimitFor is the limit of one request, for callers on different plans.
	// The same key should always have the same limit. If nil, Limit.
	LimitFor func(*http.Request) limit.Limit
	// Key says on whose account a request goes: an API key that has been
	// checked, a customer, or RemoteIP. If nil, all requests share one
	// account. Beware of header fields that callers may write as they like:
	// each new value is a fresh account.
	Key func(*http.Request) string
	// Cost is what a request uses up. Zero uses up nothing, and passes unless
	// the key owes something; below zero counts as zero. If nil, 1.
	Cost func(*http.Request) int64
	// Name is the name of the limit, in header fields and as the beginning of
	// the keys in the Store, before a slash: two limits in one Store need two
	// names. If empty, "default".
	Name string
	// Headers is what callers are told. If zero, Draft.
	Headers Headers
	// Error answers when the Store could not decide. If nil, the request is
	// refused with 503 (Service Unavailable), without the cause. To let such
	// requests pass, wrap the Store in throttle.FailOpen.
	Error func(w http.ResponseWriter, r *http.Request, err error)

	once   sync.Once
	memory throttle.Store // when there is no Store
}

var _ http.Handler = (*Handler)(nil)

// ServeHTTP calls Next if the limit allows, and otherwise refuses.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l := h.Limit
	if h.LimitFor != nil {
		l = h.LimitFor(r)
	}
	if l.Unlimited() {
		h.next(w, r)
		return
	}
	d, err := throttle.Take(r.Context(), h.store(), h.key(r), l, h.cost(r))
	if err != nil {
		h.fail(w, r, err)
		return
	}
	h.tell(w, signalOf(l, d))
	if !d.OK {
		writeProblem(w, r, http.StatusTooManyRequests, problem{
			Type:     "https://iana.org/assignments/http-problem-types#quota-exceeded",
			Title:    "Request cannot be satisfied as assigned quota has been exceeded",
			Violated: []string{h.name()},
		})
		return
	}
	h.next(w, r)
}

func (h *Handler) next(w http.ResponseWriter, r *http.Request) {
	if h.Next == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	h.Next.ServeHTTP(w, r)
}

func (h *Handler) store() throttle.Store {
	if h.Store != nil {
		return h.Store
	}
	h.once.Do(func() { h.memory = new(throttle.Memory) })
	return h.memory
}

func (h *Handler) name() string {
	if h.Name == "" {
		return "default"
	}
	return h.Name
}

func (h *Handler) key(r *http.Request) string {
	if h.Key == nil {
		return h.name() + "/"
	}
	return h.name() + "/" + h.Key(r)
}

func (h *Handler) cost(r *http.Request) int64 {
	if h.Cost == nil {
		return 1
	}
	return max(h.Cost(r), 0)
}

func (h *Handler) fail(w http.ResponseWriter, r *http.Request, err error) {
	if h.Error != nil {
		h.Error(w, r, err)
		return
	}
	writeProblem(w, r, http.StatusServiceUnavailable, problem{
		Type:  "about:blank",
		Title: http.StatusText(http.StatusServiceUnavailable),
	})
}

// tell sets the fields that say s.
func (h *Handler) tell(w http.ResponseWriter, s signal.Signal) {
	set := w.Header().Set
	switch h.Headers {
	case Draft:
		s.Write(set, h.name())
	case OnlyRetryAfter:
		s.WriteRetryAfter(set)
	case OnlyRemaining:
		s.WriteRemaining(set)
	}
}

// signalOf is what callers are to know of a decision.
func signalOf(l limit.Limit, d limit.Decision) (s signal.Signal) {
	s.Limit, s.Window = pace.Some(max(l.Count, 0)), pace.Some(l.Period)
	s.Remaining = pace.Some(d.Remaining)
	if d.OK {
		s.Reset = pace.Some(d.ResetAfter)
	} else if d.RetryAfter != limit.Never {
		// The draft wants no Retry-After before the reset, and a bucket has
		// something to give long before it is full.
		s.After = pace.Some(d.RetryAfter)
		s.Reset = s.After
	}
	return s
}

// problem is a problem document (RFC 9457), with the members that
// draft-ietf-httpapi-ratelimit-headers adds.
type problem struct {
	Type     string   `json:"type"`
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Violated []string `json:"violated-policies,omitempty"`
}

func writeProblem(w http.ResponseWriter, r *http.Request, status int, p problem) {
	p.Status = status
	body, _ := json.Marshal(p) // strings and a number: cannot fail
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		w.Write(append(body, '\n')) // if the caller is gone, so is its interest
	}
}
