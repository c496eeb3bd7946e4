package gateway

import (
	"context"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/gateway/upstream"
	"github.com/throttle-go/throttle/rules"
)

// exchange is one request and its answer. It is the http.ResponseWriter that the
// Handler and the ReverseProxy see, and what the context of the request carries.
// Every byte of it is taken for every request.
type exchange struct {
	http.ResponseWriter
	g      *Gateway
	route  *route
	ctx    context.Context
	turn   *turn              // of its connection, which leads to it; nil if there is none
	cancel context.CancelFunc // nil if there is no body to give up
	began  time.Time          // zero if nobody wants to know

	peer    netip.Addr // that the connection came from
	client  netip.Addr // behind the trusted proxies
	trust   trust      // in peer
	version *rules.Compiled

	admission *admit.Admission // while it is forwarded; nil if it was not charged
	pool      *upstream.Pool
	endpoint  *upstream.Endpoint // that serves it
	answer    *http.Response     // its answer, while a ReverseProxy passes it on; nil before
	tried     []*upstream.Endpoint
	aimed     [1]*upstream.Endpoint // the first of them
	upload    *upload               // nil if there is no body
	trailer   http.Header           // of the request, set at the end of its body
	own       fields
	says      [4]string // to the upstream: the client, the chain, the host, the protocol
	status    int
	cleared   bool // the ReverseProxy has cleared the header after a 1xx answer
	tunnel    bool
	streams   bool
	served    *Served // nil if nobody wants to know

	answers atomic.Bool // the answer has begun
	moves   atomic.Bool // something has moved since the last look
	before  *exchange   // in the list of its route, and after; guarded by it
	after   *exchange
	moved   time.Time // as of the last look; guarded by the list
	watched bool

	mu    sync.Mutex // guards what follows
	ended bool
	cut   bool
}

// trust is whether a proxy is trusted: not asked yet, no, or yes.
type trust uint8

// turn is in the context of a connection: the exchange of the request that it is
// the turn of, as HTTP/1 serves one after the other. It saves each request a copy of
// the http.Request, which a context of its own would take.
type turn struct {
	x    *exchange
	peer netip.Addr // the other end, once a request has come
}

type turnKey struct{}

// comes returns r with a context that leads to x, the same if there is one.
func (x *exchange) comes(r *http.Request) *http.Request {
	t, _ := x.ctx.Value(turnKey{}).(*turn)
	if t != nil && r.ProtoMajor == 1 && x.cancel == nil {
		t.x, x.turn = x, t
		return r
	}
	return r.WithContext(context.WithValue(x.ctx, turnKey{}, &turn{x: x}))
}

// exchangeOf returns the exchange of a request, for what serves it: while the
// Gateway does, and in the goroutine in which it does.
func exchangeOf(ctx context.Context) *exchange { return ctx.Value(turnKey{}).(*turn).x }

// Unwrap is for http.ResponseController.
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// fields are the header fields of the gateway's own, which an upstream neither
// removes nor replaces.
type fields struct {
	all [5]struct {
		name  string
		lines []string
	}
	n int
}

// keep remembers the fields that are set already.
func (f *fields) keep(h http.Header) {
	for name, lines := range h {
		if f.n < len(f.all) {
			f.all[f.n].name, f.all[f.n].lines = name, lines
			f.n++
		}
	}
}

// lists reports whether the values of an upstream may follow ours.
func lists(name string) bool { return name == "Ratelimit" || name == "Ratelimit-Policy" }

// WriteHeader writes the status of an answer, or of one that goes before it.
func (x *exchange) WriteHeader(status int) {
	h := x.Header()
	if status < 200 && status != http.StatusSwitchingProtocols {
		for _, f := range x.own.all[:x.own.n] {
			delete(h, f.name)
		}
		x.cleared = true
		x.ResponseWriter.WriteHeader(status)
		return
	}
	for _, f := range x.own.all[:x.own.n] {
		switch {
		case !lists(f.name):
			h[f.name] = f.lines
		case x.cleared:
			h[f.name] = append(f.lines[:len(f.lines):len(f.lines)], h[f.name]...)
		}
	}
	x.begins(status)
	x.ResponseWriter.WriteHeader(status)
	if x.answer != nil && !x.streams { // copied already; else ReverseProxy parses it only to learn that
		delete(x.answer.Header, "Content-Type")
	}
}

// begins notes that the answer begins.
func (x *exchange) begins(status int) {
	x.status = status
	x.answers.Store(true)
	if lines := x.Header()["Content-Type"]; len(lines) > 0 && !x.streams {
		x.streams = isEventStream(lines[0])
	}
	x.watch()
}

// isEventStream reports whether a Content-Type is that of server-sent events, with
// parameters or without. It may say so of a few others too.
func isEventStream(text string) bool {
	const name = "text/event-stream"
	text = strings.TrimSpace(text)
	return len(text) >= len(name) && strings.EqualFold(text[:len(name)], name)
}

// Write writes a part of the answer.
func (x *exchange) Write(p []byte) (int, error) {
	if x.status == 0 {
		x.begins(http.StatusOK)
	}
	n, err := x.ResponseWriter.Write(p)
	x.moving()
	return n, err
}

// moving notes that the exchange is alive.
func (x *exchange) moving() { x.moves.Store(true) }

// watch cuts the exchange once nothing has moved for long.
func (x *exchange) watch() {
	if x.route != nil && x.route.idle > 0 && !x.watched {
		x.moving()
		x.route.watch.add(x)
	}
}

// giveUp cuts the exchange: whatever it waits for ends with an error.
func (x *exchange) giveUp() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ended {
		return
	}
	x.cut = true
	if x.cancel != nil {
		x.cancel()
	}
	c := http.NewResponseController(x.ResponseWriter)
	past := time.Unix(1, 0)
	_ = c.SetReadDeadline(past) // the server then cancels the context of the request
	if x.answers.Load() {       // else it is told why
		_ = c.SetWriteDeadline(past)
	}
}

// late reports whether the exchange was cut.
func (x *exchange) late() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.cut
}

// stop ends the watch, and what the exchange holds of the upstream.
func (x *exchange) stop() {
	if x.watched {
		x.route.watch.remove(x)
	}
	x.mu.Lock()
	x.ended = true
	x.mu.Unlock()
	if x.endpoint != nil {
		x.endpoint.Release()
		x.endpoint = nil
	}
	if x.tunnel {
		x.g.tunnels.Add(-1)
	}
	if x.cancel != nil {
		x.cancel()
	}
	if x.turn != nil {
		x.turn.x = nil // a connection may be idle for long
	}
}

// leave bounds the time in which net/http reads what is left of the body, for the
// sake of the next request: its caller may never send it. A drain outlasts that.
func (x *exchange) leave() {
	if x.tunnel || x.late() {
		return
	}
	most := min(x.g.headerTimeout(), x.g.drainTimeout()/2)
	_ = http.NewResponseController(x.ResponseWriter).SetReadDeadline(time.Now().Add(most)) // not all writers have it
}

// upload is the body of a request on its way to an upstream.
type upload struct {
	io.ReadCloser
	x       *exchange
	in, out http.Header // the trailers
	touched atomic.Bool
	done    atomic.Bool // all was read, or it failed
	broken  atomic.Bool // it failed
}

// Read reads from the caller.
func (u *upload) Read(p []byte) (int, error) {
	u.touched.Store(true)
	n, err := u.ReadCloser.Read(p)
	u.x.moving()
	if err != nil {
		u.broken.Store(err != io.EOF)
		u.done.Store(true)
	}
	if err == io.EOF {
		for name, lines := range u.in { // set only now
			if u.x.trails(name) {
				u.out[name] = lines
			}
		}
	} else if err != nil {
		err = &upstream.Callers{Err: err}
	}
	return n, err
}

// Close leaves the body open for another upstream, if nothing was read of it.
func (u *upload) Close() error { return nil }

// tunnel is a connection that was upgraded, as to WebSocket.
type tunnel struct {
	io.ReadWriteCloser
	x *exchange
}

// Read reads from the upstream.
func (t *tunnel) Read(p []byte) (int, error) {
	n, err := t.ReadWriteCloser.Read(p)
	t.x.moving()
	return n, err
}

// Write writes to the upstream.
func (t *tunnel) Write(p []byte) (int, error) {
	n, err := t.ReadWriteCloser.Write(p)
	t.x.moving()
	return n, err
}
