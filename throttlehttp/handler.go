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

// Handler limits how often Next is called: by one Limit, or by Rules, and by what
// the service can do. What is refused is answered with the time to come again
// and a problem document (RFC 9457): by 429 (Too Many Requests) when the caller
// has used up its own, by 503 (Service Unavailable) when the service has no room,
// by 403 when a list says so, by 400 when a part of a key is missing that a rule
// wants. The zero value lets everything pass.
//
// The fields must not change once requests come in, and a Handler must not be
// copied after that. It is safe for concurrent use if what its fields hold is. It
// starts no goroutine. The http.ResponseWriter is handed on as it is, so that
// Next may flush, hijack and push; what is counted as under way is until Next
// returns, or panics.
type Handler struct {
	// Next serves what passes. If nil, that is an empty 204: a way to ask
	// whether something would pass.
	Next http.Handler
	// Store remembers who has used how much. If nil, a memory.Store of
	// this Handler's own.
	Store store.Store

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

	// Rules are instead of Limit, LimitFor, Key, Cost and Name. They may be
	// swapped at any time. If nil, there are none.
	Rules *rules.Live
	// Fill completes what the rules look at: Value and Cost, and what else the
	// program knows better. All else is filled in already: the address is that
	// of rules.ClientAddress behind the proxies that the rules trust, the Client
	// that of the function. If nil, nothing is added.
	Fill func(*http.Request, rules.Request) rules.Request
	// InFlight counts what is under way, for rules with in_flight. If nil, one
	// of this Handler's own.
	InFlight *store.InFlight

	// Client is the identity that was authenticated; empty if it is not known.
	// For who is known, what Handlers of the Phase rules.Before took is given
	// back, and the rules see the Client. If nil, nobody is known.
	Client func(*http.Request) string
	// Phase is rules.Before for a Handler in front of the authentication. It
	// asks only the rules of that phase, and remembers in the context of the
	// request what it took: see GiveBack. If rules.After, it asks the other
	// rules; if empty, all.
	Phase rules.Phase

	// Shed protects Next from more than it can do: what does not fit waits for
	// a moment, or is refused by 503 and not charged. If nil, everything that
	// may pass goes to Next at once. The lowest Priority is shed first. Streams
	// and connections that are taken over belong behind another Handler: they
	// would teach it that requests take long.
	Shed *admit.Shedder
	// Priority returns the priority of a request for Shed. Zero counts as
	// load.Normal. If nil, it is that of the rules, load.Normal if there are
	// none.
	Priority func(*http.Request) load.Priority
	// Degraded answers, instead of a refusal by 429 or 503, with less than what
	// was asked for: what is in a cache, a shorter list. Why tells it the
	// reason. It is not limited. If nil, such requests are refused.
	Degraded http.Handler

	// Headers is what callers are told. If zero, Draft.
	Headers Headers
	// RetryAfterMs adds Retry-After-Ms to Retry-After, in milliseconds, as the
	// clients of Azure and OpenAI read it, and promises times to the
	// millisecond: for callers that all read it.
	RetryAfterMs bool
	// Spread bounds how much longer than necessary a refused caller is told
	// to wait. Each gets a time of its own at which there will be room, one
	// after the other at the rate of the limit, so that they do not all come
	// back at once; beyond the bound times are given anew from the start. If
	// zero, a minute; below zero, all are told the earliest time. The keys for
	// which times are promised are 10,000 at most; beyond that, those refused
	// least lately are forgotten.
	Spread time.Duration
	// Caller tells apart those who share a key, as processes of one customer:
	// an address, a field with an identity. Each is told its fair part of the
	// rate, in a parameter share of RateLimit, see signal.Signal.Share and
	// limit.Cardinality. Of 10,000 keys, the last that came. If nil, none is told.
	Caller func(*http.Request) string

	// Error answers when the Store could not decide. If nil, the request is
	// refused with 503 (Service Unavailable), without the cause. To let such
	// requests pass, wrap the Store in store.FailOpen.
	Error func(w http.ResponseWriter, r *http.Request, err error)
	// OnEvent is told of each request once it is decided, before Next is called, in
	// the goroutine of the request. See Counts and Log. If nil, nobody is told.
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

// ServeHTTP calls Next if the limits allow, and otherwise refuses.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v := h.begin(r)
	defer v.end()
	if v.known() {
		v.lost = GiveBack(r)
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
	v.tell(w.Header(), 0, false)
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

// hash is of a key, different in each Handler.
func (h *Handler) hash(text string) uint64 {
	h.setUp()
	return maphash.String(h.seed, text)
}

// setUp makes, once, what a Handler has of its own.
func (h *Handler) setUp() {
	h.once.Do(func() { h.seed, h.own = maphash.MakeSeed(), store.InProcess() })
}
