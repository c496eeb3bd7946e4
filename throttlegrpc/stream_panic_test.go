package throttlegrpc

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/pace"
)

var errBroken = errors.New("of the user")

// brokenControl panics when a call starts.
type brokenControl struct{ pace.Fixed }

func (*brokenControl) Start(time.Time, pace.Request) { panic(errBroken) }

// panicsOn returns the OnEvent that panics at a kind of event.
func panicsOn(k throttle.EventKind) func(throttle.Event) {
	return func(e throttle.Event) {
		if e.Kind == k {
			panic(errBroken)
		}
	}
}

// thrown returns the fault that f panics with.
func thrown(f func()) (thrown *fault) {
	defer func() { thrown, _ = recover().(*fault) }()
	f()
	return nil
}

// Code of the user that panics where a stream is opened ends no process: the
// method that waits for it panics, with the value and its stack.
func TestStreamOpeningPanics(t *testing.T) {
	for _, c := range []struct {
		name   string
		client *Client
		fails  int // the try in which the next interceptor panics; zero: none
		opens  bool
	}{
		{"New", &Client{Throttles: &throttle.Group{New: func(string) *throttle.Throttle { panic(errBroken) }}}, 0, false},
		{"Control", one(&throttle.Throttle{Control: new(brokenControl)}), 0, false},
		{"OnEvent", one(&throttle.Throttle{OnEvent: panicsOn(throttle.Starts)}), 0, false},
		{"interceptor", new(Client), 1, false},
		{"interceptor of the second try", new(Client), 2, true},
	} {
		bubble.Test(t, func(t *testing.T) {
			s, tries := &script{steps: []step{fails(all, ""), well}}, 0
			conn := pipe(t, s.counts())(c.client, grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
				if tries++; tries == c.fails {
					panic(errBroken)
				}
				return open(ctx, desc, cc, method, opts...)
			}))
			var cs grpc.ClientStream
			f := thrown(func() { cs, _ = counted(t.Context(), conn, 1) })
			if opened := cs != nil; opened != c.opens {
				t.Fatalf("%s: the stream opened: %t, want %t", c.name, opened, c.opens)
			}
			if c.opens {
				f = thrown(func() { drain(cs) })
			}
			if f == nil || !errors.Is(f, errBroken) || !strings.Contains(f.Error(), "stream_panic_test.go") {
				t.Errorf("%s: the caller panics with %v, want the value and its stack", c.name, f)
			}
		})
	}
}

// A panic after the server has accepted a stream leaves it open. The method that
// learns a failure of the stream panics, once.
func TestStreamOpenedPanics(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := &service{count: func(n int64, ss grpc.ServerStream) error {
			return errors.Join(numbers(n, ss), status.Error(codes.Internal, "broken"))
		}}
		conn := pipe(t, s)(one(&throttle.Throttle{Control: pace.All(nil), OnEvent: panicsOn(throttle.Ends)}))
		cs, err := counted(t.Context(), conn, 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := cs.RecvMsg(new(wrapperspb.Int64Value)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // the Throttle has heard of it
		f := thrown(func() { err = cs.RecvMsg(new(wrapperspb.Int64Value)) })
		if f == nil || f.Unwrap() != errBroken {
			t.Errorf("RecvMsg returned %v and panicked with %v, want the panic of OnEvent", err, f)
		}
		if err := cs.RecvMsg(new(wrapperspb.Int64Value)); status.Code(err) != codes.Internal {
			t.Errorf("the next RecvMsg: %v, want INTERNAL", err)
		}
	})
}
