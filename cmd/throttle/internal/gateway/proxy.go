package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/gateway/upstream"
)

// maxTries bounds the addresses that are tried for a request, of which all but
// the last could not be connected to.
const maxTries = 4

// proxy returns what passes requests on. It keeps nothing of a request, and one
// serves all routes.
func (g *Gateway) proxy() *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite:      func(p *httputil.ProxyRequest) { exchangeOf(p.In.Context()).rewrite(p) },
		Transport:    roundTripper{},
		BufferPool:   new(buffers),
		ErrorLog:     slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo), // see ErrorHandler
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) { exchangeOf(r.Context()).fail(err) },
	}
}

// forward passes the request on to an upstream of pool. a is nil where nothing
// was charged.
func (x *exchange) forward(r *http.Request, pool *upstream.Pool, a *admit.Admission) {
	if x.pool, x.admission = pool, a; a != nil {
		x.place = a.Pass()
	}
	x.own.keep(x.Header())
	if r.ContentLength != 0 {
		x.watch()
		x.lasts()
		// Without it net/http reads the rest of the body before it lets an answer
		// begin, which is not for a proxy to wait for. Not all writers have it.
		x.duplex = http.NewResponseController(x.ResponseWriter).EnableFullDuplex() == nil && r.ProtoMajor == 1
	}
	if simple(r) {
		x.direct(r)
	} else {
		x.g.reverse.ServeHTTP(x, r)
	}
	if a != nil && (x.tunnel || x.streams) {
		a.Forget() // it took long for a reason of its own
	}
}

// rewrite completes what is sent to the upstream. The query is as the caller wrote it:
// ReverseProxy takes away what package url does not read, as in ?q=100% and ?a=1;b=2, for
// proxies that decide by the query.
func (x *exchange) rewrite(p *httputil.ProxyRequest) {
	p.Out.URL.RawQuery = p.In.URL.RawQuery
	x.state(p.Out.Header, p.In)
}

// state puts what the gateway says of a request in into h, the header for the
// upstream. The fields that only a proxy may set are gone already, and those of
// Connection; what is set here can not be removed by the caller any more.
func (x *exchange) state(h http.Header, in *http.Request) {
	say := &x.says
	if x.client.IsValid() {
		say[0] = x.client.String()
		if say[1] = say[0]; x.client != x.peer {
			say[1] += ", " + x.peer.String() // and nothing that the client wrote
		}
		h["X-Real-Ip"], h["X-Forwarded-For"] = say[:1:1], say[1:2:2]
	}
	say[2], say[3] = in.Host, "http"
	if in.TLS != nil {
		say[3] = "https"
	}
	h["X-Forwarded-Host"], h["X-Forwarded-Proto"] = say[2:3:3], say[3:]
	for _, name := range [...]string{"X-Forwarded-Proto", "X-Forwarded-Host"} { // there if they come from a proxy that is trusted
		if lines := in.Header[name]; len(lines) == 1 {
			h[name] = lines
		}
	}
	for _, b := range x.g.names {
		if lines, ok := in.Header[b]; ok {
			h[b] = lines
		}
	}
}

// roundTripper sends requests to the upstreams of their exchanges.
type roundTripper struct{}

// RoundTrip sends a request, and to the next upstream if one cannot be connected
// to and nothing of the body was read, and to any if one has refused it unprocessed
// and the body can be sent again. It is never sent again where an upstream
// may have processed it, except that its Endpoint repeats requests without a body, by GET,
// HEAD, OPTIONS and TRACE or with an Idempotency-Key, where a kept connection was
// closed before the answer began.
func (roundTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	x := exchangeOf(r.Context())
	if r.Body != nil {
		ctx, abandon := context.WithCancel(r.Context())
		x.upload = &upload{ReadCloser: r.Body, x: x, in: x.trailer, out: r.Trailer, abandon: abandon}
		r = r.WithContext(ctx)
		r.Body = x.upload
	}
	x.tried = x.aimed[:0]
	if err := x.enter(r.Context()); err != nil {
		return nil, err
	}
	base := *r.URL
	base.RawPath = encoded(base.RawPath)
	var last error
	var without []*upstream.Endpoint // those that cannot be connected to
	for len(x.tried) < maxTries {
		e, err := x.pool.Pick(r.Context(), without)
		if err != nil {
			return nil, &upstream.Unsent{Err: err}
		}
		if e == nil {
			break
		}
		x.endpoint, x.tried = e, append(x.tried, e)
		x.aim(r, &base)
		answer, err := x.ask(e, r)
		if err == nil {
			return x.answered(r.Method, answer), nil
		}
		e.Release()
		x.endpoint, last = nil, err
		if !errors.As(err, new(*upstream.Unsent)) || r.Context().Err() != nil || !x.upload.again() {
			break
		}
		if without = x.tried; upstream.Unprocessed(err) { // it takes requests, on another connection
			without = nil
		}
	}
	return nil, last
}

// ask sends the request to e.
func (x *exchange) ask(e *upstream.Endpoint, r *http.Request) (*http.Response, error) {
	if x.upload != nil {
		x.upload.keeps = e.URL.Scheme != "http" // by HTTP/2 an upstream may refuse it unprocessed
		x.upload.waits.Add(1)
		defer x.upload.waits.Add(1)
	}
	return e.RoundTrip(r)
}

// aim sets the path and the Host for the upstream; base is the URL of the caller.
func (x *exchange) aim(r *http.Request, base *url.URL) {
	to := x.endpoint.URL
	r.URL.Path, r.URL.RawPath = base.Path, base.RawPath // the upstream before may have had a prefix
	if !x.route.PassHost {
		r.Host = to.Host
	}
	if to.Path == "" || to.Path == "/" {
		return
	}
	at := base
	if climbs(base.Path) { // what the upstream would read as outside of its path
		at = &url.URL{Path: cleaned(base.Path)}
	}
	r.URL.Path, r.URL.RawPath = joined(to.Path, at.Path), ""
	if at.RawPath != "" || to.RawPath != "" {
		r.URL.RawPath = joined(to.EscapedPath(), at.EscapedPath())
	}
}

// encoded returns a path as the caller wrote it, with what may not stand in one encoded.
// Package url would decode the whole path and encode it again, and %2F would become a '/'.
func encoded(raw string) string {
	if !strings.ContainsFunc(raw, stray) {
		return raw
	}
	var b strings.Builder
	for _, c := range []byte(raw) {
		if stray(rune(c)) {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// stray reports whether c may not stand in a path that is encoded.
func stray(c rune) bool {
	return (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && !strings.ContainsRune("-._~/!$&'()*+,;=:@%[]", c)
}

// climbs reports whether a path has a segment "..".
func climbs(path string) bool {
	return strings.Contains(path, "/../") || strings.HasSuffix(path, "/..")
}

// sneaks reports whether a path has a segment that some services read as "..": with
// a parameter behind it, as in "..;x", or with '\' between segments.
func sneaks(path string) bool {
	if !strings.ContainsAny(path, `;\`) {
		return false
	}
	for segment := range strings.SplitSeq(path, "/") {
		if segment == ".." { // is resolved, see aim
			continue
		}
		for part := range strings.SplitSeq(segment, `\`) {
			if name, _, _ := strings.Cut(part, ";"); name == ".." {
				return true
			}
		}
	}
	return false
}

// joined puts one path behind another.
func joined(a, b string) string {
	return strings.TrimSuffix(a, "/") + "/" + strings.TrimPrefix(b, "/")
}

// answered notes that the upstream has answered a request by method.
func (x *exchange) answered(method string, a *http.Response) *http.Response {
	x.answer = a
	if x.served != nil {
		x.served.Wait = time.Since(x.began) - x.served.Admission
		x.served.Upstream = x.endpoint.Address
	}
	if x.chunks && len(a.Trailer) > 0 && method != http.MethodHead { // with a length, as in HTTP/2, they would be lost
		delete(a.Header, "Content-Length")
	}
	if a.StatusCode == http.StatusSwitchingProtocols {
		if c, ok := a.Body.(io.ReadWriteCloser); ok {
			a.Body = &tunnel{c, x}
		}
		x.tunnel = true
		x.g.tunnels.Add(1)
		delete(x.Header(), "Connection") // it is said when the gateway drains
	}
	if x.tunnel {
		x.begins(a.StatusCode)
	} else if x.upload != nil && a.ProtoMajor == 2 {
		a.Body = &early{a.Body, x}
	}
	return a
}

// fail answers a request that no upstream has answered.
func (x *exchange) fail(err error) {
	if x.answer != nil { // it switches to a protocol that nobody asked for, and ReverseProxy leaves it open
		x.answer.Body.Close()
	}
	if x.served != nil {
		x.served.Err = err
	}
	if errors.As(err, new(*upstream.Unsent)) {
		x.giveBack()
	}
	status := x.statusOf(err)
	if status == 0 { // without this it would be answered 200
		panic(http.ErrAbortHandler)
	}
	if status >= 500 && x.g.lines.May(time.Now()) {
		x.g.log.Error("no upstream answered", "route", x.route.Match, "err", err)
	}
	plain(x, status)
}

// giveBack refunds what a request was charged that no upstream has seen.
func (x *exchange) giveBack() {
	if x.admission == nil {
		return
	}
	if err := x.admission.GiveBack(); err != nil && x.g.lines.May(time.Now()) {
		x.g.log.Warn("a refund failed", "err", err)
	}
	for _, f := range x.own.all[:x.own.n] { // what they say is not true any more
		if f.name != "Connection" {
			delete(x.Header(), f.name)
		}
	}
	x.own = fields{}
}

// statusOf returns the status for an error; 0 if nobody is there to read it.
func (x *exchange) statusOf(err error) int {
	timeout := net.Error(nil)
	switch {
	case x.flooded.Load():
		return http.StatusBadGateway
	case errors.Is(err, errNoPlace), errors.Is(err, errShare):
		x.Header().Set("Retry-After", "1")
		return http.StatusServiceUnavailable
	case errors.As(err, new(*http.MaxBytesError)):
		return http.StatusRequestEntityTooLarge
	case x.late() && x.upload != nil && !x.whole.Load():
		x.Header().Set("Connection", "close")
		if x.stalls() {
			return http.StatusRequestTimeout
		}
		return http.StatusGatewayTimeout // the upstream did not go on reading
	case x.late(), errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return http.StatusGatewayTimeout
	case x.upload != nil && x.upload.dropped.Load(): // which ends the context of HTTP/1, too
		return http.StatusBadGateway
	case x.carried.Context.Err() != nil:
		return 0
	case x.upload != nil && x.upload.broken.Load(): // no chunk, or cut short
		return http.StatusBadRequest
	}
	return http.StatusBadGateway
}

// plain answers with a status and its name.
func plain(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	io.WriteString(w, http.StatusText(status)+"\n") // an error means that the caller has gone
}

// buffers are used again by answers.
type buffers struct{ sync.Pool }

// Get returns a buffer.
func (b *buffers) Get() []byte {
	if p, ok := b.Pool.Get().(*[32 << 10]byte); ok {
		return p[:]
	}
	return new([32 << 10]byte)[:]
}

// Put takes back a buffer of Get.
func (b *buffers) Put(p []byte) { b.Pool.Put((*[32 << 10]byte)(p)) }

// cleaned is a path without "//", "/./" and "/x/../", as the rules see it.
func cleaned(p string) string {
	if !strings.Contains(p, "//") && !strings.Contains(p, "/.") {
		return p
	}
	clean := path.Clean("/" + p)
	if strings.HasSuffix(p, "/") && clean != "/" {
		clean += "/"
	}
	return clean
}
