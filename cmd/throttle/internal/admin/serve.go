package admin

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/exit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/operate"
	"github.com/throttle-go/throttle/cmd/throttle/internal/page"
)

// Bounds of the listener.
const (
	maxConns   = 256
	maxHeaders = 16 << 10
	endWithin  = 5 * time.Second
	mostUnread = 128 << 10 // of answers, which the kernel holds for a caller; it doubles that
)

// Serve serves c on l until ctx ends, and then ends what is in flight within 5
// seconds. It closes l. An error is one line: what in c is wrong, before anything
// was served; or why l failed. At most 256 connections are held; more are closed.
func Serve(ctx context.Context, c Config, l net.Listener) error {
	s, err := newServer(ctx, c, l.Addr())
	if err != nil {
		return errors.Join(err, l.Close())
	}
	defer s.close(ctx)
	defer s.watch.end()
	defer l.Close() // a server that does not begin leaves it open
	h := &http.Server{
		Handler: s.routes(), TLSConfig: c.TLS, MaxHeaderBytes: maxHeaders,
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 15 * time.Second, WriteTimeout: time.Minute, IdleTimeout: time.Minute,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo), // of connections of callers
	}
	h.RegisterOnShutdown(s.watch.end) // else streams would hold it up
	ended := make(chan error, 1)
	bounded := &boundedListener{Listener: l}
	go func() {
		if c.TLS != nil {
			ended <- h.ServeTLS(bounded, "", "")
		} else {
			ended <- h.Serve(bounded)
		}
	}()
	select {
	case err := <-ended:
		return exit.Failf("admin: %v", err)
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), endWithin)
	defer cancel()
	if err := h.Shutdown(end); err != nil {
		return h.Close()
	}
	return nil
}

// server is the admin role.
type server struct {
	c       Config
	access  *access
	audit   audit
	metrics metrics
	watch   watch
	page    *page.Page
	began   time.Time

	refusals, pushes operate.Sparing
	trials           chan struct{}
}

func newServer(ctx context.Context, c Config, at net.Addr) (*server, error) {
	if c.Instance == "" {
		c.Instance, _ = os.Hostname() // else it stays empty
	}
	if c.Rules == nil && c.Stack != nil {
		c.Rules = &c.Stack.Live
	}
	if c.Journal == nil {
		c.Journal = new(Journal)
	}
	s := &server{c: c, audit: audit{c.Log, c.Journal}, began: time.Now(), trials: make(chan struct{}, maxTrials)}
	s.page = &page.Page{Call: s.inside, Ticks: s.latest, Viewer: s.viewer, Status: statusOf, Callers: s.c.Callers != nil, Quotas: s.c.Quota != nil}
	var err error
	if s.access, err = accessOf(&c, at); err != nil {
		return nil, err
	}
	if err := s.measure(ctx); err != nil {
		s.close(ctx)
		return nil, err
	}
	if c.Log != nil && c.TLS == nil && localName(at) == "" {
		c.Log.Warn("admin tokens travel in the clear beyond this machine: set tls", "listen", at.String())
	}
	return s, nil
}

// close pushes the last metrics.
func (s *server) close(ctx context.Context) {
	if s.metrics.provider == nil {
		return
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), endWithin)
	defer cancel()
	if err := s.metrics.provider.Shutdown(end); err != nil && s.c.Log != nil {
		s.c.Log.Warn("the last metrics were not pushed", "err", err)
	}
}

// A boundedListener closes connections beyond maxConns at once.
type boundedListener struct {
	net.Listener
	open atomic.Int64
}

// Accept returns the next connection that there is room for.
func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.open.Add(1) <= maxConns {
			if of, ok := c.(interface{ SetWriteBuffer(int) error }); ok {
				_ = of.SetWriteBuffer(mostUnread) // else it holds more
			}
			return &countedConn{Conn: c, open: &l.open}, nil
		}
		l.open.Add(-1)
		_ = c.Close() // nothing was said on it
	}
}

// A countedConn leaves its room when it is closed, once.
type countedConn struct {
	net.Conn
	open   *atomic.Int64
	closed atomic.Bool
}

// Close closes the connection.
func (c *countedConn) Close() error {
	if c.closed.CompareAndSwap(false, true) {
		c.open.Add(-1)
	}
	return c.Conn.Close()
}
