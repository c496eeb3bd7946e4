package throttlegrpc

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"sync"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/signal"
	"github.com/throttle-go/throttle/store"
)

// Server limits the calls of a grpc.Server by its interceptors Unary and
// Stream. A refusal is answered with RESOURCE_EXHAUSTED, before the method is
// called and without a header, so that any client may retry it, with
//
//   - a google.rpc.RetryInfo and the trailer grpc-retry-pushback-ms, which say
//     when to come again; the trailer is -1 for a call that can never pass, and
//     both are missing if too many calls are in flight, as the time is unknown;
//   - a google.rpc.QuotaFailure that names the limit, never the key;
//   - the trailers ratelimit and ratelimit-policy as HTTP has them, which
//     admitted calls carry too.
//
// The zero value admits everything. The fields must not change, nor a Server be
// copied, after first use. It is safe for concurrent use if what its fields
// hold is.
type Server struct {
	// Store remembers how much each key has used. If nil, a memory.Store of
	// this Server's own.
	Store store.Store
	// Limit is how much each key may use, in calls and opened streams. If zero,
	// there is no limit.
	Limit limit.Limit
	// LimitFor returns the limit of one call, for callers on different plans.
	// The same key should always have the same limit. If nil, Limit.
	LimitFor func(ctx context.Context, method string) limit.Limit
	// Messages limits the messages that each key may send in its streams,
	// counted apart from the calls. The first one too many ends its stream as a
	// refused call ends. If zero, there is no limit.
	Messages limit.Limit
	// Cost returns the tokens that a call, given its request, or a message of a
	// stream takes; when a stream is opened, the request is nil. Zero takes
	// none and passes unless the key owes some; below zero counts as zero. If
	// nil, 1.
	Cost func(ctx context.Context, method string, request any) int64
	// Key returns the key that a call is charged to: PeerIP, a Metadata field
	// that was checked, a customer. If nil, all calls share one key. Beware of
	// what callers may set freely: each new value is a new key with an unused
	// limit.
	Key func(ctx context.Context, method string) string
	// MaxInFlight bounds the calls and streams in flight for each key. If zero
	// or below, there is no bound.
	MaxInFlight int64
	// InFlight counts them, by the same keys. If nil, one of this Server's own.
	InFlight *store.InFlight
	// Name is the name of the limit, for callers and, before a slash, at the
	// beginning of the keys in the Store: two limits in one Store need two
	// names. If empty, "default".
	Name string
	// Silent tells callers only when to come again. Use it where the number
	// remaining would help an attacker, as at a login.
	Silent bool
	// Error returns the error of a call that the Store could not decide. If
	// nil, UNAVAILABLE without the cause. To admit such calls, wrap the Store
	// in store.FailOpen, or return nil.
	Error func(ctx context.Context, method string, err error) error

	once     sync.Once
	store    store.Store     // Store, if there is one
	inFlight *store.InFlight // InFlight, if there is one
}

var (
	_ grpc.UnaryServerInterceptor  = (*Server)(nil).Unary
	_ grpc.StreamServerInterceptor = (*Server)(nil).Stream
)

// Unary limits calls; it is a grpc.UnaryServerInterceptor.
func (s *Server) Unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	hold, err := s.admit(ctx, info.FullMethod, req)
	if err != nil {
		return nil, err
	}
	defer hold.Release() // also when it panics
	return handler(ctx, req)
}

// Stream limits streams and their messages; it is a
// grpc.StreamServerInterceptor.
func (s *Server) Stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	hold, err := s.admit(ss.Context(), info.FullMethod, nil)
	if err != nil {
		return err
	}
	defer hold.Release()
	if !s.Messages.Unlimited() {
		ss = &metered{ServerStream: ss, server: s, method: info.FullMethod}
	}
	return handler(srv, ss)
}

// metered is a stream that charges each message received.
type metered struct {
	grpc.ServerStream
	server  *Server
	method  string
	refused error // the stream ends with it, even if the method reads on
}

func (m *metered) RecvMsg(msg any) error {
	if m.refused != nil {
		return m.refused
	}
	if err := m.ServerStream.RecvMsg(msg); err != nil {
		return err
	}
	s, ctx := m.server, m.Context()
	ask := limit.Ask{Key: s.key(ctx, m.method, ".messages"), Limit: s.Messages, N: s.cost(ctx, m.method, msg)}
	_, _, m.refused = s.take(ctx, m.method, s.name()+".messages", ask)
	return m.refused
}

// admit decides about a call. The error is that of the call.
func (s *Server) admit(ctx context.Context, method string, req any) (store.Hold, error) {
	l := s.Limit
	if s.LimitFor != nil {
		l = s.LimitFor(ctx, method)
	}
	if l.Unlimited() && s.MaxInFlight <= 0 {
		return store.Hold{}, nil
	}
	key := s.key(ctx, method, "")
	var counts []store.Count
	if s.MaxInFlight > 0 {
		counts = []store.Count{{Key: key, Max: s.MaxInFlight}}
	}
	d, hold, err := s.take(ctx, method, s.name(), limit.Ask{Key: key, Limit: l, N: s.cost(ctx, method, req)}, counts...)
	if !d.At.IsZero() && !s.Silent {
		tell(ctx, s.name(), l, d)
	}
	return hold, err
}

// take asks the Store and InFlight, and makes the refusal. The decision is zero
// if there is none. The error is that of the call.
func (s *Server) take(ctx context.Context, method, name string, a limit.Ask, counts ...store.Count) (limit.Decision, store.Hold, error) {
	s.once.Do(s.begin)
	var d [1]limit.Decision
	var hold store.Hold
	var err error
	refused, ok := -1, false
	if a.Limit.Unlimited() {
		hold, refused, ok = s.inFlight.Acquire(counts...)
	} else {
		hold, refused, ok, err = s.inFlight.Admit(ctx, s.store, []limit.Ask{a}, d[:], counts...)
	}
	switch {
	case err != nil:
		return limit.Decision{}, hold, s.undecided(ctx, method, err)
	case refused >= 0:
		err = s.refuse(ctx, name, fmt.Sprintf("at most %d in flight", counts[refused].Max), unknown)
	case !ok:
		err = s.refuse(ctx, name, a.Limit.String(), d[0].RetryAfter)
	}
	return d[0], hold, err
}

func (s *Server) begin() {
	if s.store = s.Store; s.store == nil {
		s.store = store.InProcess()
	}
	if s.inFlight = s.InFlight; s.inFlight == nil {
		s.inFlight = new(store.InFlight)
	}
}

func (s *Server) name() string {
	if s.Name == "" {
		return "default"
	}
	return s.Name
}

func (s *Server) key(ctx context.Context, method, part string) string {
	if s.Key == nil {
		return s.name() + part + "/"
	}
	return s.name() + part + "/" + s.Key(ctx, method)
}

func (s *Server) cost(ctx context.Context, method string, request any) int64 {
	if s.Cost == nil {
		return 1
	}
	return max(s.Cost(ctx, method, request), 0)
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

// tell sets the trailers that say what remains. A refusal says elsewhere, and
// to the microsecond, when to come again.
func tell(ctx context.Context, name string, l limit.Limit, d limit.Decision) {
	var said signal.Signal
	said.Limit, said.Window = pace.Some(max(l.Count, 0)), pace.Some(l.Period)
	if said.Remaining = pace.Some(d.Remaining); d.OK {
		said.Reset = pace.Some(d.ResetAfter)
	}
	md := make(metadata.MD, 2)
	said.Write(func(field, value string) { md.Set(field, value) }, name)
	grpc.SetTrailer(ctx, md)
}

// unknown is when to come again if that cannot be told.
const unknown time.Duration = -1

// refuse returns the error of a call that is refused, and sets its trailer.
func (s *Server) refuse(ctx context.Context, name, why string, after time.Duration) error {
	if s.Silent {
		why = ""
	}
	details := []protoadapt.MessageV1{&errdetails.QuotaFailure{
		Violations: []*errdetails.QuotaFailure_Violation{{Subject: name, Description: why}},
	}}
	switch after {
	case unknown:
	case limit.Never:
		grpc.SetTrailer(ctx, metadata.Pairs(pushback, "-1")) // fails outside of a call only
	default:
		grpc.SetTrailer(ctx, metadata.Pairs(pushback, milliseconds(after)))
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(after)})
	}
	st := status.New(codes.ResourceExhausted, "limit "+strconv.Quote(name)+" is used up")
	if detailed, err := st.WithDetails(details...); err == nil {
		st = detailed
	}
	return st.Err()
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
