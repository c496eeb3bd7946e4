package egress

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/netutil"

	"github.com/throttle-go/throttle/cmd/throttle/internal/exit"
)

// maxConns bounds the connections of callers; further ones wait in the queue of the
// kernel.
const maxConns = 10_000

// Serve serves h on a listener until ctx ends, and then drains: it goes on for
// Drain.Delay, takes no new connections, and gives the requests that wait or are in
// flight Drain.Timeout. Those that wait still are answered 503 then, all others cut, and
// the error says so. h is p, or a handler around it. Serve must be called once.
func (p *Proxy) Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	requests, cut := context.WithCancelCause(context.WithoutCancel(ctx)) // they outlive ctx
	defer cut(errEnding)
	server := p.server(requests, h)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(netutil.LimitListener(l, maxConns)) }()
	select {
	case err := <-ended:
		cut(errEnding)
		server.Close()
		return exit.Failf("egress: %v", err)
	case <-ctx.Done():
	}
	p.draining.Store(true)
	pause(p.cfg.Drain.Delay)
	p.unwatch()
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.cfg.Drain.Timeout)
	defer cancel()
	_ = server.Shutdown(patience) // what it leaves is counted below
	p.idle(patience)              // connections that were upgraded are not the server's
	left := len(p.room)
	cut(errEnding)
	if left > 0 {
		patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		p.idle(patience) // they answer that they end
	}
	server.Close()
	<-ended
	if left > 0 {
		return exit.Failf("egress: %d requests were there still after %v of draining", left, p.cfg.Drain.Timeout)
	}
	return nil
}

// pause waits.
func pause(d time.Duration) {
	if d > 0 {
		<-time.After(d)
	}
}

// idle waits until there are no requests, or ctx ends.
func (p *Proxy) idle(ctx context.Context) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for len(p.room) > 0 {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (p *Proxy) server(requests context.Context, h http.Handler) *http.Server {
	s := &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 256 << 10,
		ErrorLog:    slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo), // of connections of callers
		BaseContext: func(net.Listener) context.Context { return requests },
		Protocols:   new(http.Protocols), HTTP2: &http.HTTP2Config{MaxConcurrentStreams: 250},
	}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetHTTP2(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	return s
}
