package egress

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/exit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
)

const (
	// maxConns bounds the connections of callers; further ones wait in the queue of the
	// kernel.
	maxConns = 10_000
	// maxHeader bounds the bytes of the header of a request.
	maxHeader = 256 << 10
	// maxStreams bounds the requests at once on a connection of HTTP/2.
	maxStreams = 250
)

// Serve serves callers on a listener until ctx ends, and then drains: it goes on for
// Drain.Delay, takes no new connections, and gives the requests that wait or are in
// flight, and tunnels, Drain.Timeout. Requests that wait still are answered 503 then, all
// others cut, and the error says so. Serve must be called once, after Load.
func (p *Proxy) Serve(ctx context.Context, l net.Listener) error {
	requests, cut := context.WithCancelCause(context.WithoutCancel(ctx)) // they outlive ctx
	defer cut(errEnding)
	server := p.server(requests)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(newBounded(l, maxConns, p.takeIn)) }()
	select {
	case err := <-ended:
		cut(errEnding)
		server.Close()
		connects, end := p.shutdownConnects(ctx)
		end()
		<-connects
		return exit.Failf("egress: %v", err)
	case <-ctx.Done():
	}
	p.draining.Store(true)
	pause(p.cfg.Drain.Delay)
	p.unwatch()
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.cfg.Drain.Timeout)
	defer cancel()
	connects, end := p.shutdownConnects(ctx)
	_ = server.Shutdown(patience) // what it leaves is counted below
	p.idle(patience)              // connections that were upgraded are not the server's
	wait(patience, connects)      // tunnels
	left := len(p.room)
	cut(errEnding)
	if left > 0 {
		patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		p.idle(patience) // they answer that they end
	}
	end()
	<-connects
	server.Close()
	<-ended
	if left > 0 {
		return exit.Failf("egress: %s there still after %v of draining", words.Plural(left, "request was", "requests were"), p.cfg.Drain.Timeout)
	}
	return nil
}

// pause waits.
func pause(d time.Duration) {
	if d > 0 {
		<-time.After(d)
	}
}

// shutdownConnects begins to end what came after CONNECT. The channel is closed when all of it
// has; end cuts the rest.
func (p *Proxy) shutdownConnects(ctx context.Context) (done chan struct{}, end func()) {
	done = make(chan struct{})
	ctx, end = context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer close(done)
		if p.connects != nil {
			_ = p.connects.Shutdown(ctx) // requests that it cuts are counted by Serve
		}
	}()
	return done, end
}

// wait waits for done, or until ctx ends.
func wait(ctx context.Context, done chan struct{}) {
	select {
	case <-done:
	case <-ctx.Done():
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

func (p *Proxy) server(requests context.Context) *http.Server {
	base := func(net.Listener) context.Context { return requests }
	if p.connects != nil {
		p.connects.BaseContext = base
	}
	s := &http.Server{
		Handler: p.handler(), DisableGeneralOptionsHandler: true, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: maxHeader,
		ErrorLog:    slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo), // of connections of callers
		BaseContext: base,
		Protocols:   new(http.Protocols), HTTP2: &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
	}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetHTTP2(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	return s
}
