package throttlehttp

// Layers of retries multiply: 3 tries above 6 make 18 requests of one. This file
// finds them. Transports that are nested know of each other by the context of a
// request: only the upper one retries, and both learn. Other layers underneath are
// seen on the wire, by hooks of net/http/httptrace, and reported to Transport.Warn.
// What was seen on the wire also says whether a request may have been executed.

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/signal"
)

// MayHaveRun reports whether the service may have executed the request for which
// a [Transport], or an http.Client with one, returned a and err, in any of its
// tries. If false, it certainly has not: each try was refused for load, answered
// with a 4xx, or never got a connection; there is nothing to undo. It considers
// more than the status of a: a request that was cut off, retried, and then
// refused by 429 may have run, as may one that was answered by a redirect.
//
// It is true if unknown: for an answer that did not come through a Transport,
// and for an error of which an http.Client kept only the text, as it does when its
// Timeout ends. Use the deadline of a context instead.
func MayHaveRun(a *http.Response, err error) bool {
	if err != nil {
		var e *throttle.Error
		return !errors.As(err, &e) || e.MayHaveRun
	}
	if a == nil || a.Request == nil {
		return true
	}
	l, ok := a.Request.Context().Value(linkKey{}).(*link)
	return !ok || l.mayHaveRun.Load()
}

// trail is what is known of one request, of all its tries, in all Transports
// that it passes.
type trail struct {
	method, path string
	mayHaveRun   atomic.Bool
}

// link is one Transport that a request is in. It travels in the context of the
// tries.
type link struct {
	*trail
	throttle *throttle.Throttle // where it waited for its turn
	above    *link              // nil: none
	depth    int                // how many are above
	over     atomic.Bool        // RoundTrip has returned; the context lives on in the answer's Request
}

type linkKey struct{}

// maxDepth bounds the Transports that a request is in: beyond it they are the same
// ones again, as where http.DefaultTransport wraps a Transport that has no Base.
const maxDepth = 32

var errLoop = errors.New("throttlehttp: the Base of a Transport leads back to it; set it to what sends the requests, such as an http.Transport")

// begin begins the trail of c, which is to wait at t, or joins that of a
// Transport above, which will retry. A Base may send requests of its own with
// the same context, for a token perhaps; they are distinguished by method and
// path, as a Base may change the rest. A link that is over is none: a caller may
// send the next request with the context of an answer's Request. turn reports
// that it is the turn of c already, as a Transport above has waited at t: waiting
// again might be waiting for itself.
func (c *call) begin(t *throttle.Throttle) (turn bool) {
	var path string
	if c.req.URL != nil {
		path = c.req.URL.Path
	}
	l, _ := c.req.Context().Value(linkKey{}).(*link)
	if l == nil || l.over.Load() || l.method != c.req.Method || l.path != path {
		c.link = &link{trail: &trail{method: c.req.Method, path: path}, throttle: t}
		c.note(c.req.Response != nil) // an http.Client follows a redirect, which answered what it was asked for
		return false
	}
	c.nested, c.rewinds = true, false
	c.link = &link{trail: l.trail, throttle: t, above: l, depth: l.depth + 1}
	for ; l != nil; l = l.above {
		turn = turn || l.throttle == t
	}
	return turn
}

// adopt adds what a Transport underneath knows of its own tries, where it did not
// find c, as the Base changes the path or method: it may have retried. MayHaveRun
// goes by the context of the answer's Request, which then is to lead to c.
func (c *call) adopt() {
	ctx := c.answer.Request.Context()
	if l, ok := ctx.Value(linkKey{}).(*link); ok && l.trail != c.link.trail {
		c.note(l.mayHaveRun.Load())
		c.answer.Request = c.answer.Request.WithContext(context.WithValue(ctx, linkKey{}, c.link))
	}
}

// straight sends the request without waiting, as it is its turn already.
func (c *call) straight() (*http.Response, error) {
	c.try(c.req.Context()) // its Result is for a Throttle
	c.ended = true
	return c.answer, c.err
}

// tap is what was seen of one try on the wire, by hooks that may be called from
// several goroutines, and late.
type tap struct {
	mu      sync.Mutex
	asked   bool // for a connection
	sent    int  // how often it got one
	answers int
	reused  bool // the last one had been used before
	onWire  bool // the last one is of HTTP/1, and was written to
	resent  bool // the try was sent again after it may have been executed
	layered bool // a try was retried by something other than net/http
}

// follow returns the context of a try that records what it sees in l and p.
func follow(ctx context.Context, l *link, p *tap) context.Context {
	return httptrace.WithClientTrace(context.WithValue(ctx, linkKey{}, l), &httptrace.ClientTrace{
		GetConn:              func(string) { p.ask() },
		GotConn:              p.got,
		WroteHeaderField:     p.wrote,
		GotFirstResponseByte: p.answered,
	})
}

// ask records that a connection is wanted. By itself net/http sends a request
// again only if it got no answer over a connection that had been used before;
// over HTTP/2, also what the server says it did not process.
func (p *tap) ask() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.resent = p.resent || p.onWire
	p.layered = p.layered || p.onWire && !p.reused
	p.asked, p.onWire = true, false
}

func (p *tap) got(c httptrace.GotConnInfo) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent++
	p.reused, p.onWire = c.Reused, false
}

// wrote hears of each field that is written: in HTTP/1 the first is Host, which
// HTTP/2 does not have, with TLS or without.
func (p *tap) wrote(name string, _ []string) {
	if strings.EqualFold(name, "Host") {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.onWire = true
	}
}

func (p *tap) answered() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers++
	again := p.answers > 1
	p.resent, p.layered = p.resent || again, p.layered || again
}

// layers returns how often the try was sent, if another layer retried it; else
// 0.
func (p *tap) layers() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.layered {
		return 0
	}
	return max(p.sent, p.answers)
}

// warn reports a layer underneath that sends more than it is given.
func (t *Transport) warn(r *http.Request, sent int) {
	if t.Warn != nil {
		t.Warn(r, sent)
		return
	}
	t.warned.Do(func() {
		slog.Warn("throttlehttp: a layer underneath sends more than it is given; switch its retries off", "method", r.Method, "host", r.URL.Host, "sent", sent)
	})
}

// broke reports whether a try that ended with err may have been executed. One
// that got no connection was not; a Base without hooks may have sent it.
func (p *tap) broke(ctx context.Context, err error) bool {
	if e := below(ctx, err); e != nil {
		return e.MayHaveRun
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sent > 0 || !p.asked
}

// below returns the Error of a Throttle underneath that err holds; nil if there is
// none. One that err holds as it is the Cause of ctx is of another call, which
// cancelled this one, as in an errgroup.
func below(ctx context.Context, err error) *throttle.Error {
	var e, cause *throttle.Error
	if errors.As(err, &e) && !(errors.As(context.Cause(ctx), &cause) && cause == e) {
		return e
	}
	return nil
}

// ranBefore reports whether the try may have been executed before it got its last
// answer, as net/http or another layer underneath sent it again.
func (p *tap) ranBefore() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.resent
}

// unsendable reports whether the last try ended as no Base sends the request, or
// as it is malformed and net/http does not send it. That goes by the text of net/http, as there is no
// other sign: a protocol that was registered with an http.Transport may send
// without hooks.
func (c *call) unsendable() bool {
	if errors.Is(c.err, errLoop) {
		return true
	}
	base := c.base
	for t, ok := base.(*Transport); ok; t, ok = base.(*Transport) {
		base = t.base()
	}
	if _, ok := base.(*http.Transport); !ok || !c.tap.unasked() {
		return false
	}
	text := c.err.Error()
	for _, refusal := range [...]string{
		"http: nil Request.URL", "http: nil Request.Header", "http: no Host in request URL", "unsupported protocol scheme",
		"net/http: invalid method", "net/http: invalid header", "net/http: invalid trailer",
	} {
		if strings.HasPrefix(text, refusal) {
			return true
		}
	}
	return false
}

// unasked reports whether no connection was asked for.
func (p *tap) unasked() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.asked && p.sent == 0
}

// ran reports whether what was answered so may have been executed. A 503 that
// does not say when to come again may stem from anywhere behind the server, and of
// an answer to GraphQL that refuses for good a part was executed.
func ran(status int, r signal.Reading, v pace.Verdict) bool {
	switch {
	case status == http.StatusServiceUnavailable:
		return !r.Asked
	case v == pace.Throttled:
		return status < 400 && r.Permanent
	}
	return status < 400 || status > 499
}
