package throttlehttp

import (
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/signal"
)

// Transport is a rate-limited, retrying http.RoundTripper: it paces the
// requests of an http.Client, and retries those refused for load.
//
//	client := http.Client{Transport: new(throttlehttp.Transport)}
//
// All requests of one name, a host unless Name says otherwise, share one
// throttle.Throttle: they wait for their turn there, and it learns the pace
// from the answers. A request is in flight there until the header of its answer has
// come, not until its body is read. For a server that counts open streams, make the
// request and read the body within the Do of another Throttle, with a MaxInFlight.
//
// Retried, subject to the Throttle's policy and never before Retry-After
// (capped by the Throttle's MaxAfter; see also signal.Plausible):
//
//   - 429 (Too Many Requests), and whatever else the signal.Dialect of the host
//     calls throttled, whatever the method: it was not executed.
//   - 503 (Service Unavailable) if it carries a Retry-After, and so was refused
//     on purpose, or if the request may be repeated.
//   - 502, 504, errors of the connection, and whatever carries an X-Should-Retry
//     or Stripe-Should-Retry of true, if the request may be repeated. One of
//     false means that the request is not retried, whatever the status.
//
// A request may be repeated if its method is idempotent (GET, HEAD, OPTIONS,
// TRACE, PUT, DELETE), if it carries an Idempotency-Key, or if Repeat says so.
// One with a body is sent once only, unless GetBody is set, as http.NewRequest
// does for bodies in memory, or MaxRequestBody is. A 429 or 503 whose problem
// document (RFC 9457) has "retryable": false, as that of a request which costs
// more than the limit ever allows, is not retried. All other answers are
// returned unchanged, and so is the last answer of a request that may not be
// retried or has no tries left, its body unread.
//
// Up to 64 KiB of a refusal are read before the next try, so that its
// connection can be reused. Where a body has not arrived half a second after
// the header, the header alone decides and the connection is closed.
//
// When there is no time or no retry budget (throttle.ErrBudget) for another try,
// or the context ends, the error is a *throttle.Error around a *StatusError that
// holds the last answer. All errors are, or hold, a *throttle.Error; see
// MayHaveRun.
//
// The zero value is ready. A Transport is safe for concurrent use; it must not
// be copied, nor its fields changed, after first use.
type Transport struct {
	// Base sends the requests. If nil, http.DefaultTransport; if the program has
	// set that to this Transport, its value at the start of the program. If
	// http.DefaultTransport wraps this Transport, Base must be set: a Base that
	// leads back to the Transport is an error of the request. Base should not
	// retry by itself: layers of retries multiply, see Warn. If Base is, or wraps,
	// another Transport, that inner one paces and learns, but only this one retries.
	Base http.RoundTripper
	// Name returns the name under which a request shares one Throttle with
	// others: a host, a route, a customer. If nil, the host and port of the
	// URL.
	Name func(*http.Request) string
	// Needs returns the scopes that a request is subject to besides the
	// Throttle's own limit, as in throttle.CallOptions: above all those in other
	// units, such as "tokens" with the number of tokens that it is estimated to
	// cost. What an answer says of a policy in another unit than requests, of that
	// name or unit, is for that scope, if its Cost is stated. If nil, there are
	// none; the CallOptions of the request's context count in any case.
	Needs func(*http.Request) []throttle.Need
	// Throttles holds the Throttle of each name, see [throttle.Group]. Its New
	// makes them, and is the place to set what they log and count (OnEvent), a
	// rate that is known (Control) or a limit shared by processes (Fleet). Several
	// Transports may share a Group. If nil, this Transport has its own, of
	// Throttles with the four fields that follow, and zero in all else.
	Throttles *throttle.Group
	// Tries, Retries, Backoff and MaxWait are the fields of that name of the
	// Throttles that this Transport makes itself: see there for what zero means.
	// If Throttles is set, they do not count: its New makes the Throttles.
	Tries   int
	Retries int
	Backoff pace.Backoff
	MaxWait time.Duration
	// MaxRequestBody bounds the bytes of a request's body that are kept in
	// memory where there is no GetBody, so that the request can be retried. The
	// body is read up to that bound before it is sent; a request with a longer
	// one is sent once only. If zero, none is kept.
	MaxRequestBody int64
	// Repeat reports whether a request may be executed twice although its
	// method is not idempotent. If nil, none may.
	Repeat func(*http.Request) bool
	// Dialect returns how the server of a request reports its limits. If nil,
	// or if it returns nil, signal.For the host of the URL.
	Dialect func(*http.Request) *signal.Dialect
	// Bodies reads the beginning of the body, signal.MaxBody bytes, of every
	// answer if the dialect of the host uses it: some servers report throttling
	// only there, with a status such as 200. An answer whose body is read is
	// returned once that much of it has arrived, or half a second after its
	// header. If false, bodies are read only of answers of 400 and above, up to
	// 16 KiB of each, and of answers of GraphQL (a path that ends in /graphql or
	// /graphql.json) that are no streams.
	Bodies bool
	// Warn is called when Base sent one try of a request more than once: r is the
	// request, sent is how many times. Then Base, or something that it wraps,
	// retries by itself, and its retries multiply with those of the Transport: switch
	// them off. It does not count that net/http sends a request again after a reused
	// connection turned out to be closed. Warn is called for each such try, in the
	// goroutine of the request, so it may be called concurrently. If nil, only the
	// first is logged, by slog.Default.
	Warn func(r *http.Request, sent int)

	warned sync.Once
	once   sync.Once      // sets own.New
	own    throttle.Group // if there are no Throttles
	splits splits
}

var _ http.RoundTripper = (*Transport)(nil)

// RoundTrip sends the request when its turn has come, and retries it as the
// Transport describes. It does not modify req, and closes its body in any case.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	c := &call{base: t.base(), req: req, rewinds: rewinds(req), maxBody: t.MaxRequestBody, bodies: t.Bodies, splits: &t.splits, warn: t.warn}
	defer c.close() // also when a function of the program panics
	c.name = t.nameOf(req)
	m := t.enter(c.name)
	defer m.Leave()
	c.repeats, c.dialect = t.repeats(req), t.dialect(req)
	turn := c.begin(m.Throttle())
	defer c.link.over.Store(true)
	if c.link.depth > maxDepth {
		return c.end(errLoop)
	}
	if turn {
		return c.straight()
	}
	var asked []throttle.Need
	if t.Needs != nil {
		asked = t.Needs(req)
	}
	return c.end(c.do(m.Throttle(), asked))
}

// Group returns the Group that holds the Throttles of t: Throttles, or the one of
// its own.
func (t *Transport) Group() *throttle.Group {
	if t.Throttles != nil {
		return t.Throttles
	}
	t.once.Do(func() { t.own.New = t.throttle })
	return &t.own
}

// CloseIdleConnections closes those of Base, if it can. http.Client's method of
// that name calls it.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// original is http.DefaultTransport before a program sets it to a Transport.
var original = http.DefaultTransport

func (t *Transport) base() http.RoundTripper {
	switch {
	case t.Base != nil:
		return t.Base
	case http.DefaultTransport == http.RoundTripper(t):
		return original // not t itself, without end
	}
	return http.DefaultTransport
}

func (t *Transport) dialect(req *http.Request) *signal.Dialect {
	if t.Dialect != nil {
		if d := t.Dialect(req); d != nil {
			return d
		}
	}
	if req.URL == nil {
		return signal.For("")
	}
	return signal.For(req.URL.Hostname())
}

// rewinds reports whether a second try can send what the first one sent.
func rewinds(req *http.Request) bool {
	return req.Body == nil || req.Body == http.NoBody || req.GetBody != nil
}

// repeats reports whether req may be executed twice.
func (t *Transport) repeats(req *http.Request) bool {
	switch req.Method {
	case "", "GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE":
		return true
	}
	// The two names, and their mere presence, are what net/http goes by: one without
	// a value is not sent.
	_, key := req.Header["Idempotency-Key"]
	_, also := req.Header["X-Idempotency-Key"]
	if key || also {
		return true
	}
	return t.Repeat != nil && t.Repeat(req)
}

// nameOf returns the name of the Throttle of req.
func (t *Transport) nameOf(req *http.Request) string {
	switch {
	case t.Name != nil:
		return t.Name(req)
	case req.URL == nil: // Base will complain
		return ""
	}
	return strings.ToLower(req.URL.Host)
}

// enter finds or makes the member of that name, which is kept until Leave.
func (t *Transport) enter(name string) *throttle.Member {
	return t.Group().Enter(name)
}

// throttle makes a Throttle where there are no Throttles.
func (t *Transport) throttle(string) *throttle.Throttle {
	return &throttle.Throttle{Tries: t.Tries, Retries: t.Retries, Backoff: t.Backoff, MaxWait: t.MaxWait}
}
