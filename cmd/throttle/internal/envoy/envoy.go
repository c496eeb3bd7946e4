// Package envoy is the role of 'throttle serve' that answers Envoy: its rate limit
// service, and the health of it, on a socket of gRPC.
package envoy

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	rlqspb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/certificate"
	"github.com/throttle-go/throttle/cmd/throttle/internal/exit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/throttleenvoy"
)

// Bounds of what callers may send and hold.
const (
	maxMessage = 1 << 20
	maxHeader  = 16 << 10
	maxStreams = 1_000 // of a connection; Envoy opens another for more
	maxConns   = 1_000
	handshake  = 10 * time.Second
)

// Config configures a Role.
type Config struct {
	// Control decides.
	Control *admit.Control
	// Listener is its socket.
	Listener net.Listener
	// Files are those of TLS. If nil, the socket is plain.
	Files *certificate.Files
	// Silent and Refunds are those of throttleenvoy.Service.
	Silent, Refunds bool
	// Quota is the quota service. If nil, there is none.
	Quota *throttleenvoy.QuotaService
	// Delay is how long it goes on after its context has ended, with its health red, and
	// Timeout how long calls in flight have after that.
	Delay, Timeout time.Duration
	// Log is where failures are logged.
	Log *slog.Logger
}

// Role is the rate limit service of Envoy on one socket.
type Role struct {
	cfg      Config
	health   *health.Server
	said     atomic.Int64  // when a refused request was logged last, in nanoseconds
	refused  atomic.Int64  // and when a refused connection was
	active   atomic.Int64  // calls in flight
	draining chan struct{} // closed when streams are to end
}

// New returns the role.
func New(c Config) *Role {
	return &Role{cfg: c, health: health.NewServer(), draining: make(chan struct{})}
}

// services are the names whose health is told: those of all, of the service, and of the
// reference, by which checks may ask.
var services = []string{"", rlspb.RateLimitService_ServiceDesc.ServiceName, "ratelimit"}

// Serve serves until ctx ends, and then drains: its health is NOT_SERVING for Delay, then
// it says goodbye to its connections, and waits for the calls in flight for Timeout. It
// must be called once.
func (r *Role) Serve(ctx context.Context) error {
	server := r.server()
	rlspb.RegisterRateLimitServiceServer(server, &throttleenvoy.Service{Control: r.cfg.Control, Silent: r.cfg.Silent, Refunds: r.cfg.Refunds, Limits: true})
	if r.cfg.Quota != nil {
		rlqspb.RegisterRateLimitQuotaServiceServer(server, r.cfg.Quota)
		r.health.SetServingStatus(rlqspb.RateLimitQuotaService_ServiceDesc.ServiceName, healthpb.HealthCheckResponse_SERVING)
	}
	healthpb.RegisterHealthServer(server, r.health)
	for _, name := range services {
		r.health.SetServingStatus(name, healthpb.HealthCheckResponse_SERVING)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(r.listener()) }()
	select {
	case err := <-ended:
		return exit.Failf("envoy: %v", err)
	case <-ctx.Done():
	}
	r.health.Shutdown()
	delay := time.NewTimer(r.cfg.Delay)
	defer delay.Stop()
	select {
	case err := <-ended:
		return exit.Failf("envoy: %v", err)
	case <-delay.C:
	}
	return r.drain(server, ended)
}

// listener is the socket with its bounds.
func (r *Role) listener() net.Listener {
	l := bound(r.cfg.Listener, maxConns)
	if r.cfg.Files == nil {
		l.look = r.look
	}
	return l
}

// look logs what a caller speaks in place of gRPC, from the first bytes of its
// connection: to such an Envoy the service is only down.
func (r *Role) look(from net.Addr, b []byte) {
	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	what := "it speaks HTTP/1.1, not gRPC; write http2_protocol_options into the cluster of Envoy"
	switch n := min(len(b), len(preface)); {
	case string(b[:n]) == preface[:n]:
		return
	case b[0] == 0x16: // a handshake
		what = "it speaks TLS, and the listener has none"
	case !strings.Contains(string(b), " /"): // of a method and a path
		what = "it does not speak gRPC"
	}
	if may(&r.refused, time.Now()) {
		r.cfg.Log.Warn("a connection is refused", "listener", "envoy", "from", from.String(), "err", what)
	}
}

// drain waits for the calls in flight, and cuts the rest.
func (r *Role) drain(server *grpc.Server, ended <-chan error) error {
	var cut atomic.Int64
	timer := time.AfterFunc(r.cfg.Timeout, func() { // connections that ignore the goodbye have no calls
		cut.Store(r.active.Load())
		server.Stop()
	})
	defer timer.Stop()
	close(r.draining)
	server.GracefulStop()
	<-ended
	if n := cut.Load(); n > 0 {
		return exit.Failf("envoy: %s in flight still after %v of draining", words.Plural(int(n), "call was", "calls were"), r.cfg.Timeout)
	}
	return nil
}

// server returns a server without services.
func (r *Role) server() *grpc.Server {
	message := maxMessage
	if r.cfg.Quota != nil {
		message = throttleenvoy.MaxQuotaMessage
	}
	options := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(message), grpc.MaxHeaderListSize(maxHeader), grpc.MaxConcurrentStreams(maxStreams),
		grpc.ConnectionTimeout(handshake), grpc.UnaryInterceptor(r.guard), grpc.StreamInterceptor(r.watched),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: time.Minute, Timeout: 20 * time.Second}),
		grpc.NumStreamWorkers(uint32(runtime.GOMAXPROCS(0))), // whose stacks have grown: a fifth of a lone caller's time
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
	}
	if f := r.cfg.Files; f != nil {
		options = append(options, grpc.Creds(&secure{credentials.NewTLS(&tls.Config{
			MinVersion: tls.VersionTLS12, GetConfigForClient: f.Config, ClientAuth: f.Auth(),
		}), r}))
	}
	return grpc.NewServer(options...)
}

// guard answers a call whose handler panics, and logs which requests are refused as
// malformed: Envoy counts them as errors, and does not say why.
func (r *Role) guard(ctx context.Context, in any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (out any, err error) {
	r.active.Add(1)
	defer r.active.Add(-1)
	defer func() {
		if p := recover(); p != nil {
			out, err = nil, r.panicked(info.FullMethod, p)
		}
	}()
	out, err = handler(ctx, in)
	r.malformed(err)
	return out, err
}

// panicked logs a panic, and returns the answer.
func (r *Role) panicked(method string, p any) error {
	r.cfg.Log.Error("a call panicked", "method", method, "panic", p, "stack", string(debug.Stack()))
	return status.Error(codes.Internal, "throttle: the call failed")
}

// malformed logs why a request was refused, if it was malformed, and that there are too many
// streams.
func (r *Role) malformed(err error) {
	if c := status.Code(err); (c == codes.InvalidArgument || c == codes.ResourceExhausted) && may(&r.said, time.Now()) {
		r.cfg.Log.Warn("a request of Envoy cannot be decided", "err", err)
	}
}

// watched ends a stream, of health or of quotas, when the drain begins: Envoy opens another, and
// goes on with what it was assigned.
func (r *Role) watched(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = r.panicked(info.FullMethod, p)
		}
		r.malformed(err)
	}()
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-r.draining:
			cancel()
		case <-ended:
		}
	}()
	return handler(srv, &watching{stream, ctx})
}

// watching is a stream with a context of its own.
type watching struct {
	grpc.ServerStream
	ctx context.Context
}

func (w *watching) Context() context.Context { return w.ctx }

// may reports whether to log what was said last at a time: once a minute.
func may(said *atomic.Int64, now time.Time) bool {
	last := said.Load()
	return now.UnixNano()-last >= int64(time.Minute) && said.CompareAndSwap(last, now.UnixNano())
}

// secure logs why callers are refused: to Envoy without a certificate the service is
// only down, and it fails open. A probe that connects and says nothing is none.
type secure struct {
	credentials.TransportCredentials
	of *Role
}

// ServerHandshake begins TLS.
func (s *secure) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := s.TransportCredentials.ServerHandshake(c)
	if err != nil && !errors.Is(err, io.EOF) && may(&s.of.refused, time.Now()) {
		s.of.cfg.Log.Warn("a connection is refused", "listener", "envoy", "from", c.RemoteAddr().String(), "err", err)
	}
	return conn, info, err
}

// Clone returns a copy.
func (s *secure) Clone() credentials.TransportCredentials {
	return &secure{s.TransportCredentials.Clone(), s.of}
}

// bounded bounds the connections of a socket: further ones wait.
type bounded struct {
	net.Listener
	room  chan struct{}
	ended chan struct{}
	once  atomic.Bool
	look  func(from net.Addr, first []byte) // at the first bytes of a connection; may be nil
}

func bound(l net.Listener, most int) *bounded {
	return &bounded{Listener: l, room: make(chan struct{}, most), ended: make(chan struct{})}
}

// Accept waits for room and a connection.
func (b *bounded) Accept() (net.Conn, error) {
	select {
	case b.room <- struct{}{}:
	case <-b.ended:
		return nil, net.ErrClosed
	}
	c, err := b.Listener.Accept()
	if err != nil {
		<-b.room
		return nil, err
	}
	return &conn{Conn: c, of: b, look: b.look}, nil
}

// Close closes the socket; Accept that waits for room ends.
func (b *bounded) Close() error {
	if b.once.Swap(true) {
		return nil
	}
	close(b.ended)
	err := b.Listener.Close()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// conn is a connection that makes room when it is closed.
type conn struct {
	net.Conn
	of     *bounded
	look   func(from net.Addr, first []byte) // nil: no more
	closed atomic.Bool
}

// Read reads, as only one goroutine does at a time.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.look != nil && n > 0 {
		c.look(c.RemoteAddr(), b[:n])
		c.look = nil
	}
	return n, err
}

// Close closes the connection.
func (c *conn) Close() error {
	err := c.Conn.Close()
	if !c.closed.Swap(true) {
		<-c.of.room
	}
	return err
}
