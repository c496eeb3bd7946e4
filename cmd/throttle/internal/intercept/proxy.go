package intercept

import (
	"cmp"
	"context"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
)

// A Proxy serves CONNECT requests, by HTTP/1.1, and passes all others on. The Authority and
// Next must be set. It is safe for concurrent use; the fields must not change after first
// use. Call Shutdown at the end: a http.Server does not wait for connections after CONNECT.
type Proxy struct {
	// Authority signs the certificates of Hosts. It must be loaded.
	Authority *Authority
	// Hosts are intercepted: a request inside goes to Next with https and the target in
	// its URL. If empty, none is.
	Hosts []Target
	// Tunnel lists other targets, to which bytes are copied unseen. An address that is
	// not public, of a name too, must be listed itself. If empty, none is reached.
	Tunnel List
	// Next serves the requests inside, and those that are not CONNECT.
	Next http.Handler
	// BaseContext returns the context of the requests inside, as that of http.Server does. If
	// nil, it is the background.
	BaseContext func(net.Listener) context.Context
	// Token is the password of Proxy-Authorization (Basic, by any user) that all requests
	// outside must have, 407 otherwise. If empty, none is asked for.
	Token string
	// MaxConns bounds the connections after CONNECT: 503 beyond. They count for the bound
	// of the listener too, until they are closed. If zero, 10,000.
	MaxConns int
	// HeaderTimeout bounds a TLS handshake, and the time from the first byte of a request
	// inside to the end of its header. If zero, 10 s.
	HeaderTimeout time.Duration
	// DialTimeout bounds the making of a connection for a tunnel: 504 beyond. If zero, 10 s.
	DialTimeout time.Duration
	// KeepAlive is how long an intercepted connection may idle between requests. If zero,
	// 2 min.
	KeepAlive time.Duration
	// Idle bounds the time in which nothing moves in a tunnel: it is cut then. If zero,
	// 5 min.
	Idle time.Duration
	// MaxHeader bounds the bytes of the header of a request inside: 431 beyond. If zero,
	// 64 KiB.
	MaxHeader int
	// MaxStreams bounds the requests at once on a connection of HTTP/2 inside. If zero, 250.
	MaxStreams int
	// Log is where refusals and failed handshakes are said, one a second at most. If nil,
	// nowhere.
	Log *slog.Logger

	began    sync.Once
	drains   sync.Once
	cuts     sync.Once
	server   *http.Server // of the requests inside
	tls      *tls.Config  // of all connections
	accepted chan *tls.Conn
	draining chan struct{} // closed when Shutdown begins
	cut      chan struct{} // closed when it ends
	says     sparse
	open     conns
}

// begin makes what is not set by the caller, at first use.
func (p *Proxy) begin() {
	p.began.Do(func() {
		p.accepted, p.draining, p.cut = make(chan *tls.Conn), make(chan struct{}), make(chan struct{})
		p.says.log = p.Log
		p.tls = &tls.Config{
			MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
			GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
				return hello.Conn.(*conn).leaf, nil
			},
		}
		p.server = p.inner()
		go p.server.Serve(queue{p}) // until Shutdown
	})
}

// ServeHTTP serves a request.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.begin()
	if p.Token != "" {
		if !authorized(r, p.Token) {
			w.Header().Set("Proxy-Authenticate", `Basic realm="throttle egress"`)
			(&refusal{http.StatusProxyAuthRequired, "proxy-authorization", "Proxy-Authorization is missing or wrong; write the token into the URL of the proxy, as http://any:TOKEN@127.0.0.1:8090"}).write(w)
			return
		}
		r = r.Clone(r.Context())
		r.Header.Del("Proxy-Authorization") // it is not for others
	}
	if r.Method != http.MethodConnect {
		p.Next.ServeHTTP(w, r)
		return
	}
	if no := p.connect(w, r); no != nil {
		p.says.warn(time.Now(), "CONNECT is refused", "target", words.Visible(r.RequestURI, 80), "status", no.status, "why", no.text)
		no.write(w)
	}
}

// authorized reports whether a request has the token.
func authorized(r *http.Request, token string) bool {
	in := http.Request{Header: http.Header{"Authorization": r.Header["Proxy-Authorization"]}}
	_, given, ok := in.BasicAuth()
	return ok && subtle.ConstantTimeCompare([]byte(given), []byte(token)) == 1
}

// A refusal is an answer in place of what was asked for.
type refusal struct {
	status int
	reason string // in a word, for programs
	text   string
}

// write answers with a refusal.
func (no *refusal) write(w http.ResponseWriter) {
	w.Header().Set("Throttle-Generated", no.reason)
	w.Header().Set("Throttle-May-Have-Run", "false")
	if no.status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	http.Error(w, "throttle egress: "+no.text, no.status)
}

// connect serves a CONNECT request, or says why not.
func (p *Proxy) connect(w http.ResponseWriter, r *http.Request) *refusal {
	t, err := ParseTarget(r.RequestURI)
	switch {
	case err != nil:
		return &refusal{http.StatusBadRequest, "bad-request", fmt.Sprintf("CONNECT %s: %v", clip(r.RequestURI), err)}
	case r.ContentLength != 0 || len(r.TransferEncoding) > 0:
		return &refusal{http.StatusBadRequest, "bad-request", "a CONNECT request has no body"}
	case r.ProtoMajor != 1:
		return &refusal{http.StatusNotImplemented, "bad-request", "CONNECT by HTTP/1.1 only"}
	}
	listed := slices.Contains(p.Hosts, t)
	if !listed && !p.Tunnel.Allows(t) {
		return p.unlisted(t)
	}
	c, no := p.enter(t)
	if no != nil {
		return no
	}
	if listed {
		no = p.intercept(w, r, c)
	} else {
		no = p.tunnel(w, r, c)
	}
	if no != nil {
		c.of.leave(c)
	}
	return no
}

// unlisted says that a target is not listed, or at another port.
func (p *Proxy) unlisted(t Target) *refusal {
	ports := p.Tunnel.ports(t)
	for _, h := range p.Hosts {
		if h.Host == t.Host {
			ports = append(ports, h.Port)
		}
	}
	text := t.String() + " is not listed, neither to be intercepted nor to be tunnelled"
	if len(ports) > 0 {
		slices.Sort(ports)
		text = fmt.Sprintf("%s is not listed; of this host it is port %s", t, strings.Trim(fmt.Sprint(slices.Compact(ports)), "[]"))
	}
	return &refusal{http.StatusForbidden, "not-listed", text}
}

// enter makes room for a connection to t.
func (p *Proxy) enter(t Target) (*conn, *refusal) {
	select {
	case <-p.draining:
		return nil, &refusal{http.StatusServiceUnavailable, "ending", "the proxy is about to end"}
	default:
	}
	c := &conn{target: t, of: &p.open}
	if !p.open.enter(c, cmp.Or(max(p.MaxConns, 0), 10_000)) {
		return nil, &refusal{http.StatusServiceUnavailable, "busy", "there are as many connections as there may be"}
	}
	return c, nil
}

// intercept terminates TLS with the caller, and has the requests inside served.
func (p *Proxy) intercept(w http.ResponseWriter, r *http.Request, c *conn) (no *refusal) {
	var err error
	if c.leaf, err = p.Authority.Leaf(c.target.Host, time.Now()); err != nil {
		return &refusal{http.StatusBadGateway, "certificate", err.Error()}
	}
	if no, ok := c.take(w); !ok {
		return no
	}
	inside := tls.Server(c, p.tls)
	if err := p.shake(inside); err != nil {
		p.handshakeFailed(c, err)
		c.Close()
		return nil
	}
	select {
	case p.accepted <- inside:
	case <-p.cut:
		c.Close()
	}
	return nil
}

// handshakeFailed logs why, if the caller does not trust the authority or speaks no TLS; and
// tells the latter.
func (p *Proxy) handshakeFailed(c *conn, err error) {
	plain := tls.RecordHeaderError{}
	text := err.Error()
	switch {
	case errors.As(err, &plain):
		text = "the caller speaks no TLS after CONNECT; for plain HTTP it sends GET http://..."
		c.say("HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: text/plain\r\nThrottle-Generated: no-tls\r\n\r\nthrottle egress: after CONNECT comes TLS\n")
	case strings.Contains(text, "unknown certificate") || strings.Contains(text, "bad certificate"):
		text = fmt.Sprintf("the caller does not trust the CA%s: %v", p.Authority.how(), err)
	}
	p.says.warn(time.Now(), "no TLS with a caller", "target", c.target.String(), "why", text)
}

// clip shortens what a caller sent, for a line.
func clip(text string) string {
	const most = 80
	if len(text) > most {
		text = text[:most] + "..."
	}
	return strconv.Quote(text)
}
