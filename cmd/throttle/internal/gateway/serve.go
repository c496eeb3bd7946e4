package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/pires/go-proxyproto"

	"github.com/throttle-go/throttle/cmd/throttle/internal/exit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/operate"
)

// Serve serves until ctx ends, and then drains: it goes on for Drain.Delay, in
// which answers end their connections, closes its sockets and waits for the
// requests in flight. The error says that a socket failed, or that requests were
// cut at Drain.Timeout. It must be called once.
func (g *Gateway) Serve(ctx context.Context) error {
	sockets, err := g.open(ctx)
	if err != nil {
		return err
	}
	return g.serveOn(ctx, sockets)
}

func (g *Gateway) serveOn(ctx context.Context, sockets []net.Listener) error {
	requests, cut := context.WithCancel(context.WithoutCancel(ctx)) // they outlive ctx
	defer cut()
	server := g.server(requests)
	ended := make(chan error, len(sockets))
	var accepting sync.WaitGroup
	for _, s := range sockets {
		accepting.Go(func() { ended <- server.Serve(s) })
	}
	failed := error(nil)
	select {
	case err := <-ended:
		failed = exit.Failf("gateway: %v", err)
	case <-ctx.Done():
		g.draining.Store(true)
		pause(g.cfg.Drain.Delay, ended)
	}
	for _, s := range sockets {
		s.Close()
	}
	accepting.Wait() // what was accepted is counted now
	return errors.Join(failed, g.drain(ctx, server, cut))
}

// pause waits, or until a socket fails.
func pause(d time.Duration, ended chan error) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case err := <-ended:
		ended <- err
	}
}

func (g *Gateway) headerTimeout() time.Duration {
	if d := g.cfg.Limits.HeaderTimeout; d > 0 {
		return d
	}
	return 10 * time.Second
}

func (g *Gateway) drainTimeout() time.Duration {
	if d := g.cfg.Drain.Timeout; d > 0 {
		return d
	}
	return 30 * time.Second
}

// restTimeout bounds the wait for the rest of a body, after an answer that did not.
func (g *Gateway) restTimeout() time.Duration { return min(g.headerTimeout(), g.drainTimeout()/2) }

func (g *Gateway) server(requests context.Context) *http.Server {
	l := g.cfg.Limits
	s := &http.Server{
		Handler: g, ReadHeaderTimeout: g.headerTimeout(), IdleTimeout: l.KeepAlive, MaxHeaderBytes: l.MaxHeader,
		ErrorLog:    slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo), // of connections of callers
		ConnState:   g.changed,
		BaseContext: func(net.Listener) context.Context { return requests },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, ownOf(c))
		},
		Protocols: new(http.Protocols), HTTP2: &http.HTTP2Config{MaxConcurrentStreams: 250},
	}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetHTTP2(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	if s.IdleTimeout <= 0 {
		s.IdleTimeout = 2 * time.Minute
	}
	if s.MaxHeaderBytes <= 0 {
		s.MaxHeaderBytes = 64 << 10
	}
	return s
}

// drain waits for what is in flight, once the sockets are closed, and cuts the rest.
// http.Server.Shutdown is not used before nothing is: from then on the server
// drops requests that it has read from connections on which none came before.
func (g *Gateway) drain(ctx context.Context, server *http.Server, cut context.CancelFunc) error {
	most := g.drainTimeout()
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), most)
	defer cancel()
	began := time.Now()
	operate.Await(patience, func() bool { // fresh ones first, as they become active
		return (g.fresh.Load() == 0 || time.Since(began) > operate.FreshFor) && g.active.Load() == 0 && g.tunnels.Load() == 0
	})
	active, tunnels := g.active.Load(), g.tunnels.Load()
	if active == 0 { // HTTP/2 is said goodbye; what has sent nothing yet does not count
		goodbye, cancel := context.WithTimeout(patience, 50*time.Millisecond)
		defer cancel()
		_ = server.Shutdown(goodbye)
	}
	cut()
	server.Close()
	if tunnels > 0 {
		g.log.Warn("upgraded connections are cut", "connections", tunnels)
		unwinding, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		operate.Await(unwinding, func() bool { return g.tunnels.Load() == 0 })
	}
	if active > 0 {
		return exit.Failf("gateway: requests were in flight still after %v of draining, on %d connections", most, active)
	}
	return nil
}

// changed counts the connections that have requests in flight, and those that
// had none yet.
func (g *Gateway) changed(c net.Conn, to http.ConnState) {
	own := ownOf(c)
	if own == nil {
		return
	}
	switch to {
	case http.StateActive:
		own.of.wakes(own)
		own.become(active)
	case http.StateIdle, http.StateHijacked:
		own.rest.Store(0) // all of the body was read
		own.become(resting)
		if to == http.StateIdle {
			own.of.rests(own)
		}
	}
}

// ownOf returns the connection of ours inside another.
func ownOf(c net.Conn) *conn {
	for range 3 {
		switch in := c.(type) {
		case *conn:
			return in
		case *tls.Conn:
			c = in.NetConn()
		case *proxyproto.Conn:
			c = in.Raw()
		}
	}
	return nil
}
