package throttlehttp

import (
	"net/http"
	"strings"
	"sync"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/signal"
)

// Transport paces the requests of an http.Client, and makes those again that
// were refused for load:
//
//	client := http.Client{Transport: new(Transport)}
//
// All requests of one scope, a host unless told otherwise, share one
// throttle.Throttle: they wait their turn there, and what each answer says
// teaches it the pace.
//
// What is made again, as often and as late as the Throttle decides but never
// before the server's Retry-After (up to signal.MaxBelieved; see signal.MaxDoubted):
//
//   - 429 (Too Many Requests), and what else the signal.Dialect of the host calls
//     throttled, whatever the method: it was not executed.
//   - 503 (Service Unavailable) if it carries a Retry-After, and thus was
//     refused on purpose, or if the request may be repeated.
//   - 502, 504 and errors of the connection, if the request may be repeated, and
//     whatever carries an X-Should-Retry or Stripe-Should-Retry of true. One of
//     false means that the request is not made again, whatever the status.
//
// A request may be repeated if its method is idempotent (GET, HEAD, OPTIONS,
// TRACE, PUT, DELETE), if it carries an Idempotency-Key, or if Repeat says so.
// One with a body is made once only, unless GetBody is set, as
// http.NewRequest does for bodies in memory. All other answers are returned as
// they are, and so is the last answer of a request that is not made again, or
// has no tries left, its body unread.
//
// Of a refusal up to 64 KiB are read before the next try, so that its
// connection can be used again; the request's context bounds that too.
//
// When there is no time for another try, or the context ends, the error is a
// *throttle.Error around a *StatusError that holds the last answer. All errors
// are, or hold, a *throttle.Error; see MayHaveRun.
//
// The zero value is ready. A Transport is safe for concurrent use; its fields
// must not change once it is used.
type Transport struct {
	// Base makes the requests. If nil, http.DefaultTransport. It should not
	// retry by itself: layers of retries multiply, see Warn. If it is, or leads
	// to, another Transport, that one paces and learns, but only this one makes
	// requests again.
	Base http.RoundTripper
	// Name names what shares one limit with this request: a host, a route, an
	// account. If nil, the host and port of the URL.
	Name func(*http.Request) string
	// Needs are limits that a request comes under besides that of its scope, as
	// in throttle.CallOptions: in other units above all, as "tokens" with the number
	// of tokens that it is estimated to cost. What the answers say of a policy of
	// that name or unit is for that limit. If nil, none; the Terms of the
	// request's context count in any case.
	Needs func(*http.Request) []throttle.Need
	// Throttles are those of all names: see [throttle.Group]. Its New makes one, and
	// is the place to set hooks for logs and metrics. Several Transports may share a
	// Group. If nil, one of this Transport's own, of zero Throttles: requests that are
	// throttled are retried until their context ends.
	Throttles *throttle.Group
	// Repeat says of a request that is not idempotent by its method that it
	// may be executed twice nevertheless. If nil, none may.
	Repeat func(*http.Request) bool
	// Dialect is how the server of a request speaks of its limits. If nil, or
	// if it returns nil, signal.For the host of the URL.
	Dialect func(*http.Request) *signal.Dialect
	// Bodies lets the beginning of bodies, signal.MaxBody bytes, be looked at
	// too, of all answers where the dialect of the host makes use of them: some
	// say there alone that they throttle, with a status such as 200. Such an
	// answer is returned once so much of it has come. If false, that is so for
	// answers of 400 and above, 16 KiB of them at most, and for those to GraphQL
	// (a path that ends in /graphql or /graphql.json) that are no streams.
	Bodies bool
	// Warn is told when a layer underneath sends more than it is given: one try
	// of r was sent so many times. As a rule Base retries by itself, and retries
	// multiply. What net/http sends again over a connection that had gone stale
	// does not count. If nil, the first such request is logged by slog.Default.
	Warn func(r *http.Request, sent int)

	warned sync.Once
	own    throttle.Group // if there are no Throttles
	splits splits
}

var _ http.RoundTripper = (*Transport)(nil)

// RoundTrip makes the request, when its turn has come, and again if need be.
// It does not modify req, and closes its body in any case.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	name := t.scopeOf(req)
	s := t.enter(name)
	defer s.Leave()
	c := &call{base: t.base(), req: req, rewinds: rewinds(req), repeats: t.repeats(req)}
	c.dialect, c.bodies, c.splits, c.scope, c.warn = t.dialect(req), t.Bodies, &t.splits, name, t.warn
	if c.begin(s.Throttle()) {
		return c.straight()
	}
	var asked []throttle.Need
	if t.Needs != nil {
		asked = t.Needs(req)
	}
	return c.end(s.Throttle().DoResult(c.terms(req.Context(), asked), c.try))
}

// CloseIdleConnections closes those of Base, if it knows how to. It is what
// http.Client.CloseIdleConnections calls.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

func (t *Transport) base() http.RoundTripper {
	if t.Base == nil {
		return http.DefaultTransport
	}
	return t.Base
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
	// The two names, and their mere presence, are what net/http goes by.
	if req.Header["Idempotency-Key"] != nil || req.Header["X-Idempotency-Key"] != nil {
		return true
	}
	return t.Repeat != nil && t.Repeat(req)
}

func (t *Transport) scopeOf(req *http.Request) string {
	switch {
	case t.Name != nil:
		return t.Name(req)
	case req.URL == nil: // Base will complain
		return ""
	}
	return strings.ToLower(req.URL.Host)
}

// enter finds or makes the scope of that name, which stays until it is left.
func (t *Transport) enter(name string) *throttle.Member {
	if t.Throttles != nil {
		return t.Throttles.Enter(name)
	}
	return t.own.Enter(name)
}
