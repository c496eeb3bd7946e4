package gateway

import (
	"context"
	"errors"
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
	g       *Gateway
	route   *route
	carried carried
	cancel  context.CancelFunc
	began   time.Time // zero if nobody wants to know

	peer    netip.Addr // that the connection came from
	client  netip.Addr // behind the trusted proxies
	trust   trust      // in peer
	version *rules.Compiled

	admission *admit.Admission // while it is forwarded; nil if it was not charged
	place     admit.Pass       // of the admission, in load shedding
	pool      *upstream.Pool
	endpoint  *upstream.Endpoint // that serves it
	answer    *http.Response     // its answer, while a ReverseProxy passes it on; nil before
	tried     []*upstream.Endpoint
	aimed     [1]*upstream.Endpoint // the first of them
	upload    *upload               // nil if there is no body
	holds     chan struct{}         // what one is taken from at the end; nil if nothing
	shares    *shares               // where it has a place until the end; nil if nowhere
	trailer   http.Header           // of the request, set at the end of its body
	own       fields
	says      [4]string // to the upstream: the client, the chain, the host, the protocol
	status    int
	cleared   bool // the ReverseProxy has cleared the header after a 1xx answer
	early     int  // how many 1xx answers there were
	old       bool // the caller speaks HTTP/1.0, in which there are no 1xx answers
	chunks    bool // the caller speaks HTTP/1.1, in which only chunks have trailers
	duplex    bool // its answer may begin before its body ends, in HTTP/1
	tunnel    bool
	streams   bool
	served    *Served // nil if nobody wants to know

	flooded atomic.Bool  // there were too many 1xx answers
	reads   atomic.Bool  // it waits for the caller, who sends the body
	whole   atomic.Bool  // all of the body was read
	answers atomic.Bool  // the answer has begun
	last    atomic.Int64 // when something moved, since the start of the Gateway
	sends   stopwatch    // for the caller, who sends the body
	takes   stopwatch    // for the caller, who reads the answer
	before  *exchange    // in the list of its route, and after; guarded by it
	after   *exchange
	watched bool

	mu      sync.Mutex // guards what follows
	ended   bool
	cut     bool
	starved bool        // it was cut while it waited for the caller
	asked   *time.Timer // of the next yield; nil: none
	waited  int64       // for the caller, until the last yield
	asks    int         // how many yields there were since the answer began
}

// trust is whether a proxy is trusted: not asked yet, no, or yes.
type trust uint8

// carried is the context of the request, which carries its exchange.
type carried struct {
	context.Context
	x *exchange
}

type exchangeKey struct{}

// Value returns the exchange, or what the context has.
func (c *carried) Value(key any) any {
	if key == (exchangeKey{}) {
		return c.x
	}
	return c.Context.Value(key)
}

func exchangeOf(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
}

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

// maxEarly bounds the 1xx answers before an answer, which net/http leaves to those who
// pass them on.
const maxEarly = 32

// WriteHeader writes the status of an answer, or of one that goes before it.
func (x *exchange) WriteHeader(status int) {
	h := x.Header()
	if status < 200 && status != http.StatusSwitchingProtocols {
		for _, f := range x.own.all[:x.own.n] {
			delete(h, f.name)
		}
		x.cleared = true
		if x.early++; x.early > maxEarly {
			x.flooded.Store(true)
			x.giveUp()
			return
		}
		if !x.old { // which would take it for the answer
			x.ResponseWriter.WriteHeader(status)
		}
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
	if _, typed := h["Content-Type"]; !typed && x.answer != nil {
		h["Content-Type"] = nil // else net/http guesses one from the body
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
	if x.duplex && !x.whole.Load() && status != http.StatusSwitchingProtocols {
		// Else net/http reads the rest of the body beside what it waits for next on the
		// connection, and dies of that (golang/go#68560).
		x.Header()["Connection"] = []string{"close"}
	}
	if lines := x.Header()["Content-Type"]; len(lines) > 0 && !x.streams {
		x.streams = isEventStream(lines[0])
	}
	x.watch()
	x.lasts()
	x.answers.Store(true)
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
	x.takes.begin(x.g.now())
	n, err := x.ResponseWriter.Write(p)
	x.takes.end(x.moved())
	return n, err
}

// moved notes that the exchange is alive, and returns the time since the start.
func (x *exchange) moved() int64 {
	now := x.g.now()
	x.last.Store(now)
	return now
}

// watch cuts the exchange once nothing has moved for long, from now.
func (x *exchange) watch() {
	if x.route == nil || x.route.idle <= 0 {
		return
	}
	x.moved()
	if !x.watched {
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
	x.cut, x.starved = true, x.reads.Load()
	x.cancel() // net/http does not, where a byte of the next request has come
	c := http.NewResponseController(x.ResponseWriter)
	past := time.Unix(1, 0)
	_ = c.SetReadDeadline(past)
	if x.answers.Load() { // else it is told why
		_ = c.SetWriteDeadline(past)
	}
}

// late reports whether the exchange was cut.
func (x *exchange) late() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.cut
}

// stalls reports whether the exchange was cut as its caller did not go on sending.
func (x *exchange) stalls() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.starved
}

// stop ends the watch, and what the exchange holds of the upstream.
func (x *exchange) stop() {
	if x.watched {
		x.route.watch.remove(x)
	}
	x.mu.Lock()
	if x.ended = true; x.asked != nil {
		x.asked.Stop()
	}
	x.mu.Unlock()
	if x.endpoint != nil {
		x.endpoint.Release()
		x.endpoint = nil
	}
	if x.tunnel {
		x.g.tunnels.Add(-1)
	}
	x.cancel()
	if x.holds != nil {
		<-x.holds
	}
	if x.shares != nil {
		x.shares.give(x.pool)
	}
}

// leave bounds the time in which net/http reads what is left of the body, for the
// sake of the next request: its caller may never send it. A drain outlasts that. Where
// the connection ends instead, as much time is left for what the caller still sends.
func (x *exchange) leave() {
	if x.tunnel || x.late() {
		return
	}
	most := x.g.restTimeout()
	_ = http.NewResponseController(x.ResponseWriter).SetReadDeadline(time.Now().Add(most)) // not all writers have it
	if c, _ := x.carried.Value(connKey{}).(*conn); c != nil && (x.chunks || x.old) && !x.whole.Load() {
		c.rest.Store(int64(most))
	}
}

// tunnel is a connection that was upgraded, as to WebSocket.
type tunnel struct {
	io.ReadWriteCloser
	x *exchange
}

// Read reads from the upstream.
func (t *tunnel) Read(p []byte) (int, error) {
	n, err := t.ReadWriteCloser.Read(p)
	t.x.moved()
	return n, err
}

// Write writes to the upstream.
func (t *tunnel) Write(p []byte) (int, error) {
	n, err := t.ReadWriteCloser.Write(p)
	t.x.moved()
	return n, err
}

// CloseWrite tells the upstream that nothing follows: what it sends still passes.
func (t *tunnel) CloseWrite() error {
	if half, ok := t.ReadWriteCloser.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}
