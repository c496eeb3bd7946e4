package throttlehttp

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/signal"
)

// MayHaveRun reports whether the service may have executed the request for
// which a [Transport], or an http.Client with one, returned a and err, in any of
// its tries. If false, it surely has not: each try was refused for load,
// answered with a 4xx, or never got a connection; there is nothing to undo. It
// looks further than the status of a: a request that was cut off, made again,
// and then refused by 429 may have run.
//
// What is not known counts as may have run: what did not come through a
// Transport, and errors of which an http.Client kept the text only, as it does
// when its Timeout ends. Use the deadline of a context instead.
func MayHaveRun(a *http.Response, err error) bool {
	if err != nil {
		var e *throttle.Error
		return !errors.As(err, &e) || e.MayHaveRun
	}
	if a == nil || a.Request == nil {
		return true
	}
	t, ok := a.Request.Context().Value(trailKey{}).(*trail)
	return !ok || t.mayHaveRun.Load()
}

// trail is what is known about one request, of all its tries, in all Transports
// that it goes through. It travels in the context of the tries.
type trail struct {
	method, path string
	mayHaveRun   atomic.Bool
}

type trailKey struct{}

// trailOf is the trail of req. nested is whether a Transport above has begun it,
// and will retry. A Base makes requests of its own under the same context, for a
// token perhaps; they are told by method and path, as a Base may change the rest.
func trailOf(req *http.Request) (t *trail, nested bool) {
	var path string
	if req.URL != nil {
		path = req.URL.Path
	}
	t, ok := req.Context().Value(trailKey{}).(*trail)
	if ok && t.method == req.Method && t.path == path {
		return t, true
	}
	return &trail{method: req.Method, path: path}, false
}

// tap is what was seen of one try on the wire, by hooks that may be called
// from several goroutines, and late.
type tap struct {
	mu      sync.Mutex
	asked   bool // for a connection
	sent    int  // how often it got one
	answers int
	fresh   bool // the last one was new, and of HTTP/1
	layered bool // a try was made again by something other than net/http
}

// follow is the context of a try that leaves its marks on t and p.
func follow(ctx context.Context, t *trail, p *tap) context.Context {
	return httptrace.WithClientTrace(context.WithValue(ctx, trailKey{}, t), &httptrace.ClientTrace{
		GetConn:              func(string) { p.ask() },
		GotConn:              p.got,
		GotFirstResponseByte: p.answered,
	})
}

// ask notes that a connection is wanted. By itself net/http sends a request
// again only if it got no answer over a connection that had been used before;
// over HTTP/2, also what the server says it did not process.
func (p *tap) ask() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.layered = p.layered || p.fresh
	p.asked, p.fresh = true, false
}

func (p *tap) got(c httptrace.GotConnInfo) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent++
	p.fresh = !c.Reused
	if c, ok := c.Conn.(*tls.Conn); ok && c.ConnectionState().NegotiatedProtocol == "h2" {
		p.fresh = false
	}
}

func (p *tap) answered() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers++
	p.layered = p.layered || p.answers > 1
}

// layers is how often the try was sent, if another layer repeated it; else 0.
func (p *tap) layers() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.layered {
		return 0
	}
	return max(p.sent, p.answers)
}

// broke reports whether a try that ended with err may have been executed. One
// that got no connection was not; a Base that does not tell may have sent it.
func (p *tap) broke(err error) bool {
	var below *throttle.Error
	if errors.As(err, &below) {
		return below.MayHaveRun
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sent > 0 || !p.asked
}

// ran reports whether what was answered so may have been executed. A 503 that
// does not say when to come again may stem from anywhere behind the server.
func ran(status int, r signal.Reading, v pace.Verdict) bool {
	if v == pace.Throttled {
		return status == http.StatusServiceUnavailable && !r.After.OK
	}
	return status < 400 || status > 499
}
