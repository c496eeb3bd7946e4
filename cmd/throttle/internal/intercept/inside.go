package intercept

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/operate"
)

func (p *Proxy) headerTimeout() time.Duration { return positive(p.HeaderTimeout, 10*time.Second) }

// positive returns d, or other if d is not above zero.
func positive(d, other time.Duration) time.Duration { return cmp.Or(max(d, 0), other) }

// connKey is the context key of the *conn of a request inside.
type connKey struct{}

// inner returns the server of the requests inside.
func (p *Proxy) inner() *http.Server {
	return &http.Server{
		Handler: http.HandlerFunc(p.inside), DisableGeneralOptionsHandler: true, TLSConfig: p.tls, ConnState: p.changed, BaseContext: p.BaseContext,
		ReadHeaderTimeout: p.headerTimeout(), IdleTimeout: positive(p.KeepAlive, 2*time.Minute),
		MaxHeaderBytes: cmp.Or(max(p.MaxHeader, 0), 64<<10),
		HTTP2:          &http.HTTP2Config{MaxConcurrentStreams: cmp.Or(max(p.MaxStreams, 0), 250)},
		ErrorLog:       slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo), // of connections of callers
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, connOf(c))
		},
	}
}

// connOf returns the connection under TLS.
func connOf(c net.Conn) *conn { return c.(*tls.Conn).NetConn().(*conn) }

// changed notes how far a connection is.
func (p *Proxy) changed(c net.Conn, to http.ConnState) {
	switch to {
	case http.StateActive:
		p.open.become(connOf(c), active)
	case http.StateIdle:
		p.open.become(connOf(c), resting)
	case http.StateHijacked:
		p.open.become(connOf(c), tunneled)
	}
}

// inside serves a request that came after CONNECT.
func (p *Proxy) inside(w http.ResponseWriter, r *http.Request) {
	select {
	case <-p.draining:
		w.Header().Set("Connection", "close") // by HTTP/2, it is GOAWAY
	default:
	}
	t := r.Context().Value(connKey{}).(*conn).target
	if no := misdirected(r, t); no != nil {
		p.says.warn(time.Now(), "a request after CONNECT is refused", "target", t.String(), "status", no.status, "why", no.text)
		no.write(w)
		return
	}
	p.Next.ServeHTTP(w, outward(r, t))
}

// misdirected says why a request that came after CONNECT to t is not one for t: otherwise a
// caller could have one host allowed and reach another.
func misdirected(r *http.Request, t Target) *refusal {
	if r.Method == http.MethodConnect {
		return &refusal{http.StatusMethodNotAllowed, "bad-request", "there is no CONNECT after CONNECT"}
	}
	if h, err := ParseHost(r.Host); r.Host != "" && (err != nil || h != t) { // HTTP/1.0 and HTTP/2 may have none
		return &refusal{http.StatusMisdirectedRequest, "other-host", fmt.Sprintf("the request is for %s, after CONNECT %s", clip(r.Host), t)}
	}
	if name := r.TLS.ServerName; name != "" {
		if h, err := ParseHost(name); err != nil || h.Host != t.Host {
			return &refusal{http.StatusMisdirectedRequest, "other-host", fmt.Sprintf("TLS names the server %s, after CONNECT %s", clip(name), t)}
		}
	}
	return nil
}

// outward returns a request with its target in its URL.
func outward(r *http.Request, t Target) *http.Request {
	out := r.WithContext(r.Context())
	u := *r.URL
	u.Scheme, u.Host, u.User = "https", t.Authority(), nil
	out.URL = &u
	return out
}

// Shutdown ends what came after CONNECT: connections without a request are closed, tunnels
// in which nothing moves for a second are, and others have until ctx ends; the rest is cut.
// New CONNECT requests are refused. The error says how many requests were cut.
func (p *Proxy) Shutdown(ctx context.Context) error {
	p.begin()
	p.drains.Do(func() { close(p.draining) })
	began := time.Now()
	operate.Await(ctx, func() bool { // fresh ones first, as they become active
		n := p.open.counts()
		return (n[waiting] == 0 || time.Since(began) > operate.FreshFor) && n[active] == 0 && n[tunneled] == 0
	})
	cut := p.open.counts()[active]
	goodbye, cancel := context.WithTimeout(context.WithoutCancel(ctx), 50*time.Millisecond)
	defer cancel()
	p.cuts.Do(func() { close(p.cut) })
	_ = p.server.Shutdown(goodbye) // HTTP/2 is said goodbye
	p.server.Close()
	for _, c := range p.open.list() {
		c.Close()
	}
	if cut > 0 {
		return fmt.Errorf("intercept: requests were in flight still on %d connections", cut)
	}
	return nil
}
