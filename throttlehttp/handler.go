package throttlehttp

import (
	"context"
	"net/http"
	"sync"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/rules"
)

// Handler is rate limiting middleware, and more: it puts the admission control of
// an [admit.Control] in front of Next. A refusal is answered with a problem
// document (RFC 9457) and the time to come again:
//
//	429 (Too Many Requests)     the caller has used up its own limit
//	503 (Service Unavailable)   the service has no room, or the Store failed
//	403 (Forbidden)             a deny list says so
//	400 (Bad Request)           a part of a key is missing that a rule requires
//
// The zero value admits everything. The fields must not change after first use.
// It is safe for concurrent use if what its fields hold is. It starts no
// goroutine. A request counts as in flight until Next returns or panics. See
// [Limit] for a limit in one line.
//
// The http.ResponseWriter is passed on unchanged, so that Next may flush, hijack
// and push. If a Shedder learns its bound, Next gets one that does the same and is
// watched, as the body is. Some requests then give up their place in the Shedder, as
// a few of them would hold all places: a request that waits for most of 250 ms for a
// caller who sends the body or reads the answer slowly, a stream of events, a
// hijacked connection, and an answer that goes on for 5 s. A Shedder whose bound is
// set counts them all.
type Handler struct {
	// Control decides. Several Handlers may share one. If nil, all requests are
	// admitted. Where its Phase is rules.Before, its charges are in the context
	// of the request that Next sees, see admit.Refund.
	Control *admit.Control
	// Next serves the requests admitted. If nil, they are answered by an empty
	// 204: a way to ask whether a request would pass.
	Next http.Handler
	// Admitted serves the requests admitted in place of Next, and may end the
	// Admission in another way than Done: GiveBack, where the request was not
	// served in the end; Forget, where it took long for a reason of its own. It
	// must not keep the Admission, and itself gives back the places of slow callers,
	// see admit.Admission.Pass. If nil, Next serves.
	Admitted func(w http.ResponseWriter, r *http.Request, a *admit.Admission)
	// Request completes the request that the Control decides about: Key,
	// Client, Value, Cost, Priority, Caller, whatever the program knows. Method,
	// Host, Path, Header and Conn are set already, and so is Address: the client
	// behind the proxies that the rules trust, by rules.ClientAddress; without
	// rules the sender of the request, so that a Limit is for each address (see
	// [ClientIP] for proxies). If nil, nothing is added.
	Request func(*http.Request, admit.Request) admit.Request

	// Headers selects the header fields that tell callers about the limit. If
	// zero, Draft.
	Headers Headers

	// Degraded answers, instead of a refusal by 429 or 503, with less than was
	// requested: a cached answer, a shorter list. It finds the reason by Why.
	// It is not limited. If nil, such requests are refused.
	Degraded http.Handler
	// Refuse writes the status and the body of a refusal, instead of the problem
	// document: a page, an envelope of the API's own. The header fields about the
	// limit, such as Retry-After, are set already. The Event says why, Status
	// which status is meant. If nil, the problem document.
	Refuse func(w http.ResponseWriter, r *http.Request, e admit.Event)
	// Error answers requests that the Store could not decide, in place of
	// Refuse. If nil, they are refused with 503 (Service Unavailable), without
	// the cause. To admit them, wrap the Store in store.FailOpen.
	Error func(w http.ResponseWriter, r *http.Request, err error)
}

var _ http.Handler = (*Handler)(nil)

// ServeHTTP calls Next if the Control admits the request, and refuses it
// otherwise.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.Control == nil {
		h.next(w, r)
		return
	}
	a := admissions.Get().(*admit.Admission)
	err := h.Control.BeginIn(r.Context(), h.request(r), a)
	defer h.end(a) // after a panic it says nothing about how long a request takes
	switch {
	case err != nil:
		h.fail(w, r, a)
		return
	case !a.OK:
		h.refuse(w, r, a)
		return
	}
	h.tell(w.Header(), a)
	if h.Control.Phase == rules.Before {
		r = r.WithContext(a.Context(r.Context()))
	}
	if h.Admitted != nil {
		h.Admitted(w, r, a)
	} else {
		h.admitted(w, r, a)
	}
	a.Done()
}

// admissions are used again.
var admissions = sync.Pool{New: func() any { return new(admit.Admission) }}

// end ends an Admission, also after a panic.
func (h *Handler) end(a *admit.Admission) {
	a.Forget()
	if h.Control.Phase != rules.Before { // where a context may still refer to it
		admissions.Put(a)
	}
}

// admitted has Next serve a request that was admitted.
func (h *Handler) admitted(w http.ResponseWriter, r *http.Request, a *admit.Admission) {
	p, w, in := h.held(w, r, a)
	if p != nil {
		defer p.end(r, in)
	}
	h.next(w, in)
}

func (h *Handler) next(w http.ResponseWriter, r *http.Request) {
	if h.Next == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	h.Next.ServeHTTP(w, r)
}

// request returns what the Control decides about.
func (h *Handler) request(r *http.Request) admit.Request {
	q := admit.Request{
		Request: rules.Request{
			Method: r.Method, Host: r.Host, Path: r.URL.Path, RawPath: r.URL.RawPath,
			Header: r.Header.Get, // and no function of a pool: an Event may be kept
		},
		Degrades: h.Degraded != nil,
	}
	if from, ok := remote(r); ok {
		q.Address = from
		if h.Control.Rules != nil {
			q.Version = h.Control.Rules.Load() // the same trusts the proxies and decides
			q.Address = q.Version.ClientAddress(from, r.Header.Values)
		}
	}
	if r.ProtoMajor < 2 { // one request after the other
		q.Conn = r.RemoteAddr
	}
	if h.Request != nil {
		q = h.Request(r, q)
	}
	return q
}

// eventKey is the context key of an *admit.Event.
type eventKey struct{}

// Why returns the decision that led to the Degraded handler which serves r;
// false in any other handler.
func Why(r *http.Request) (admit.Event, bool) {
	e, ok := r.Context().Value(eventKey{}).(*admit.Event)
	if !ok {
		return admit.Event{}, false
	}
	return *e, true
}

// degrade has the Degraded handler answer. What it says is an answer: there is
// nothing to retry.
func (h *Handler) degrade(w http.ResponseWriter, r *http.Request, a *admit.Admission) {
	e := a.Event
	h.Degraded.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), eventKey{}, &e)))
}
