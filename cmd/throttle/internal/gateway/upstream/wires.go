package upstream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// wires sends requests that have neither a body nor an upgrade, in HTTP/1.1 in plain text.
// An http.Transport, which sends the others, reads and writes each connection in two
// goroutines of its own: for small answers, to wake these takes more processor time than
// all that the gateway does itself.
type wires struct {
	dial    func(ctx context.Context, network, address string) (net.Conn, error)
	timeout time.Duration // for the request and the header of its answer
	others  *http.Transport

	mu    sync.Mutex  // guards what follows
	idle  []*wire     // the one kept last is the last
	timer *time.Timer // closes those that nobody uses; nil if there are none
}

// idleTimeout is how long a connection is kept that nobody uses.
const idleTimeout = 90 * time.Second

// RoundTrip sends a request, and once more, on a new connection, where one that was kept
// turns out to be closed. http.Transport tries each that it has kept: an upstream that a
// request makes close its connections would get it from all of them.
func (w *wires) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil || r.Header["Upgrade"] != nil {
		return w.others.RoundTrip(r)
	}
	l, err := w.get(r.Context())
	if err != nil {
		return nil, err
	}
	a, err := l.exchange(r)
	if err == nil || !l.lost(r, err) {
		return a, err
	}
	wrote := l.wrote
	if l, err = w.connect(r.Context()); err == nil {
		return l.exchange(r)
	}
	if wrote && errors.As(err, new(*Unsent)) { // no: an upstream may have seen it
		err = fmt.Errorf("a kept connection was lost, and then: %v", err)
	}
	return nil, err
}

// get returns a wire that was kept and on which nothing has come since, not even its
// end, or a new one. Its deadline is that for the header of an answer.
func (w *wires) get(ctx context.Context) (*wire, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	for l := w.last(); l != nil; l = w.last() {
		if l.SetDeadline(time.Now().Add(w.timeout)) == nil && l.quiet() {
			return l, nil
		}
		l.Close()
	}
	return w.connect(ctx)
}

// connect returns a new wire.
func (w *wires) connect(ctx context.Context) (*wire, error) {
	c, err := w.dial(ctx, "tcp", "")
	if ctx.Err() != nil { // which is no reason to refund anything, see Unsent
		err = context.Cause(ctx)
	}
	if err != nil {
		if c != nil {
			c.Close()
		}
		return nil, err
	}
	l, err := newWire(w, c)
	if err == nil {
		err = l.SetDeadline(time.Now().Add(w.timeout))
	}
	if err != nil {
		c.Close()
		return nil, &Unsent{err}
	}
	return l, nil
}

// last takes the wire that was kept last; nil if there is none.
func (w *wires) last() *wire {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(w.idle) - 1
	if n < 0 {
		return nil
	}
	l := w.idle[n]
	w.idle[n] = nil
	w.idle = w.idle[:n]
	return l
}

// keep keeps a wire for the next request.
func (w *wires) keep(l *wire) {
	l.kept, l.since = true, time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.idle) >= maxIdle {
		l.Close()
		return
	}
	w.idle = append(w.idle, l)
	if w.timer == nil {
		w.timer = time.AfterFunc(idleTimeout, w.sweep)
	}
}

// sweep closes the wires that nobody has used for long.
func (w *wires) sweep() {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := slices.IndexFunc(w.idle, func(l *wire) bool { return time.Since(l.since) < idleTimeout })
	if n < 0 {
		w.closeLocked()
		return
	}
	for _, l := range w.idle[:n] {
		l.Close()
	}
	w.idle = slices.Delete(w.idle, 0, n)
	w.timer = time.AfterFunc(idleTimeout-time.Since(w.idle[0].since), w.sweep)
}

// CloseIdleConnections closes the wires that carry no request.
func (w *wires) CloseIdleConnections() {
	w.others.CloseIdleConnections()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closeLocked()
}

func (w *wires) closeLocked() {
	for _, l := range w.idle {
		l.Close()
	}
	w.idle = nil
	if w.timer != nil {
		w.timer.Stop()
		w.timer = nil
	}
}
