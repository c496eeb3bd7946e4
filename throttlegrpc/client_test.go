package throttlegrpc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	_ "google.golang.org/protobuf/types/known/emptypb" // whose file is imported below

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/pace"
)

const (
	all = codes.ResourceExhausted
	off = codes.Unavailable
)

// A server that answers once as it says, and then well: how often it is asked,
// how long after, and what the caller gets.
func TestPushback(t *testing.T) {
	const never = time.Duration(-1)
	for _, c := range []struct {
		name  string
		first step
		wait  time.Duration // until the second try
	}{
		{"nothing said", fails(all, "slow down"), 0},
		{"RetryInfo", fails(all, "", after(1500*time.Millisecond)), 1500 * time.Millisecond},
		{"UNAVAILABLE with RetryInfo", fails(off, "", after(time.Second)), time.Second},
		{"UNAVAILABLE", fails(off, ""), never},
		{"UNAVAILABLE pushed back", fails(off, "", pushback, "10"), never},
		{"pushback", fails(all, "", pushback, "250"), 250 * time.Millisecond},
		{"pushback of zero", fails(all, "", pushback, "0"), 0},
		{"the longer of two", fails(all, "", after(3*time.Second), pushback, "250"), 3 * time.Second},
		{"negative pushback", fails(all, "", after(time.Second), pushback, "-1"), never},
		{"no number", fails(all, "", pushback, "soon"), never},
		{"a fraction", fails(all, "", pushback, "1.5"), never},
		{"too large a number", fails(all, "", pushback, "4294967296"), never},
		{"two pushbacks", fails(all, "", pushback, "1", pushback, "1"), never},
		{"message too large", fails(all, "grpc: received message larger than max (5 vs. 4)"), never},
		{"answer too large in .NET", fails(all, "Sending message exceeds the maximum configured message size."), never},
		{"a failure", fails(codes.Internal, "", after(time.Second)), never},
	} {
		bubble.Test(t, func(t *testing.T) {
			s := &script{steps: []step{c.first, well}}
			conn := pipe(t, s.echoes())(&Client{Throttles: &throttle.Group{New: unpaced}})
			err := call1(t.Context(), conn)
			tries := len(s.calls())
			if c.wait == never {
				if tries != 1 || status.Code(err) != status.Code(c.first.again()) {
					t.Errorf("%s: %d tries, %v; want 1 and what the server said", c.name, tries, err)
				}
				return
			}
			if tries != 2 || err != nil {
				t.Errorf("%s: %d tries, %v; want 2 and success", c.name, tries, err)
			} else if waited := s.calls()[1].Sub(s.calls()[0]); waited != c.wait || s.previous[0]+s.previous[1] != "1" {
				t.Errorf("%s: waited %v, said %q attempts before; want %v, and 1 before the second", c.name, waited, s.previous, c.wait)
			}
		})
	}
}

// A wait that outlives the context is refused at once; none outlives it.
func TestDeadlines(t *testing.T) {
	throttled := fails(all, "slow down", after(time.Minute))
	for _, c := range []struct {
		name    string
		answer  step
		timeout time.Duration
		cancel  bool // rather than a deadline
		lasts   time.Duration
		code    codes.Code
		tries   int
		waits   bool // for the wait that was refused
		reason  error
		mayRun  bool
		noError bool // that is a throttle.Error
	}{
		{name: "the wait would be too long", answer: throttled, timeout: 30 * time.Second, lasts: 0, code: all, tries: 1, waits: true, reason: context.DeadlineExceeded},
		{name: "cancelled at rest", answer: throttled, timeout: 5 * time.Second, cancel: true, lasts: 5 * time.Second, code: all, tries: 1, reason: context.Canceled},
		{name: "three rests", answer: throttled, timeout: 150 * time.Second, lasts: 2 * time.Minute, code: all, tries: 3, waits: true, reason: context.DeadlineExceeded},
		{name: "the server is slow", answer: slow, timeout: 2 * time.Second, lasts: 2 * time.Second, code: codes.DeadlineExceeded, tries: 1, noError: true},
		{name: "cancelled in flight", answer: slow, timeout: 2 * time.Second, cancel: true, lasts: 2 * time.Second, code: codes.Canceled, tries: 1, noError: true},
		{name: "over before", answer: well, timeout: 0, lasts: 0, code: codes.DeadlineExceeded, reason: context.DeadlineExceeded},
		{name: "cancelled before", answer: well, timeout: 0, cancel: true, lasts: 0, code: codes.Canceled, reason: context.Canceled},
		{name: "failed", answer: fails(off, ""), timeout: time.Minute, code: off, tries: 1, reason: throttle.ErrTries, mayRun: true},
	} {
		bubble.Test(t, func(t *testing.T) {
			s := &script{steps: []step{c.answer}}
			var th throttle.Throttle
			th.Control = pace.All(nil)
			conn := pipe(t, s.echoes())(&Client{Throttles: &throttle.Group{New: func(string) *throttle.Throttle { return &th }}})
			ctx, cancel := context.WithTimeout(t.Context(), c.timeout)
			if c.cancel {
				ctx, cancel = context.WithCancel(t.Context())
				time.AfterFunc(c.timeout, cancel)
				if c.timeout == 0 {
					cancel()
				}
			}
			defer cancel()
			began := time.Now()
			err := call1(ctx, conn)
			lasted := time.Since(began)
			if lasted != c.lasts || len(s.calls()) != c.tries || status.Code(err) != c.code {
				t.Errorf("%s: %v after %v and %d tries; want %v after %v and %d", c.name, err, lasted, len(s.calls()), c.code, c.lasts, c.tries)
			}
			var e *throttle.Error
			if errors.As(err, &e) == c.noError {
				t.Errorf("%s: %#v; want a throttle.Error: %t", c.name, err, !c.noError)
			} else if e != nil && (!errors.Is(err, c.reason) || e.MayHaveRun != c.mayRun || c.waits != (e.Wait >= time.Minute)) {
				t.Errorf("%s: %v, may have run: %t, wait %v; want reason %v, %t, a wait: %t", c.name, err, e.MayHaveRun, e.Wait, c.reason, c.mayRun, c.waits)
			}
			if th.Waiting()+th.InFlight() != 0 {
				t.Errorf("%s: %d waiting and %d in flight are left", c.name, th.Waiting(), th.InFlight())
			}
		})
	}
}

// slow answers when the caller has gone.
func slow(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// again is what a step answers outside of a call.
func (s step) again() error {
	return s(grpc.NewContextWithServerTransportStream(context.Background(), deaf{}))
}

// deaf is a call without a listener.
type deaf struct{ grpc.ServerTransportStream }

func (deaf) SetTrailer(metadata.MD) error { return nil }

// The status is that of the server, unchanged, and the text says whose quota.
func TestTheLastStatusIsKept(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		quota := &errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{{Subject: "project:7", Description: "reads a minute\nfor all"}}}
		s := &script{steps: []step{fails(off, "first", after(0)), fails(all, "slow down", quota, after(time.Hour))}}
		conn := pipe(t, s.echoes())(&Client{Throttles: &throttle.Group{New: unpaced}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := call1(ctx, conn)
		st, ok := status.FromError(err)
		if !ok || st.Code() != all || st.Message() != "slow down" || len(st.Details()) != 2 {
			t.Errorf("status.FromError = %v, %t; want the last one, with two details", st.Proto(), ok)
		}
		wrapped, ok := status.FromError(fmt.Errorf("read: %w", err))
		if !ok || wrapped.Code() != all || len(wrapped.Details()) != 2 {
			t.Errorf("status.FromError of it wrapped = %v, %t; want the same", wrapped.Proto(), ok)
		}
		for _, want := range []string{"would wait 1h0m0s", "after 2 tries", "slow down", `quota "project:7": "reads a minute\nfor all"`} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("error %q; want it to say %q", err, want)
			}
		}
	})
}

// What may be executed twice, and whose word that is.
func TestRepeats(t *testing.T) {
	const config = `{"methodConfig":[{"name":[{"service":"throttle.test.Service"}],"retryPolicy":
		{"maxAttempts":5,"initialBackoff":"0.01s","maxBackoff":"0.01s","backoffMultiplier":1,"retryableStatusCodes":[%q]}}]}`
	for _, c := range []struct {
		name   string
		repeat func(string) bool
		config string
		tries  int
	}{
		{"not declared", nil, `{}`, 1},
		{"the function says no", func(string) bool { return false }, `{}`, 1},
		{"the function", func(method string) bool { return method == echo }, `{}`, 4},
		{"the service config", nil, fmt.Sprintf(config, "UNAVAILABLE"), 4},
		{"another code in the service config", nil, fmt.Sprintf(config, "RESOURCE_EXHAUSTED"), 1},
	} {
		bubble.Test(t, func(t *testing.T) {
			s := &script{steps: []step{well, fails(off, "")}}
			conn := pipe(t, s.echoes())(&Client{Repeat: c.repeat, Throttles: &throttle.Group{New: unpaced}}, grpc.WithDefaultServiceConfig(c.config))
			if err := call1(t.Context(), conn); err != nil { // the config is known from now on
				t.Fatal(err)
			}
			err := call1(t.Context(), conn)
			var e *throttle.Error
			if !errors.As(err, &e) || !e.MayHaveRun || e.Tries != c.tries || len(s.calls())-1 != c.tries {
				t.Errorf("%s: %v, %d calls; want %d tries, each sent once, of which one may have run", c.name, err, len(s.calls())-1, c.tries)
			}
		})
	}
}

// gRPC's own retries are off, so that the pace is kept and waits are counted.
func TestOneLayerRetries(t *testing.T) {
	const config = `{"methodConfig":[{"name":[{}],"retryPolicy":{"maxAttempts":5,"initialBackoff":"0.001s",
		"maxBackoff":"0.001s","backoffMultiplier":1,"retryableStatusCodes":["RESOURCE_EXHAUSTED"]}}]}`
	bubble.Test(t, func(t *testing.T) {
		s := &script{steps: []step{well, fails(all, "", after(time.Second)), fails(all, "", after(time.Second)), well}}
		conn := pipe(t, s.echoes())(&Client{Throttles: &throttle.Group{New: unpaced}}, grpc.WithDefaultServiceConfig(config))
		if err := errors.Join(call1(t.Context(), conn), call1(t.Context(), conn)); err != nil {
			t.Fatal(err)
		}
		if len(s.calls()) != 4 || s.calls()[3].Sub(s.calls()[1]) != 2*time.Second {
			t.Errorf("called at %v; want twice again, each a second later", s.calls())
		}
	})
	bubble.Test(t, func(t *testing.T) { // a stream that is refused before its first message
		s := &script{steps: []step{well, fails(all, "")}}
		both := s.echoes()
		both.chat = func(ss grpc.ServerStream) error { return s.next(ss.Context()) }
		conn := pipe(t, both)(&Client{Throttles: &throttle.Group{New: unpaced}}, grpc.WithDefaultServiceConfig(config))
		if err := call1(t.Context(), conn); err != nil {
			t.Fatal(err)
		}
		cs, err := conn.NewStream(t.Context(), descChat, chat)
		if err == nil {
			err = errors.Join(cs.CloseSend(), cs.RecvMsg(nil))
		}
		if status.Code(err) != all || len(s.calls()) != 2 {
			t.Errorf("%v, called %d times; want the stream to be opened once", err, len(s.calls())-1)
		}
	})
	bubble.Test(t, func(t *testing.T) { // two Clients, one over the other
		s := &script{steps: []step{fails(all, "")}}
		lower := one(&throttle.Throttle{Control: pace.All(nil), Tries: 2})
		conn := pipe(t, s.echoes())(&Client{Throttles: &throttle.Group{New: unpaced}}, grpc.WithChainUnaryInterceptor(lower.Unary))
		if err := call1(t.Context(), conn); len(s.calls()) != 2 || status.Code(err) != all {
			t.Errorf("%d tries, %v; want the two of the lower Client", len(s.calls()), err)
		}
	})
}

// declared links in a .proto, once, as the registry forgets nothing.
var declared = sync.OnceValue(func() error {
	method := func(name string, options *descriptorpb.MethodOptions) *descriptorpb.MethodDescriptorProto {
		empty := proto.String(".google.protobuf.Empty")
		return &descriptorpb.MethodDescriptorProto{Name: &name, InputType: empty, OutputType: empty, Options: options}
	}
	level := func(l descriptorpb.MethodOptions_IdempotencyLevel) *descriptorpb.MethodOptions {
		return &descriptorpb.MethodOptions{IdempotencyLevel: &l}
	}
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("throttle/declared.proto"), Package: proto.String("throttle.declared"), Syntax: proto.String("proto3"),
		Dependency: []string{"google/protobuf/empty.proto"},
		Service: []*descriptorpb.ServiceDescriptorProto{{Name: proto.String("S"), Method: []*descriptorpb.MethodDescriptorProto{
			method("Get", level(descriptorpb.MethodOptions_NO_SIDE_EFFECTS)),
			method("Put", level(descriptorpb.MethodOptions_IDEMPOTENT)),
			method("Unknown", level(descriptorpb.MethodOptions_IDEMPOTENCY_UNKNOWN)),
			method("Add", nil),
		}}},
	}, protoregistry.GlobalFiles)
	if err != nil {
		return err
	}
	return protoregistry.GlobalFiles.RegisterFile(file)
})

// By the .proto, if it is linked in.
func TestIdempotencyLevel(t *testing.T) {
	if err := declared(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		"/throttle.declared.S/Get": true, "/throttle.declared.S/Put": true,
		"/throttle.declared.S/Unknown": false, "/throttle.declared.S/Add": false, "/throttle.declared.S/Gone": false,
		"/throttle.declared.S": false, "/google.protobuf.Empty": false, "": false, "/": false,
	} {
		if got := new(Client).begin(t.Context(), nil, name, nil).repeats; got != want {
			t.Errorf("%q may be repeated: %t, want %t", name, got, want)
		}
	}
}

// A call that never left has not run; one that waits for its connection takes
// as long as its context allows.
func TestConnection(t *testing.T) {
	ready := []grpc.CallOption{grpc.WaitForReady(true)}
	for _, c := range []struct {
		name     string
		up       time.Duration // when the server can be reached
		opts     []grpc.CallOption
		code     codes.Code
		from, to time.Duration
	}{
		{"down", time.Hour, nil, off, 0, 0},
		{"up in time", time.Second, ready, codes.OK, time.Second, 5 * time.Second},
		{"up too late", time.Hour, ready, codes.DeadlineExceeded, time.Minute, time.Minute},
	} {
		bubble.Test(t, func(t *testing.T) {
			l := bufconn.Listen(1 << 16)
			serve(t, l, &service{echo: same})
			began := time.Now()
			conn := dial(t, "passthrough:///pipe", &Client{Throttles: &throttle.Group{New: unpaced}}, grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
				if time.Since(began) < c.up {
					return nil, errors.New("refused")
				}
				return l.DialContext(ctx)
			}))
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err := call1(ctx, conn, c.opts...)
			if lasted := time.Since(began); status.Code(err) != c.code || lasted < c.from || lasted > c.to {
				t.Errorf("%s: %v after %v; want %v after %v to %v", c.name, err, lasted, c.code, c.from, c.to)
			}
			var e *throttle.Error
			if errors.As(err, &e) != (c.code == off) || e != nil && e.MayHaveRun {
				t.Errorf("%s: %#v; want, if unavailable, a throttle.Error that says it has not run", c.name, err)
			}
		})
	}
}

// Whether a call has left is not guessed where gRPC is kept from saying so.
func TestUnaryWithoutOptions(t *testing.T) {
	deafen := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, _ ...grpc.CallOption) error {
		return invoker(ctx, method, req, reply, cc)
	}
	bubble.Test(t, func(t *testing.T) {
		s := &script{steps: []step{fails(off, "")}}
		conn := pipe(t, s.echoes())(&Client{Throttles: &throttle.Group{New: unpaced}}, grpc.WithChainUnaryInterceptor(deafen))
		var e *throttle.Error
		if err := call1(t.Context(), conn); !errors.As(err, &e) || !e.MayHaveRun {
			t.Errorf("%v, %+v; want that it may have run", err, e)
		}
	})
}

func TestNames(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var made []string
		c := &Client{
			Name: func(_ context.Context, target, method string) string {
				return target + " " + method
			},
			Throttles: &throttle.Group{
				New:        func(name string) *throttle.Throttle { made = append(made, name); return nil },
				MaxMembers: 1,
			},
		}
		connect := pipe(t, &service{echo: same, count: numbers})
		conn := connect(c)
		for range 2 {
			if err := errors.Join(call1(t.Context(), conn), call1(t.Context(), conn)); err != nil {
				t.Fatal(err)
			}
			s, err := counted(t.Context(), conn, 3)
			if err != nil {
				t.Fatal(err)
			}
			if n, err := drain(s); n != 3 || err != nil {
				t.Errorf("%d messages, %v; want 3", n, err)
			}
			synctest.Wait()
		}
		want := []string{"passthrough:///pipe " + echo, "passthrough:///pipe " + count}
		if want = append(want, want...); !slices.Equal(made, want) || c.Throttles.Len() != 1 {
			t.Errorf("made %q, %d are kept; want %q, 1", made, c.Throttles.Len(), want)
		}
	})
}
