package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Endpoint is one address of an upstream, with the connections to it.
type Endpoint struct {
	// URL is the target that the address was found for. It must not be changed.
	URL *url.URL
	// Address is HOST:PORT, where HOST is an IP address.
	Address string

	pool      *Pool
	transport closer
	sender    http.RoundTripper // transport, or that of the Options
	inFlight  atomic.Int64
	out       atomic.Int64 // unix nanoseconds until which it is ejected; 0 if it is healthy
	trial     atomic.Bool  // a request tries whether it is back
	ailing    atomic.Bool  // there are failures that a success ends
	retired   atomic.Bool  // no more requests will come; set before the connections are closed

	mu     sync.Mutex // guards health
	health health
}

// Unsent is an error before the first byte of a request was sent: the upstream
// has not seen it.
type Unsent struct{ Err error }

// Error returns the text of the cause.
func (e *Unsent) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Unsent) Unwrap() error { return e.Err }

// Callers is an error in reading the body of a request: its caller made it, and it
// says nothing of the upstream.
type Callers struct{ Err error }

// Error returns the text of the cause.
func (e *Callers) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Callers) Unwrap() error { return e.Err }

func newEndpoint(p *Pool, t *url.URL, address string) *Endpoint {
	e := &Endpoint{URL: t, Address: address, pool: p}
	switch t.Scheme {
	case "h2c":
		e.transport = &upgrading{Transport: e.speaks("h2c")}
	case "https":
		e.transport = &upgrading{e.speaks("h2", "http/1.1"), e.speaks("http/1.1")}
	default:
		e.transport = e.speaks("http/1.1")
		if looks {
			e.transport = &wires{dial: e.dial, timeout: p.o.Timeout, others: e.speaks("http/1.1")}
		}
	}
	if e.sender = p.o.Transport; e.sender == nil {
		e.sender = e.transport
	}
	return e
}

// speaks returns a Transport that speaks some protocols, as TLS names them, or h2c.
func (e *Endpoint) speaks(names ...string) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(slices.Contains(names, "http/1.1"))
	protocols.SetHTTP2(slices.Contains(names, "h2"))
	protocols.SetUnencryptedHTTP2(slices.Contains(names, "h2c"))
	return &http.Transport{
		DialContext: e.dial, Protocols: protocols, DisableCompression: true,
		DialTLSContext:      func(ctx context.Context, _, _ string) (net.Conn, error) { return e.dialTLS(ctx, names) },
		MaxIdleConnsPerHost: maxIdle, IdleConnTimeout: idleTimeout, ResponseHeaderTimeout: e.pool.o.Timeout,
		ExpectContinueTimeout: time.Second, MaxResponseHeaderBytes: maxHeader,
	}
}

// closer is a RoundTripper that keeps connections.
type closer interface {
	http.RoundTripper
	CloseIdleConnections()
}

// maxIdle bounds the connections to an address that are kept for later.
const maxIdle = 256

// dial connects to the address, whatever the name.
func (e *Endpoint) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: e.pool.DialTimeout()}
	files := e.pool.o.Files
	files.room(nil)
	c, err := dialer.DialContext(ctx, network, e.Address)
	if files.room(err) {
		c, err = dialer.DialContext(ctx, network, e.Address)
	}
	if err != nil {
		return nil, &Unsent{err}
	}
	return files.count(c), nil
}

// dialTLS connects to the address, to speak one of some protocols.
func (e *Endpoint) dialTLS(ctx context.Context, protocols []string) (net.Conn, error) {
	c, err := e.dial(ctx, "tcp", "")
	if err != nil {
		return nil, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if e.pool.o.TLS != nil {
		config = e.pool.o.TLS.Clone()
	}
	if config.ServerName == "" {
		config.ServerName = e.URL.Hostname()
	}
	config.NextProtos = protocols
	secure := tls.Client(c, config)
	ctx, cancel := context.WithTimeout(ctx, e.pool.DialTimeout())
	defer cancel()
	if err := secure.HandshakeContext(ctx); err != nil {
		c.Close()
		return nil, &Unsent{err}
	}
	return secure, nil
}

// RoundTrip sends a request to the address, with the scheme and the host of its
// URL; the path is left as it is. It changes r.URL. An error of Unsent says that
// nothing was sent. Errors count against the address, except those of Callers,
// which the body of r returns, those after the end of its context, and those of cancels
// and Starved.
func (e *Endpoint) RoundTrip(r *http.Request) (*http.Response, error) {
	r.URL.Scheme, r.URL.Host = e.URL.Scheme, e.URL.Host
	if e.URL.Scheme == "h2c" {
		r.URL.Scheme = "http"
	}
	a, err := e.sender.RoundTrip(r)
	if err == nil && a.StatusCode < 100 { // which net/http takes, and panics where it is to be passed on
		a.Body.Close()
		a, err = nil, fmt.Errorf("the status of an answer is %03d: must be 100 to 999", a.StatusCode)
	}
	if err == nil && (a.StatusCode == http.StatusNoContent || a.StatusCode == http.StatusNotModified) {
		empty(a)
	}
	if two := err == nil && a.ProtoMajor == 2; err == nil && e.URL.Scheme == "https" && two != e.pool.multiplexes.Load() {
		e.pool.multiplexes.Store(two)
	}
	switch {
	case Unprocessed(err):
		err = &Unsent{err} // and the address is well
	case err == nil && e.ailing.Load():
		e.served()
	case err != nil && r.Context().Err() == nil && !errors.As(err, new(*Callers)) && !cancels(err) && !Starved(err):
		e.failed(time.Now(), errors.As(err, new(*Unsent)), err)
	}
	return a, err
}

// Unprocessed reports whether err says that an upstream has refused a request by HTTP/2 that
// it has not processed (RFC 9113, 8.7), as where it ends a connection with GOAWAY. net/http
// sends such requests again if they have no body, and has no type for the error of others.
func Unprocessed(err error) bool {
	if err == nil {
		return false
	}
	text := err.Error()
	return strings.HasPrefix(text, "http2: Transport: cannot retry err [") && (strings.Contains(text, "GOAWAY]") || strings.Contains(text, "; REFUSED_STREAM;")) ||
		strings.HasPrefix(text, "net/http: cannot rewind body") // a connection that was to carry it has ended
}

// reset is what net/http says of a stream that the upstream has reset: errors.As finds it
// by these fields (golang/go#53896).
type reset struct {
	StreamID, Code uint32
	Cause          error
}

func (r reset) Error() string { return fmt.Sprintf("a stream was reset, by code %d", r.Code) }

// cancels reports whether the upstream has reset the stream of a request by CANCEL. Servers
// of gRPC do so at the deadline, which the caller sets: it says nothing of the upstream.
func cancels(err error) bool {
	const cancel = 8 // RFC 9113, 7
	var r reset
	return errors.As(err, &r) && r.Code == cancel
}

// Starved reports whether this process may open no more files, or the machine lacks memory:
// no upstream is the cause, and one that is left out for it would leave its share to others.
func Starved(err error) bool {
	return slices.ContainsFunc([]error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM}, func(of error) bool { return errors.Is(err, of) })
}

// empty takes the body and trailers away from an answer 204 or 304, which has none, and the
// length, which is that of the answer 200 in its place: by HTTP/2 net/http misses a body of
// that length, and lets no answer end whose trailers are announced.
func empty(a *http.Response) {
	a.Body.Close()
	a.Body, a.ContentLength, a.Trailer = http.NoBody, 0, nil
	delete(a.Header, "Content-Length")
}

// Release ends the request for which the Endpoint was picked.
func (e *Endpoint) Release() {
	if e.inFlight.Add(-1) == 0 && e.retired.Load() {
		e.transport.CloseIdleConnections()
	}
	if e.out.Load() != 0 { // it may have been the trial
		e.trial.Store(false)
	}
}

// retire closes the connections that are idle, and has Release close those of requests
// that begin later: what many reloads leave behind must not add up.
func (e *Endpoint) retire() {
	e.retired.Store(true)
	e.transport.CloseIdleConnections()
}

func (e *Endpoint) failed(now time.Time, dead bool, err error) {
	e.mu.Lock()
	before := e.health
	e.health = before.failed(now, dead, rand.Float64())
	after := e.health
	if !after.until.IsZero() {
		e.out.Store(after.until.UnixNano())
	}
	e.ailing.Store(true)
	e.mu.Unlock()
	if after.until != before.until {
		e.transport.CloseIdleConnections()
		e.pool.stale()
		e.pool.say(e, err)
	}
}

func (e *Endpoint) served() {
	e.mu.Lock()
	was := !e.health.until.IsZero()
	e.health = health{}
	e.out.Store(0)
	e.ailing.Store(false)
	e.mu.Unlock()
	e.trial.Store(false)
	if was {
		e.pool.say(e, nil)
	}
}

// free reports whether requests may be sent to e: it is healthy, or a trial is
// due and no other request makes it.
func (e *Endpoint) free(now time.Time) bool {
	until := e.out.Load()
	return until == 0 || now.UnixNano() >= until && !e.trial.Load()
}
