package throttlegrpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/rules"
	"github.com/throttle-go/throttle/store"
)

// told is all that an answer says of limits, on one line.
func told(err error, header, trailer metadata.MD) string {
	st := status.Convert(err)
	text := st.Code().String()
	for _, d := range st.Details() {
		switch d := d.(type) {
		case *errdetails.RetryInfo:
			text += fmt.Sprint(" retry ", d.RetryDelay.AsDuration())
		case *errdetails.QuotaFailure:
			for _, v := range d.Violations {
				text += fmt.Sprintf(" quota %s (%s)", v.Subject, v.Description)
			}
		}
	}
	for _, name := range []string{pushback, "ratelimit", "ratelimit-policy", "retry-after"} {
		if v := trailer[name]; v != nil {
			text += fmt.Sprintf(" %s: %s", strings.TrimPrefix(name, "grpc-"), strings.Join(v, " AND "))
		}
	}
	if header != nil {
		text += " after a header"
	}
	return text
}

// limited serves s under the limit and is a connection to it.
func limited(t testing.TB, s *service, l *Server, more ...grpc.ServerOption) *grpc.ClientConn {
	t.Helper()
	return pipe(t, s, append(more, grpc.ChainUnaryInterceptor(l.Unary), grpc.ChainStreamInterceptor(l.Stream))...)(nil)
}

func TestServerTells(t *testing.T) {
	minute := limit.Limit{Count: 2, Period: time.Minute}
	for _, c := range []struct {
		name   string
		server *Server
		want   []string
	}{
		{"nothing set", &Server{}, []string{"OK after a header"}},
		{"a limit", &Server{Control: &admit.Control{Limit: minute}}, []string{
			`OK ratelimit: "default";r=1;t=30 ratelimit-policy: "default";q=2;w=60 after a header`,
			`OK ratelimit: "default";r=0;t=60 ratelimit-policy: "default";q=2;w=60 after a header`,
			`ResourceExhausted quota default (2/min) retry 30s retry-pushback-ms: 30000 ratelimit: "default";r=0;t=30 ratelimit-policy: "default";q=2;w=60`,
		}},
		{"fractions of a millisecond", &Server{Control: &admit.Control{Name: "calls", Limit: limit.Limit{Count: 3000, Burst: 1, Period: time.Second}}}, []string{
			`OK ratelimit: "calls";r=0;t=1 ratelimit-policy: "calls";q=3000;w=1;throttle-burst=1 after a header`,
			`ResourceExhausted quota calls (3000/s burst 1) retry 1ms retry-pushback-ms: 1 ratelimit: "calls";r=0;t=1 ratelimit-policy: "calls";q=3000;w=1;throttle-burst=1`,
		}},
		{"never", &Server{Control: &admit.Control{Limit: minute}, Request: costs(3)}, []string{
			`ResourceExhausted quota default (2/min) retry-pushback-ms: -1 ratelimit: "default";r=2 ratelimit-policy: "default";q=2;w=60`,
		}},
		{"a cost below zero", &Server{Control: &admit.Control{Limit: minute}, Silent: true, Request: costs(2, -3, 1)}, []string{
			"OK after a header", "OK after a header", "ResourceExhausted quota default () retry 30s retry-pushback-ms: 30000",
		}},
		{"silent", &Server{Control: &admit.Control{Limit: minute}, Silent: true}, []string{
			"OK after a header", "OK after a header", "ResourceExhausted quota default () retry 30s retry-pushback-ms: 30000",
		}},
		{"a plan", &Server{Silent: true, Control: &admit.Control{LimitFor: func(q admit.Request) limit.Limit {
			return limit.Limit{Count: 1, Period: time.Duration(len(q.Path)) * time.Second}
		}}}, []string{"OK after a header", "ResourceExhausted quota default () retry 27s retry-pushback-ms: 27000"}},
	} {
		bubble.Test(t, func(t *testing.T) {
			conn := limited(t, &service{echo: same}, c.server)
			for i, want := range c.want {
				var header, trailer metadata.MD
				err := call1(t.Context(), conn, grpc.Header(&header), grpc.Trailer(&trailer))
				if got := told(err, header, trailer); got != want {
					t.Errorf("%s, call %d:\ngot  %s\nwant %s", c.name, i, got, want)
				}
			}
		})
	}
}

// costs are those of one call after the other.
func costs(n ...int64) func(context.Context, any, admit.Request) admit.Request {
	return func(_ context.Context, _ any, q admit.Request) admit.Request {
		q.Cost = func(string) (cost int64) {
			cost, n = n[0], n[1:]
			return cost
		}
		return q
	}
}

func TestMilliseconds(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0", 1: "1", time.Millisecond: "1", time.Millisecond + 1: "2", time.Hour: "3600000",
		(math.MaxInt32 + 1) * time.Millisecond: "2147483647", limit.Never: "2147483647",
	} {
		if got := milliseconds(d); got != want {
			t.Errorf("milliseconds(%v) = %s, want %s", d, got, want)
		}
	}
}

// TestServerKeys: without a key of its own a call is charged to the address that
// it came from.
func TestServerKeys(t *testing.T) {
	var asked []string
	s := &Server{Control: &admit.Control{
		Name: "n", Limit: limit.Limit{Count: 1, Period: 1},
		Store: store.Func(func(_ context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
			asked = append(asked, a[0].Key)
			d[0].OK = true
			return true, nil
		}),
	}}
	unary := func(ctx context.Context) {
		t.Helper()
		if _, err := s.Unary(ctx, nil, &grpc.UnaryServerInfo{FullMethod: echo}, func(context.Context, any) (any, error) { return nil, nil }); err != nil {
			t.Error(err)
		}
	}
	for _, c := range []struct {
		addr net.Addr
		want string
	}{
		{&net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 99}, "n/192.0.2.7"},
		{&net.TCPAddr{IP: net.ParseIP("::ffff:192.0.2.7"), Port: 99}, "n/192.0.2.7"},
		{net.TCPAddrFromAddrPort(netip.MustParseAddrPort("[2001:db8:1:2:3:4:5:6]:99")), "n/2001:db8:1:2::/64"},
		{net.TCPAddrFromAddrPort(netip.MustParseAddrPort("[fe80::7%eth0]:99")), "n/fe80::7"},
		{&net.UnixAddr{Name: "/run/a.sock", Net: "unix"}, "n/"},
		{&net.UnixAddr{Name: "192.0.2.7:99", Net: "unix"}, "n/"},
		{nil, "n/"},
	} {
		asked = nil
		unary(peer.NewContext(t.Context(), &peer.Peer{Addr: c.addr}))
		if len(asked) != 1 || asked[0] != c.want {
			t.Errorf("a call from %v is charged to %q, want %q", c.addr, asked, c.want)
		}
	}
	asked = nil
	unary(t.Context())
	s.Messages = &admit.Control{Name: "messages", Limit: s.Control.Limit, Store: s.Control.Store}
	s.Request = func(_ context.Context, _ any, q admit.Request) admit.Request {
		q.Key = q.Header("Api-Key")
		return q
	}
	bubble.Test(t, func(t *testing.T) {
		conn := limited(t, &service{echo: same, count: numbers}, s)
		ctx := metadata.AppendToOutgoingContext(t.Context(), "api-key", "k", "api-key", "l")
		cs, err := counted(ctx, conn, 1)
		if err == nil {
			_, err = drain(cs)
		}
		if err = errors.Join(err, call1(ctx, conn)); err != nil {
			t.Error(err)
		}
	})
	if got, want := strings.Join(asked, " "), "n/ n/k,l messages/k,l n/k,l"; got != want {
		t.Errorf("asked for keys %q, want %q", got, want)
	}
}

// TestServerBehindProxies: behind a proxy that the rules trust, calls and messages are
// charged to the address that it states; nobody else states one.
func TestServerBehindProxies(t *testing.T) {
	live := new(rules.Live)
	compiled, err := rules.Parse([]byte(`{"proxies": {"trusted": "192.0.2.0/24"}, "rules": {"name": "a", "key": "address", "limits": "1000/s"}}`))
	if err != nil {
		t.Fatal(err)
	}
	live.Swap(compiled)
	s := &Server{Control: &admit.Control{Rules: live}, Messages: &admit.Control{Rules: live}}
	for _, c := range []struct {
		peer      string
		forwarded []string
		want      string
	}{
		{"192.0.2.7:99", nil, "192.0.2.7"},
		{"192.0.2.7:99", []string{"198.51.100.1"}, "198.51.100.1"},
		{"192.0.2.7:99", []string{"10.9.9.9, 198.51.100.1", "192.0.2.8"}, "198.51.100.1"},
		{"[::ffff:192.0.2.7]:99", []string{"2001:db8::1"}, "2001:db8::1"},
		{"203.0.113.7:99", []string{"198.51.100.1"}, "203.0.113.7"},
	} {
		ctx := peer.NewContext(t.Context(), &peer.Peer{Addr: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(c.peer))})
		ctx = metadata.NewIncomingContext(ctx, metadata.MD{"x-forwarded-for": c.forwarded})
		for _, control := range []*admit.Control{s.Control, s.Messages} {
			a, err := s.begin(ctx, control, echo, nil)
			if err != nil || a.Request.Address.String() != c.want {
				t.Errorf("a call from %s, x-forwarded-for %q: of %v, %v; want %s", c.peer, c.forwarded, a.Request.Address, err, c.want)
			}
			a.Done()
		}
	}
}

// When the Store cannot decide, the call is refused in a way that says so.
func TestStoreFails(t *testing.T) {
	broken := store.Func(func(context.Context, []limit.Ask, []limit.Decision) (bool, error) {
		return false, errors.New("secret address")
	})
	second := limit.Limit{Count: 1, Period: time.Second}
	for _, c := range []struct {
		name   string
		server *Server
		want   codes.Code
	}{
		{"as it is", &Server{Control: &admit.Control{Store: broken, Limit: second}}, off},
		{"open", &Server{Control: &admit.Control{Store: store.FailOpen(broken), Limit: second}}, codes.OK},
		{"an error of one's own", &Server{Control: &admit.Control{Store: broken, Limit: second}, Error: func(_ context.Context, method string, err error) error {
			return status.Errorf(codes.Aborted, "%s: %v", method, err)
		}}, codes.Aborted},
		{"no limit", &Server{Control: &admit.Control{Store: broken, MaxInFlight: 1}}, codes.OK},
	} {
		bubble.Test(t, func(t *testing.T) {
			c.server.Control.InFlight = new(store.InFlight)
			c.server.Control.MaxInFlight = 1
			conn := limited(t, &service{echo: same}, c.server)
			for range 2 {
				err := call1(t.Context(), conn)
				if status.Code(err) != c.want || c.want == off && strings.Contains(err.Error(), "secret") {
					t.Errorf("%s: %v, want %v without the cause", c.name, err, c.want)
				}
			}
			if held := c.server.Control.InFlight.Stats().Holds; held != 0 {
				t.Errorf("%s: %d are held still", c.name, held)
			}
		})
	}
}

// A caller that has gone is no fault of the Store.
func TestServerCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := &Server{Control: &admit.Control{Limit: limit.Limit{Count: 1, Period: time.Second}}, Error: func(_ context.Context, _ string, err error) error {
		t.Errorf("Error(%v) was called", err)
		return err
	}}
	if _, err := s.Unary(ctx, nil, &grpc.UnaryServerInfo{FullMethod: echo}, nil); status.Code(err) != codes.Canceled {
		t.Errorf("Unary under a cancelled context: %v, want CANCELLED", err)
	}
}

// What is in flight is released once, however it ends.
func TestServerInFlight(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := &Server{Control: &admit.Control{MaxInFlight: 2, InFlight: new(store.InFlight)}}
		release := make(chan struct{})
		block := func(ctx context.Context, text string) (string, error) {
			if text == "panic" {
				panic(text)
			}
			select {
			case <-release:
			case <-ctx.Done():
			}
			return text, ctx.Err()
		}
		conn := limited(t, &service{
			echo: block,
			chat: func(ss grpc.ServerStream) error { _, err := block(ss.Context(), ""); return err },
		}, s, grpc.ChainUnaryInterceptor(recovers))
		held := func() int { synctest.Wait(); return s.Control.InFlight.Stats().Holds }

		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 2)
		go func() { ended <- call1(ctx, conn) }()
		cs, err := conn.NewStream(ctx, descChat, chat)
		if err != nil || held() != 2 {
			t.Fatalf("%v, %d held, want 2", err, held())
		}
		var trailer metadata.MD
		err = call1(t.Context(), conn, grpc.Trailer(&trailer))
		if got, want := told(err, nil, trailer), "Unavailable quota default (too many in flight) retry 1s retry-pushback-ms: 1000"; got != want {
			t.Errorf("a third: %s, want %s", got, want)
		}
		cancel()
		if err := errors.Join(cs.RecvMsg(new(wrapperspb.Int64Value)), <-ended); err == nil || held() != 0 {
			t.Errorf("cancelled: %v, %d held, want none", err, held())
		}
		for range 3 {
			err := conn.Invoke(t.Context(), echo, wrapperspb.String("panic"), new(wrapperspb.StringValue))
			if status.Code(err) != codes.Internal || held() != 0 {
				t.Errorf("after a panic: %v, %d held, want none", err, held())
			}
		}
		close(release)
		if err := call1(t.Context(), conn); err != nil || held() != 0 {
			t.Errorf("served: %v, %d held, want none", err, held())
		}
	})
}

// recovers answers for a handler that panics.
func recovers(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (_ any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = status.Error(codes.Internal, fmt.Sprint(p))
		}
	}()
	return handler(ctx, req)
}

// Messages of a stream count by their cost; the one too many ends it, whatever the
// method returns.
func TestMessages(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := &Server{
			Messages: &admit.Control{Limit: limit.Limit{Count: 10, Period: time.Minute}, Name: "messages"},
			Request: func(_ context.Context, in any, q admit.Request) admit.Request {
				if m, ok := in.(*wrapperspb.Int64Value); ok {
					q.Cost = func(string) int64 { return m.Value }
				}
				return q
			},
		}
		reads := func(ss grpc.ServerStream) {
			for ss.RecvMsg(new(wrapperspb.Int64Value)) == nil {
			}
		}
		for name, method := range map[string]func(grpc.ServerStream) error{
			"reads on": func(ss grpc.ServerStream) error {
				reads(ss)
				return ss.RecvMsg(new(wrapperspb.Int64Value)) // the same again
			},
			"takes it for the end":    func(ss grpc.ServerStream) error { reads(ss); return nil },
			"has an error of its own": func(ss grpc.ServerStream) error { reads(ss); return io.ErrUnexpectedEOF },
		} {
			conn := limited(t, &service{sum: method}, s)
			cs, err := conn.NewStream(t.Context(), descSum, sum)
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range []int64{4, 4, 3, 1} {
				if err := cs.SendMsg(wrapperspb.Int64(n)); err != nil {
					t.Fatal(err)
				}
			}
			err = cs.RecvMsg(new(wrapperspb.Int64Value))
			want := `ResourceExhausted quota messages (10/min) retry 6s retry-pushback-ms: 6000`
			if got := told(err, nil, cs.Trailer()); got != want {
				t.Errorf("a method that %s: got  %s\nwant %s", name, got, want)
			}
			time.Sleep(time.Minute) // until the bucket is full again
		}
	})
}
