package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pires/go-proxyproto"

	"github.com/throttle-go/throttle/cmd/throttle/internal/certificate"
	"github.com/throttle-go/throttle/cmd/throttle/internal/exit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/gateway/upstream"
	"github.com/throttle-go/throttle/internal/list"
	"github.com/throttle-go/throttle/rules"
)

const maxListen = 64

// open opens all sockets, or none.
func (g *Gateway) open(ctx context.Context) (all []net.Listener, err error) {
	defer func() {
		if err != nil {
			for _, l := range all {
				l.Close()
			}
			all = nil
		}
	}()
	for _, l := range g.cfg.Listen {
		s, err := g.socket(ctx, l)
		if err != nil {
			return all, err
		}
		all = append(all, s)
	}
	return all, nil
}

// socket opens one.
func (g *Gateway) socket(ctx context.Context, l Listen) (net.Listener, error) {
	var files *certificate.Files
	if l.TLS != nil {
		files = l.TLS.files(g.log)
		if err := files.Load(time.Now()); err != nil {
			return nil, exit.Failf("gateway: %s: tls: %v", l.Addr, err)
		}
		g.remember(files)
	}
	s := l.Listener
	if s == nil {
		var err error
		if s, err = new(net.ListenConfig).Listen(ctx, "tcp", l.Addr); err != nil {
			if in := (*net.OpError)(nil); errors.As(err, &in) {
				err = in.Err // which does not say the address again
			}
			return nil, exit.Failf("gateway: -listen %s: %v", l.Addr, err)
		}
	}
	s = g.bounded(s, l.ProxyProtocol)
	if len(l.ProxyProtocol) > 0 {
		s = &proxyproto.Listener{Listener: s, ConnPolicy: believe(l.ProxyProtocol), ValidateHeader: nameless, ReadHeaderTimeout: g.headerTimeout()}
	}
	if files != nil {
		s = tls.NewListener(s, &tls.Config{GetConfigForClient: files.Config, MinVersion: tls.VersionTLS12})
	}
	return s, nil
}

// believe is the policy of the PROXY protocol: from these networks the header
// must be there, from all others it is not read.
func believe(networks rules.Networks) proxyproto.ConnPolicyFunc {
	return func(o proxyproto.ConnPolicyOptions) (proxyproto.Policy, error) {
		if has(networks, addressOf(o.Upstream)) {
			return proxyproto.REQUIRE, nil
		}
		return proxyproto.SKIP, nil
	}
}

// nameless leaves out the address of a caller that came to the proxy by a Unix socket.
func nameless(h *proxyproto.Header) error {
	h.SourceAddr = withoutName(h.SourceAddr)
	return nil
}

// withoutName returns an address without the name of a Unix socket: its owner chooses it,
// and 127.0.0.1:80 would be read as an address of IP.
func withoutName(a net.Addr) net.Addr {
	if u, ok := a.(*net.UnixAddr); ok {
		return &net.UnixAddr{Net: u.Net}
	}
	return a
}

// addressOf returns the IP address of one end of a connection; invalid if it has
// none.
func addressOf(a net.Addr) netip.Addr {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap().WithZone("")
	}
	return netip.Addr{}
}

// bounded bounds the connections of a socket.
type bounded struct {
	net.Listener
	room  chan struct{} // as many as there may be
	most  int           // of one address; 0: no bound
	free  []rules.Networks
	once  sync.Once
	ended chan struct{}
	spare func() // closes connections to upstreams that carry no request

	shares shares // of the connections
	counts *counts
	mu     sync.Mutex
	per    map[string]int  // the connections of each address
	idle   list.List[conn] // those that wait for their next request, the one that has waited longest first
}

func (g *Gateway) bounded(s net.Listener, proxies rules.Networks) net.Listener {
	files := openFiles()
	most := g.cfg.mostConns(files)
	if want := g.cfg.Limits.maxConns(); most < want {
		g.log.Warn("fewer connections are held, as this process may open few files", "socket", s.Addr().String(), "connections", most, "of", want, "files", files)
	}
	return &bounded{
		Listener: s, room: make(chan struct{}, most), most: g.cfg.Limits.MaxConnsPerAddress, ended: make(chan struct{}), counts: &g.counts,
		spare: g.spare, free: []rules.Networks{proxies, g.cfg.Proxies.Trusted, g.cfg.Identity.From, g.cfg.Priority.From}, per: map[string]int{},
	}
}

// Accept waits for a connection, and for room.
func (b *bounded) Accept() (net.Conn, error) {
	if !b.enough() {
		return nil, net.ErrClosed
	}
	for {
		c, err := b.Listener.Accept()
		if err != nil {
			<-b.room
			if upstream.Starved(err) {
				b.spare()
			}
			return nil, err
		}
		if key, ok := b.enter(addressOf(c.RemoteAddr())); ok {
			_ = boundUnsent(c) // where it cannot be, a slow caller costs more
			b.counts.fresh.Add(1)
			return &conn{Conn: c, of: b, key: key, first: make(chan struct{}, 1)}, nil
		}
		c.Close()
	}
}

// evictable is how long a connection must have waited for its next request to be closed for
// another: one that has just been answered may be about to send it.
const evictable = time.Second

// enough waits for room, and makes some: the connection that has waited longest for its next
// request is closed; and answers to what is crowded end their connections. Without that, callers that
// keep their connections would shut all others out. It reports false once the socket is closed.
func (b *bounded) enough() bool {
	select {
	case b.room <- struct{}{}:
		return true
	default:
	}
	timer := time.NewTimer(b.evict(time.Now()))
	defer timer.Stop()
	for {
		select {
		case b.room <- struct{}{}:
			return true
		case <-b.ended:
			return false
		case <-timer.C:
			timer.Reset(b.evict(time.Now()))
		}
	}
}

// crowded reports whether the connection of a request is one of as many as there may be,
// but for the one that is waited for.
func crowded(r *http.Request) bool {
	c, _ := r.Context().Value(connKey{}).(*conn)
	return c != nil && len(c.of.room) == cap(c.of.room)
}

// evict closes the connection that has waited longest for its next request, and long enough,
// and returns when the next may have.
func (b *bounded) evict(now time.Time) time.Duration {
	b.mu.Lock()
	c := b.idle.Front()
	if c == nil {
		b.mu.Unlock()
		return evictable
	}
	if left := evictable - now.Sub(c.since); left > 0 {
		b.mu.Unlock()
		return left
	}
	b.idle.Remove(&c.place)
	b.mu.Unlock()
	_ = c.end()
	return evictable
}

// rests notes that c waits for its next request.
func (b *bounded) rests(c *conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.idle.Remove(&c.place)
	b.idle.Push(&c.place, c)
	c.since = time.Now()
}

// wakes notes that c does not.
func (b *bounded) wakes(c *conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.idle.Remove(&c.place)
}

// enter counts a connection of a.
func (b *bounded) enter(a netip.Addr) (key string, ok bool) {
	if b.most <= 0 || !a.IsValid() {
		return "", true
	}
	for _, n := range b.free {
		if has(n, a) {
			return "", true
		}
	}
	key = rules.Network(a, 32, 64)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.per[key] >= b.most {
		return "", false
	}
	b.per[key]++
	return key, true
}

func (b *bounded) leave(key string) {
	<-b.room
	if key == "" {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.per[key]--; b.per[key] == 0 {
		delete(b.per, key)
	}
}

// Close closes the socket; Accept that waits for room ends.
func (b *bounded) Close() error {
	b.once.Do(func() { close(b.ended) })
	return b.Listener.Close()
}

// counts are those of connections that a drain waits for.
type counts struct{ fresh, active atomic.Int64 }

// How far a connection is.
const (
	fresh   = iota // no request has come yet
	active         // a request is in flight
	resting        // none is, or it was upgraded
)

// conn is a connection that is counted.
type conn struct {
	net.Conn
	of  *bounded
	key string
	// first holds one while a stream has the place that is kept for the connection.
	first chan struct{}
	now   atomic.Int32 // how far it is
	rest  atomic.Int64 // for how long the rest of a request may come before it is closed
	once  sync.Once

	place list.Node[conn] // among the idle; guarded by of.mu
	since time.Time       // when it was put there; guarded by of.mu
}

// connKey is the context key of the *conn of a request.
type connKey struct{}

// become notes how far the connection is.
func (c *conn) become(now int32) {
	before := c.now.Swap(now)
	if before == now {
		return
	}
	if now == active { // before the other, so that it is never missed
		c.of.counts.active.Add(1)
	}
	switch before {
	case fresh:
		c.of.counts.fresh.Add(-1)
	case active:
		c.of.counts.active.Add(-1)
	}
}

// RemoteAddr returns the address of the caller, without a name of its own choice.
func (c *conn) RemoteAddr() net.Addr { return withoutName(c.Conn.RemoteAddr()) }

// Close closes the connection and makes room. After an answer that did not wait for the
// rest of its request, that is read first: it would make the kernel reset the connection,
// and a caller that is still sending would lose the answer.
func (c *conn) Close() error {
	c.become(resting)
	rest := time.Duration(c.rest.Swap(0))
	if rest <= 0 || c.CloseWrite() != nil {
		return c.end()
	}
	go func() {
		_ = c.SetReadDeadline(time.Now().Add(rest)) // an error comes again
		_, _ = io.Copy(io.Discard, c.Conn)
		_ = c.end()
	}()
	return nil
}

// end closes the connection at once.
func (c *conn) end() error {
	err := c.Conn.Close()
	c.of.wakes(c)
	c.once.Do(func() { c.of.leave(c.key) })
	return err
}

// CloseWrite says that nothing follows.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// files are those of the TLS.
func (t *TLS) files(log *slog.Logger) *certificate.Files {
	return &certificate.Files{Cert: t.Cert, Key: t.Key, ClientCA: t.ClientCA, Every: time.Second, Log: log}
}

// remember notes the certificates of a socket.
func (g *Gateway) remember(f *certificate.Files) {
	g.swapping.Lock()
	defer g.swapping.Unlock()
	g.own = append(g.own, f)
}

// Certificates returns those of the sockets that are open.
func (g *Gateway) Certificates() []*certificate.Files {
	g.swapping.Lock()
	defer g.swapping.Unlock()
	return slices.Clone(g.own)
}
