package throttlegrpc

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/pace"
)

// A call that hangs, and a stream of which nothing is heard, hold up the others
// for a second.
func TestHungCallHoldsNobody(t *testing.T) {
	hangs := later(time.Hour, well)
	for name, hang := range map[string]func(context.Context, *grpc.ClientConn){
		"call": func(ctx context.Context, conn *grpc.ClientConn) { call1(ctx, conn) },
		"stream": func(ctx context.Context, conn *grpc.ClientConn) {
			if cs, err := counted(ctx, conn, 3); err == nil {
				cs.RecvMsg(new(wrapperspb.Int64Value))
			}
		},
	} {
		bubble.Test(t, func(t *testing.T) {
			s := &script{steps: []step{hangs, well}}
			service := s.echoes()
			service.count = s.counts().count
			conn := pipe(t, service)(new(Client))
			ctx, cancel := context.WithCancel(t.Context())
			begin := time.Now()
			go hang(ctx, conn)
			synctest.Wait()
			for range 5 {
				if err := call1(t.Context(), conn); err != nil {
					t.Fatalf("beside a %s that hangs: %v", name, err)
				}
			}
			if d := time.Since(begin); d > 1100*time.Millisecond {
				t.Errorf("beside a %s that hangs five calls took %v, want about a second", name, d)
			}
			cancel()
			synctest.Wait()
		})
	}
}

// The policy of the Throttles that a Client makes is set in its fields.
func TestPolicyFields(t *testing.T) {
	for _, c := range []struct {
		name   string
		client *Client
		answer step
		tries  int
		took   time.Duration
	}{
		{"Retries and Backoff", &Client{Retries: 4, Backoff: pace.Backoff{Base: time.Second, Jitter: pace.PlusMinusJitter, Spread: 1e-17}}, fails(off, ""), 5, 15 * time.Second},
		{"no retries", &Client{Retries: -1}, fails(off, ""), 1, 0},
		{"MaxWait", &Client{MaxWait: time.Minute}, fails(all, "", after(2*time.Minute)), 1, 0},
		{"the longest wait", &Client{}, fails(all, "", after(24*time.Hour)), 1, 0},
	} {
		bubble.Test(t, func(t *testing.T) {
			s := &script{steps: []step{c.answer}}
			c.client.Repeat = func(string) bool { return true }
			conn := pipe(t, s.echoes())(c.client)
			began := time.Now()
			if err := call1(t.Context(), conn); err == nil || len(s.calls()) != c.tries || time.Since(began) != c.took {
				t.Errorf("%s: %v after %d tries and %v; want %d and %v", c.name, err, len(s.calls()), time.Since(began), c.tries, c.took)
			}
		})
	}
}

// A call that lasts until the deadline of its context is reported as timed out; one
// that is cancelled is not.
func TestTimedOut(t *testing.T) {
	for _, c := range []struct {
		name string
		call func(context.Context, *grpc.ClientConn) error
		stop time.Duration // cancelled; zero: not
		want bool
	}{
		{"call", func(ctx context.Context, conn *grpc.ClientConn) error { return call1(ctx, conn) }, 0, true},
		{"cancelled", func(ctx context.Context, conn *grpc.ClientConn) error { return call1(ctx, conn) }, time.Second, false},
	} {
		bubble.Test(t, func(t *testing.T) {
			s := &script{steps: []step{later(time.Hour, well)}}
			var got pace.Report
			var mu sync.Mutex
			conn := pipe(t, s.echoes())(&Client{Throttles: &throttle.Group{New: func(string) *throttle.Throttle {
				return &throttle.Throttle{OnEvent: func(e throttle.Event) {
					mu.Lock()
					defer mu.Unlock()
					if e.Kind == throttle.Ends {
						got = e.Report
					}
				}}
			}}})
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			if c.stop > 0 {
				time.AfterFunc(c.stop, cancel)
			}
			err := c.call(ctx, conn)
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if err == nil || got.TimedOut != c.want {
				t.Errorf("%s: %v, report %+v; want TimedOut %v", c.name, err, got, c.want)
			}
		})
	}
}
