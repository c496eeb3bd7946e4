package throttlegrpc

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/pace"
)

// service is a gRPC service of one method of each kind, each made of a
// function. What has none is not implemented.
type service struct {
	echo  func(context.Context, string) (string, error) // unary
	count func(int64, grpc.ServerStream) error          // the server streams
	sum   func(grpc.ServerStream) error                 // the client streams
	chat  func(grpc.ServerStream) error                 // both
}

const (
	echo  = "/throttle.test.Service/Echo"
	count = "/throttle.test.Service/Count"
	sum   = "/throttle.test.Service/Sum"
	chat  = "/throttle.test.Service/Chat"
)

var (
	descCount = &grpc.StreamDesc{StreamName: "Count", ServerStreams: true, Handler: handleCount}
	descSum   = &grpc.StreamDesc{StreamName: "Sum", ClientStreams: true, Handler: func(srv any, ss grpc.ServerStream) error {
		return srv.(*service).sum(ss)
	}}
	descChat = &grpc.StreamDesc{StreamName: "Chat", ServerStreams: true, ClientStreams: true, Handler: func(srv any, ss grpc.ServerStream) error {
		return srv.(*service).chat(ss)
	}}
	descService = &grpc.ServiceDesc{
		ServiceName: "throttle.test.Service",
		HandlerType: (*any)(nil),
		Methods:     []grpc.MethodDesc{{MethodName: "Echo", Handler: handleEcho}},
		Streams:     []grpc.StreamDesc{*descCount, *descSum, *descChat},
	}
)

func handleEcho(srv any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
	in := new(wrapperspb.StringValue)
	if err := decode(in); err != nil {
		return nil, err
	}
	handler := func(ctx context.Context, req any) (any, error) {
		text, err := srv.(*service).echo(ctx, req.(*wrapperspb.StringValue).Value)
		return wrapperspb.String(text), err
	}
	if interceptor == nil {
		return handler(ctx, in)
	}
	return interceptor(ctx, in, &grpc.UnaryServerInfo{Server: srv, FullMethod: echo}, handler)
}

func handleCount(srv any, ss grpc.ServerStream) error {
	in := new(wrapperspb.Int64Value)
	if err := ss.RecvMsg(in); err != nil {
		return err
	}
	return srv.(*service).count(in.Value, ss)
}

// serve serves on l until the end of the test.
func serve(t testing.TB, l net.Listener, s *service, opts ...grpc.ServerOption) {
	t.Helper()
	server := grpc.NewServer(opts...)
	server.RegisterService(descService, s)
	done := make(chan error)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Errorf("Serve: %v", err)
		}
	})
}

// listen serves on a socket of the loopback interface and returns its address.
func listen(t testing.TB, s *service, opts ...grpc.ServerOption) (target string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serve(t, l, s, opts...)
	return l.Addr().String()
}

// dial is a connection until the end of the test, paced by c unless it is nil.
func dial(t testing.TB, target string, c *Client, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	opts = append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if c != nil {
		opts = append(opts, grpc.WithUnaryInterceptor(c.Unary), grpc.WithStreamInterceptor(c.Stream))
	}
	conn, err := grpc.NewClient(target, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// pipe serves s in memory, for synctest, and is a connection to it.
func pipe(t testing.TB, s *service, opts ...grpc.ServerOption) (connect func(c *Client, opts ...grpc.DialOption) *grpc.ClientConn) {
	t.Helper()
	l := bufconn.Listen(1 << 16)
	serve(t, l, s, opts...)
	return func(c *Client, opts ...grpc.DialOption) *grpc.ClientConn {
		dialer := grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) })
		return dial(t, "passthrough:///pipe", c, append([]grpc.DialOption{dialer}, opts...)...)
	}
}

// call1 makes a unary call.
func call1(ctx context.Context, conn *grpc.ClientConn, opts ...grpc.CallOption) error {
	out := new(wrapperspb.StringValue)
	err := conn.Invoke(ctx, echo, wrapperspb.String("hello"), out, opts...)
	if err == nil && out.Value != "hello" {
		return status.Errorf(codes.DataLoss, "echo of %q is %q", "hello", out.Value)
	}
	return err
}

// counted asks for numbers, as generated code does.
func counted(ctx context.Context, conn *grpc.ClientConn, n int64, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := conn.NewStream(ctx, descCount, count, opts...)
	if err != nil {
		return nil, err
	}
	if err := s.SendMsg(wrapperspb.Int64(n)); err != nil {
		return nil, err
	}
	return s, s.CloseSend()
}

// drain reads s to its end and returns how many messages there were.
func drain(s grpc.ClientStream) (n int, err error) {
	for {
		if err := s.RecvMsg(new(wrapperspb.Int64Value)); err != nil {
			if err == io.EOF {
				err = nil
			}
			return n, err
		}
		n++
	}
}

// numbers sends 1 to n.
func numbers(n int64, ss grpc.ServerStream) error {
	for i := range n {
		if err := ss.SendMsg(wrapperspb.Int64(i + 1)); err != nil {
			return err
		}
	}
	return nil
}

func same(_ context.Context, text string) (string, error) { return text, nil }

// A step answers one call.
type step func(context.Context) error

// script answers the n-th call by its n-th step, and the rest by its last.
type script struct {
	steps []step

	mu       sync.Mutex
	at       []time.Time
	previous []string // attempts, by metadata
}

func (s *script) next(ctx context.Context) error {
	s.mu.Lock()
	do := s.steps[min(len(s.at), len(s.steps)-1)]
	s.at = append(s.at, time.Now())
	s.previous = append(s.previous, strings.Join(metadata.ValueFromIncomingContext(ctx, "grpc-previous-rpc-attempts"), ","))
	s.mu.Unlock()
	return do(ctx)
}

// calls are the times at which it was asked.
func (s *script) calls() []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at
}

// echoes is a service of which Echo follows s.
func (s *script) echoes() *service {
	return &service{echo: func(ctx context.Context, text string) (string, error) { return text, s.next(ctx) }}
}

func well(context.Context) error { return nil }

// fails is a step that answers by a code and details, or, with strings among
// these, trailers.
func fails(code codes.Code, text string, more ...any) step {
	st := status.New(code, text)
	var trailer []string
	for _, d := range more {
		switch d := d.(type) {
		case string:
			trailer = append(trailer, d)
		case protoadapt.MessageV1:
			detailed, err := st.WithDetails(d)
			if err != nil {
				panic(err)
			}
			st = detailed
		}
	}
	return func(ctx context.Context) error {
		if trailer != nil {
			if err := grpc.SetTrailer(ctx, metadata.Pairs(trailer...)); err != nil {
				return err
			}
		}
		return st.Err()
	}
}

// after is a RetryInfo.
func after(d time.Duration) *errdetails.RetryInfo {
	return &errdetails.RetryInfo{RetryDelay: durationpb.New(d)}
}

// unreachable refuses to connect.
func unreachable(context.Context, string) (net.Conn, error) { return nil, errors.New("refused") }

// unpaced is a Throttle that learns nothing, and waits for nothing but what
// the server asks for.
func unpaced(string) *throttle.Throttle { return &throttle.Throttle{Control: pace.All(nil)} }
