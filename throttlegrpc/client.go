package throttlegrpc

import (
	"context"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/pace"
)

// Client paces the calls of one or more grpc.ClientConn, and retries those
// refused for load, by its interceptors Unary and Stream.
//
// All calls of one name, a target unless Name says otherwise, share one
// throttle.Throttle: they wait for their turn there, and it learns the pace
// from the answers.
//
// Retried, subject to the Throttle's policy and never before the time that the
// server asked for, see [Classify]:
//
//   - RESOURCE_EXHAUSTED, and UNAVAILABLE with a RetryInfo: refused on purpose,
//     and not executed.
//   - Any other UNAVAILABLE, if the method may be executed twice: see Repeat.
//
// The trailer grpc-retry-pushback-ms forbids a retry if it is negative, is no
// number, or occurs twice. All other errors are returned unchanged. A call that
// waits for its connection (grpc.WaitForReady) counts as in flight.
//
// No wait outlives the context of a call, and one that is forecast to do so
// fails at once. A call that is given up returns a *throttle.Error, found by
// errors.As, which says why, and whether the call may have been executed. The
// status that status.FromError finds in it is the last one of the server, with
// all details; if there is none, it is DEADLINE_EXCEEDED, CANCELLED, or
// RESOURCE_EXHAUSTED where too many calls were waiting.
//
// gRPC can retry by itself, by the retryPolicy of a service config. Layers of
// retries multiply, so a call whose method has such a policy is sent with gRPC's
// own retries switched off. The policy is unknown before the first call has
// connected: grpc.WithDisableRetry works from the first call on. Transparent
// retries of gRPC (of calls that no server has seen) are left alone where there
// is no policy.
//
// A grpc.CallOption applies to each try.
//
// The zero value is ready. A Client is safe for concurrent use; it must not be
// copied, nor its fields changed, after first use.
type Client struct {
	// Name returns the name under which a call shares one Throttle with others:
	// a target, a service, a method, a customer. target is that of the
	// ClientConn in its canonical form, method is "/package.Service/Method". If
	// nil, the target.
	Name func(ctx context.Context, target, method string) string
	// Throttles holds the Throttle of each name, see [throttle.Group]. Its New
	// makes them, and is the place to set hooks for logs and metrics. Several
	// Clients may share a Group. If nil, this Client has its own, of
	// Throttles with the four fields that follow, and zero in all else.
	Throttles *throttle.Group
	// Tries, Retries, Backoff and MaxWait are the fields of that name of the
	// Throttles that this Client makes itself: see there for what zero means. If
	// Throttles is set, they do not count: its New makes the Throttles.
	Tries   int
	Retries int
	Backoff pace.Backoff
	MaxWait time.Duration
	// Repeat reports whether a method may be executed twice, besides those that
	// are declared so: by idempotency_level in their .proto, if the generated
	// code is linked in, or by a retryPolicy for UNAVAILABLE in the service
	// config. If nil, only these may.
	Repeat func(method string) bool

	once sync.Once      // sets own.New
	own  throttle.Group // if there are no Throttles
}

var (
	_ grpc.UnaryClientInterceptor  = (*Client)(nil).Unary
	_ grpc.StreamClientInterceptor = (*Client)(nil).Stream
)

// Unary paces and retries a call; it is a grpc.UnaryClientInterceptor.
func (c *Client) Unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	k := c.begin(ctx, cc, method, opts)
	m := c.enter(k.name)
	defer m.Leave()
	return k.end(m.Throttle().DoResult(ctx, func(ctx context.Context) throttle.Result {
		return k.judge(k.unary(func(opts ...grpc.CallOption) error {
			return invoker(k.next(ctx), method, req, reply, cc, opts...)
		}))
	}))
}

// Stream paces the opening of a stream; it is a grpc.StreamClientInterceptor. A
// stream is in flight for its Throttle until the server accepts it, by a header
// or a message, or ends it, or has not refused it for a second: how many are
// open says nothing about the pace.
//
// A stream that is refused before anything was received is opened again if its
// only request can be sent again, that is if the server streams and the client
// does not. Otherwise, and later, RecvMsg returns the refusal. As gRPC does, it
// assumes that a message which was sent is not modified.
func (c *Client) Stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	s := &stream{client: c, call: c.begin(ctx, cc, method, opts), ctx: ctx, desc: desc}
	s.open = func(ctx context.Context, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		return streamer(ctx, desc, cc, method, opts...)
	}
	return s.begin()
}

// enter finds or makes the member of that name, which is kept until Leave.
func (c *Client) enter(name string) *throttle.Member {
	return c.Group().Enter(name)
}

// Group returns the Group that holds the Throttles of c: Throttles, or the one of
// its own.
func (c *Client) Group() *throttle.Group {
	if c.Throttles != nil {
		return c.Throttles
	}
	c.once.Do(func() { c.own.New = c.throttle })
	return &c.own
}

// throttle makes a Throttle where there are no Throttles.
func (c *Client) throttle(string) *throttle.Throttle {
	return &throttle.Throttle{Tries: c.Tries, Retries: c.Retries, Backoff: c.Backoff, MaxWait: c.MaxWait}
}

// begin prepares one call.
func (c *Client) begin(ctx context.Context, cc *grpc.ClientConn, method string, opts []grpc.CallOption) call {
	k := call{opts: opts}
	if cc != nil { // as there is none to a server in this process
		k.name = cc.CanonicalTarget()
		if policy := cc.GetMethodConfig(method).RetryPolicy; policy != nil {
			// Without room to keep what was sent, gRPC cannot send it again.
			k.opts = append(opts[:len(opts):len(opts)], grpc.MaxRetryRPCBufferSize(0))
			k.policy, k.repeats = true, policy.RetryableStatusCodes[codes.Unavailable]
		}
	}
	if c.Name != nil {
		k.name = c.Name(ctx, k.name, method)
	}
	k.repeats = k.repeats || idempotent(method) || c.Repeat != nil && c.Repeat(method)
	return k
}

// idempotent reports whether the .proto of a method declares it so.
func idempotent(method string) bool {
	name := strings.ReplaceAll(strings.TrimPrefix(method, "/"), "/", ".")
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
	if err != nil {
		return false // not linked in
	}
	options, _ := d.Options().(*descriptorpb.MethodOptions)
	return options.GetIdempotencyLevel() != descriptorpb.MethodOptions_IDEMPOTENCY_UNKNOWN
}
