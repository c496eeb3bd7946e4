package throttlehttp

import (
	"hash/maphash"
	"net/http"
	"sync"
	"time"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/load"
	"github.com/throttle-go/throttle/rules"
	"github.com/throttle-go/throttle/store"
)

// Handler is a rate limiting middleware. It limits how often Next is called: by
// one Limit or by Rules, and by what the service can do. A refusal is answered
// with a problem document (RFC 9457) and the time to come again:
//
//	429 (Too Many Requests)     the caller has used up its own limit
//	503 (Service Unavailable)   the service has no room, or the Store failed
//	403 (Forbidden)             a deny list says so
//	400 (Bad Request)           a part of a key is missing that a rule wants
//
// The zero value admits everything. The fields must not change, nor a Handler
// be copied, after first use. It is safe for concurrent use if what its fields
// hold is. It starts no goroutine. The http.ResponseWriter is passed on
// unchanged, so that Next may flush, hijack and push; a request counts as in
// flight until Next returns or panics.
type Handler struct {
	// Next serves the requests admitted. If nil, they are answered by an empty
	// 204: a way to ask whether a request would pass.
	Next http.Handler
	// Store remembers how much each key has used. If nil, a memory.Store of
	// this Handler's own.
	Store store.Store

	// Limit is how much each key may use. If zero, there is no limit.
	Limit limit.Limit
	// LimitFor returns the limit of one request, for callers on different
	// plans. The same key should always have the same limit. If nil, Limit.
	LimitFor func(*http.Request) limit.Limit
	// Key returns the key that a request is charged to: an API key that was
	// checked, a customer, or RemoteIP. If nil, all requests share one key.
	// Beware of header fields that callers may set freely: each new value is a
	// new key with an unused limit.
	Key func(*http.Request) string
	// Cost returns the tokens that a request takes. Zero takes none and passes
	// unless the key owes some; below zero counts as zero. If nil, 1.
	Cost func(*http.Request) int64
	// Name is the name of the limit, in header fields and, before a slash, at
	// the beginning of the keys in the Store: two limits in one Store need two
	// names. If empty, "default".
	Name string

	// Rules replace Limit, LimitFor, Key, Cost and Name. They may be swapped at
	// any time. If nil, there are none.
	Rules *rules.Live
	// Fill completes the rules.Request that the rules see: Value and Cost, and
	// whatever the program knows better. The other fields are set already:
	// Address is that of rules.ClientAddress behind the proxies that the rules
	// trust, Client is the result of the function Client. If nil, nothing is
	// added.
	Fill func(*http.Request, rules.Request) rules.Request
	// InFlight counts the requests in flight, for rules with in_flight. If nil,
	// one of this Handler's own.
	InFlight *store.InFlight

	// Client returns the authenticated identity of the caller, empty if it is
	// unknown. Authenticated requests are refunded what Handlers of the Phase
	// rules.Before charged, and the rules see the Client. If nil, no request is
	// authenticated.
	Client func(*http.Request) string
	// Phase is rules.Before for a Handler in front of the authentication: it
	// asks only the rules of that phase, and records in the context of the
	// request what it charged, see Refund. If rules.After, it asks the other
	// rules; if empty, all.
	Phase rules.Phase

	// Shed protects Next from overload: a request that does not fit waits
	// briefly, or is refused by 503 and not charged, the lowest Priority first.
	// If nil, all admitted requests go to Next at once. Put streams and
	// hijacked connections behind another Handler: they would teach it that
	// requests take long.
	Shed *admit.Shedder
	// Priority returns the priority of a request for Shed. Zero counts as
	// load.Normal. If nil, that of the rules, load.Normal if there are none.
	Priority func(*http.Request) load.Priority
	// Degraded answers, instead of a refusal by 429 or 503, with less than was
	// requested: a cached answer, a shorter list. It finds the reason by Why.
	// It is not limited. If nil, such requests are refused.
	Degraded http.Handler

	// Headers selects the header fields that tell callers about the limit. If
	// zero, Draft.
	Headers Headers
	// RetryAfterMs computes Retry-After from Retry-After-Ms, by rounding up: for
	// callers that all read the latter, as the Transport does and the clients of
	// Azure and OpenAI. If false, Retry-After is planned by itself, for callers
	// that know whole seconds only, and Retry-After-Ms is set where it is sooner.
	RetryAfterMs bool
	// Spread bounds how much longer than necessary a refused caller is told to
	// wait (jitter on Retry-After). Each gets a time of its own, one after the
	// other at the rate of the limit, so that they do not all return at once
	// (thundering herd); beyond the bound, times start over from the earliest.
	// A caller that asks too early is told the time that it was told before. It
	// is known by Caller, if nil by its address, Forwarded, X-Forwarded-For,
	// X-Real-IP, Authorization and User-Agent; on another connection, or by
	// HTTP/2, only a second or more after its latest refusal, as many may share
	// all of these. If zero, a minute; below zero, all are told the earliest time. Times are
	// kept for at most 10,000 keys and 10,000 callers; beyond that those longest
	// without a refusal are forgotten.
	Spread time.Duration
	// Caller tells apart the callers that share a key, such as the processes of
	// one customer: by an address, or a field with an identity. Each is told
	// its fair share of the rate, in a parameter throttle-share of RateLimit, see
	// signal.Signal.Share and limit.Cardinality. The latest 10,000 keys are
	// remembered. If nil, none is told.
	Caller func(*http.Request) string

	// Refuse writes the status and the body of a refusal, instead of the problem
	// document: a page, an envelope of the API's own. The header fields about the
	// limit, such as Retry-After, are set already. The Event says why, and which
	// Status is meant. If nil, the problem document.
	Refuse func(w http.ResponseWriter, r *http.Request, e Event)
	// Error answers requests that the Store could not decide, in place of
	// Refuse. If nil, they are refused with 503 (Service Unavailable), without the cause. To admit them,
	// wrap the Store in store.FailOpen.
	Error func(w http.ResponseWriter, r *http.Request, err error)
	// OnEvent is called with each decision, before Next, in the goroutine of
	// the request. See Counter and Log. If nil, nothing is called.
	OnEvent func(Event)

	own      store.Store    // if there is no Store
	counting store.InFlight // if there is no InFlight
	visits   sync.Pool      // of *visit
	once     sync.Once
	seed     maphash.Seed
	slots    slots
	crowds   crowds
	policies policies
}

var _ http.Handler = (*Handler)(nil)

// ServeHTTP calls Next if the limits admit the request, and refuses it
// otherwise.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v := h.begin(r)
	defer v.end()
	if v.known() {
		v.lost = Refund(r)
	}
	if err := v.decide(); err != nil {
		v.fail(w, err)
		return
	}
	if v.answer.OK && h.Shed != nil {
		v.shed()
	}
	if !v.passes() {
		v.refuse(w)
		return
	}
	v.tell(w.Header(), wait{}, false)
	v.report(0, 0)
	if h.Phase == rules.Before {
		r = v.remember()
	}
	if h.Next == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	h.Next.ServeHTTP(w, r)
	v.whole = true
}

func (h *Handler) store() store.Store {
	if h.Store != nil {
		return h.Store
	}
	h.setUp()
	return h.own
}

func (h *Handler) inFlight() *store.InFlight {
	if h.InFlight != nil {
		return h.InFlight
	}
	return &h.counting
}

func (h *Handler) name() string {
	if h.Name == "" {
		return "default"
	}
	return h.Name
}

// hash hashes a key, differently in each Handler.
func (h *Handler) hash(text string) uint64 {
	h.setUp()
	return maphash.String(h.seed, text)
}

// setUp makes, once, the parts of a Handler that are its own.
func (h *Handler) setUp() {
	h.once.Do(func() { h.seed, h.own = maphash.MakeSeed(), store.InProcess() })
}
