package throttlegrpc

import (
	"cmp"
	"context"
	"math"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/rules"
)

// Server puts the admission control of an [admit.Control] in front of the methods
// of a grpc.Server, by its interceptors Unary and Stream. A refusal is answered
// before the method is called and without a header, so that any client may retry
// it:
//
//	RESOURCE_EXHAUSTED   the caller has used up its own limit
//	UNAVAILABLE          the service has no room, or the Store failed
//	PERMISSION_DENIED    a deny list says so
//	INVALID_ARGUMENT     a part of a key is missing that a rule requires
//
// The first two come with
//
//   - a google.rpc.RetryInfo and the trailer grpc-retry-pushback-ms, which say
//     when to come again; the trailer is -1 for a call that can never pass, and
//     the former is missing then;
//   - a google.rpc.QuotaFailure that names the limits, never the key;
//   - the trailers ratelimit and ratelimit-policy as HTTP has them, which
//     admitted calls carry too.
//
// The zero value admits everything. The fields must not change after first use.
// It is safe for concurrent use if what its fields hold is.
type Server struct {
	// Control decides about calls and opened streams. It may be that of a
	// throttlehttp.Handler too. If nil, all calls are admitted. Where its Phase
	// is rules.Before, its charges are in the context that the method sees, see
	// admit.Refund.
	Control *admit.Control
	// Messages decides about each message received in a stream; the first one
	// refused ends its stream as a refused call ends, whatever the method
	// returns. It must not be the Control, and needs another Name if both have
	// one Store. If nil, messages are not limited.
	Messages *admit.Control
	// Request completes the request that a Control decides about: Key, Client,
	// Value, Cost, Priority, Caller, whatever the program knows. Path is the full
	// method, as in "/package.Service/Method"; Method, Host, Header (which reads
	// the metadata) and Address are set already: the client behind the proxies that
	// the rules trust, by rules.ClientAddress; without rules the peer, so that a
	// Limit is for each address. in is the message: nil when a stream is opened.
	// If nil, nothing is added. Take a key from metadata only if it was checked.
	Request func(ctx context.Context, in any, q admit.Request) admit.Request
	// Silent tells callers only when to come again. Use it where the number
	// remaining would help an attacker, as at a login.
	Silent bool
	// Error returns the error of a call that the Store could not decide. If
	// nil, UNAVAILABLE without the cause. To admit such calls, wrap the Store
	// in store.FailOpen, or return nil.
	Error func(ctx context.Context, method string, err error) error
}

var (
	_ grpc.UnaryServerInterceptor  = (*Server)(nil).Unary
	_ grpc.StreamServerInterceptor = (*Server)(nil).Stream
)

// Unary limits calls; it is a grpc.UnaryServerInterceptor.
func (s *Server) Unary(ctx context.Context, in any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	a, err := s.begin(ctx, s.Control, info.FullMethod, in)
	if a == nil {
		if err != nil {
			return nil, err
		}
		return handler(ctx, in)
	}
	defer a.Forget() // after a panic it says nothing about how long a call takes
	if err != nil {
		return nil, err
	}
	out, err := handler(s.context(ctx, a), in)
	a.Done()
	return out, err
}

// Stream limits streams and their messages; it is a
// grpc.StreamServerInterceptor. Streams teach a Shedder nothing, and those that last
// hold no place in one that learns its bound.
func (s *Server) Stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	ctx := ss.Context()
	a, err := s.begin(ctx, s.Control, info.FullMethod, nil)
	if a != nil {
		defer a.Forget()
		ctx = s.context(ctx, a)
	}
	if err != nil {
		return err
	}
	if a != nil {
		defer s.lasts(a)()
	}
	if s.Messages == nil && ctx == ss.Context() {
		return handler(srv, ss)
	}
	m := &metered{ServerStream: ss, server: s, method: info.FullMethod, ctx: ctx}
	err = handler(srv, m)
	if refused := m.refused.Load(); refused != nil {
		return *refused // whatever the method made of it, as an end of what was sent
	}
	return err
}

// streaming is after how long an open stream holds no place any more: some twenty of them
// would hold all that a Shedder has learnt so far.
const streaming = time.Second

// lasts gives back the place of a stream that lasts, and stop ends that. A bound that is set
// says how many the service can hold, streams too.
func (s *Server) lasts(a *admit.Admission) (stop func() bool) {
	shed := cmp.Or(a.Request.Shed, s.Control.Shed)
	if shed == nil || shed.MaxInFlight > 0 {
		return func() bool { return true }
	}
	return time.AfterFunc(streaming, a.Pass().Forget).Stop
}

// context returns the context of an admitted call.
func (s *Server) context(ctx context.Context, a *admit.Admission) context.Context {
	if s.Control.Phase == rules.Before {
		return a.Context(ctx)
	}
	return ctx
}

// metered is a stream that limits the messages received.
type metered struct {
	grpc.ServerStream
	server  *Server
	method  string
	ctx     context.Context
	refused atomic.Pointer[error] // the stream ends with it, even if the method reads on
}

func (m *metered) Context() context.Context { return m.ctx }

func (m *metered) RecvMsg(msg any) error {
	if refused := m.refused.Load(); refused != nil {
		return *refused
	}
	if err := m.ServerStream.RecvMsg(msg); err != nil {
		return err
	}
	a, err := m.server.begin(m.ctx, m.server.Messages, m.method, msg)
	if a != nil {
		a.Done()
	}
	if err != nil {
		m.refused.Store(&err)
	}
	return err
}

// begin asks c about a call or message. The error is that of the call; without
// one, it is admitted. The Admission is nil if there is none to be ended.
func (s *Server) begin(ctx context.Context, c *admit.Control, method string, in any) (*admit.Admission, error) {
	if c == nil {
		return nil, nil
	}
	a, err := c.Begin(ctx, s.request(ctx, c, method, in))
	switch {
	case err != nil:
		a.Done()
		return nil, s.undecided(ctx, method, err)
	case !a.OK:
		err = s.refuse(ctx, a)
	}
	if !s.Silent && c == s.Control {
		tell(ctx, a)
	}
	return a, err
}

// request returns what c decides about.
func (s *Server) request(ctx context.Context, c *admit.Control, method string, in any) admit.Request {
	q := admit.Request{Request: rules.Request{
		Method: "POST", Path: method, Address: peerAddress(ctx),
		Header: func(name string) string {
			return strings.Join(metadata.ValueFromIncomingContext(ctx, name), ",")
		},
	}}
	q.Host = q.Header(":authority")
	if c.Rules != nil {
		q.Version = c.Rules.Load() // the same trusts the proxies and decides
		q.Address = q.Version.ClientAddress(q.Address, func(name string) []string { return metadata.ValueFromIncomingContext(ctx, name) })
	}
	if s.Request != nil {
		q = s.Request(ctx, in, q)
	}
	return q
}

// peerAddress returns the address that a call came from; behind a proxy it is
// the address of the proxy. A Unix socket has none: its owner chooses its name, and
// 127.0.0.1:80 is one.
func peerAddress(ctx context.Context) netip.Addr {
	p, ok := peer.FromContext(ctx)
	if !ok || p.Addr == nil || strings.HasPrefix(p.Addr.Network(), "unix") {
		return netip.Addr{}
	}
	from, _ := netip.ParseAddrPort(p.Addr.String())
	return from.Addr()
}

// undecided returns the error of a call that the Store could not decide.
func (s *Server) undecided(ctx context.Context, method string, err error) error {
	switch {
	case ctx.Err() != nil:
		return status.FromContextError(ctx.Err()).Err()
	case s.Error != nil:
		return s.Error(ctx, method, err)
	}
	return status.Error(codes.Unavailable, "could not decide whether the limit allows this")
}

// tell sets the trailers that say what remains.
func tell(ctx context.Context, a *admit.Admission) {
	if policy, current := a.RateLimit(); policy != "" {
		grpc.SetTrailer(ctx, metadata.Pairs("ratelimit-policy", policy, "ratelimit", current)) // fails outside of a call only
	}
}

// refuse returns the error of a call that is refused, and sets its trailer.
func (s *Server) refuse(ctx context.Context, a *admit.Admission) error {
	var code codes.Code
	text := "limit " + strconv.Quote(a.Answer.Rule) + " is used up"
	switch a.Verdict {
	case admit.Denied:
		return status.Error(codes.PermissionDenied, "denied")
	case admit.Keyless:
		return status.Error(codes.InvalidArgument, "rule "+strconv.Quote(a.Answer.Rule)+" wants a part of a key that is missing")
	case admit.Limited:
		code = codes.ResourceExhausted
	default:
		code, text = codes.Unavailable, "the service has no room"
	}
	details := []protoadapt.MessageV1{&errdetails.QuotaFailure{Violations: s.violations(a)}}
	if a.RetryAfter == limit.Never {
		grpc.SetTrailer(ctx, metadata.Pairs(pushback, "-1"))
	} else {
		grpc.SetTrailer(ctx, metadata.Pairs(pushback, milliseconds(a.RetryAfter)))
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(a.RetryAfter)})
	}
	st := status.New(code, text)
	if detailed, err := st.WithDetails(details...); err == nil {
		st = detailed
	}
	return st.Err()
}

// violations names the limits that refused.
func (s *Server) violations(a *admit.Admission) (all []*errdetails.QuotaFailure_Violation) {
	add := func(name, why string) {
		if s.Silent {
			why = ""
		}
		all = append(all, &errdetails.QuotaFailure_Violation{Subject: name, Description: why})
	}
	switch {
	case a.Verdict == admit.Overloaded && a.Err != nil:
		return nil
	case a.Binding < 0:
		add(a.Answer.Rule, "too many in flight")
	}
	for i, d := range a.Decisions {
		if !d.OK {
			add(a.LimitName(i), a.Asks[i].Limit.String())
		}
	}
	return all
}

// milliseconds returns d in the form of the trailer, rounded up: at most 32
// bits.
func milliseconds(d time.Duration) string {
	ms := d / time.Millisecond
	if d%time.Millisecond > 0 {
		ms++
	}
	return strconv.FormatInt(min(int64(ms), math.MaxInt32), 10)
}
