package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/exit"
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
	for _, s := range sockets {
		go func() { ended <- server.Serve(s) }()
	}
	failed := error(nil)
	select {
	case err := <-ended:
		failed = exit.Failf("gateway: %v", err)
	case <-ctx.Done():
		g.draining.Store(true)
		pause(g.cfg.Drain.Delay, ended)
	}
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

func (g *Gateway) server(requests context.Context) *http.Server {
	l := g.cfg.Limits
	s := &http.Server{
		Handler: g, ReadHeaderTimeout: g.headerTimeout(), IdleTimeout: l.KeepAlive, MaxHeaderBytes: l.MaxHeader,
		ErrorLog:    slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo), // of connections of callers
		BaseContext: func(net.Listener) context.Context { return requests },
		Protocols:   new(http.Protocols), HTTP2: &http.HTTP2Config{MaxConcurrentStreams: 250},
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

// drain closes the sockets, waits for what is in flight, and cuts the rest.
func (g *Gateway) drain(ctx context.Context, server *http.Server, cut context.CancelFunc) error {
	most := g.cfg.Drain.Timeout
	if most <= 0 {
		most = 30 * time.Second
	}
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), most)
	defer cancel()
	err := server.Shutdown(patience)
	if err == nil {
		g.waitForTunnels(patience)
	}
	cut()
	if n := g.tunnels.Load(); n > 0 {
		g.log.Warn("upgraded connections are cut", "connections", n)
		unwinding, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		g.waitForTunnels(unwinding)
	}
	if err != nil {
		server.Close()
		return exit.Failf("gateway: requests were in flight still after %v of draining", most)
	}
	return nil
}

// waitForTunnels waits for connections that were upgraded, which the server does
// not know any more. That some are cut in the end is in their nature.
func (g *Gateway) waitForTunnels(ctx context.Context) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for g.tunnels.Load() > 0 {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
