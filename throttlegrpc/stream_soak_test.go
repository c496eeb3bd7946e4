package throttlegrpc

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
)

// chance is a source of chance for several goroutines.
type chance struct {
	mu sync.Mutex
	*rand.Rand
}

func (c *chance) upTo(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.IntN(n)
}

// nap sleeps for 3 s at most, or not at all.
func (c *chance) nap() { time.Sleep(time.Duration(max(c.upTo(6000)-3000, 0)) * time.Millisecond) }

// admit refuses a stream before its request was read, early or late, or lets it pass, sometimes
// with a header.
func (c *chance) admit(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	switch c.upTo(6) {
	case 0:
		return early(srv, ss, info, handler)
	case 1:
		c.nap()
		return fails(all, "", after(100*time.Millisecond))(ss.Context())
	}
	return handler(srv, ss)
}

// count sends a few messages, and then ends well or not.
func (c *chance) count(_ int64, ss grpc.ServerStream) error {
	if err := numbers(int64(c.upTo(4)), ss); err != nil {
		return err
	}
	c.nap()
	return []step{well, well, fails(all, "", after(time.Second)), fails(off, ""), fails(codes.Internal, "")}[c.upTo(5)](ss.Context())
}

// read opens a stream, does what a caller may in any order, and reads to the end. Whichever tries
// there were, the messages are those of one.
func (c *chance) read(ctx context.Context, t *testing.T, conn *grpc.ClientConn) {
	cs, err := conn.NewStream(ctx, descCount, count)
	if err != nil {
		return
	}
	var asking sync.WaitGroup
	defer asking.Wait()
	if c.upTo(2) == 0 {
		asking.Go(func() { _, _ = cs.Header() })
		c.nap()
	}
	if err := cs.SendMsg(wrapperspb.Int64(7)); err == nil {
		c.nap()
		_ = cs.CloseSend()
	}
	for n := int64(1); ; n++ {
		in := new(wrapperspb.Int64Value)
		if err := cs.RecvMsg(in); err != nil {
			break
		}
		if in.Value != n {
			t.Errorf("message %d is %d", n, in.Value)
		}
	}
	if err := cs.RecvMsg(new(wrapperspb.Int64Value)); err == nil {
		t.Error("a message after the end")
	}
}

// However servers and callers of streams behave, no message comes twice or is missing, and nothing
// is left in flight.
func TestSoakStreams(t *testing.T) {
	for seed := range uint64(200) {
		bubble.Test(t, func(t *testing.T) {
			c := &chance{Rand: rand.New(rand.NewPCG(seed, 1))}
			th := &throttle.Throttle{Tries: c.upTo(5), MaxInFlight: c.upTo(3)}
			client := one(th)
			client.Repeat = func(string) bool { return seed%3 == 0 }
			conn := pipe(t, &service{count: c.count}, grpc.StreamInterceptor(c.admit))(client)
			var readers sync.WaitGroup
			for range 4 {
				readers.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+c.upTo(20))*time.Second)
					defer cancel()
					c.read(ctx, t, conn)
				})
			}
			readers.Wait()
			time.Sleep(4 * time.Second) // until the server has ended too
			if th.Waiting()+th.InFlight() != 0 {
				t.Errorf("seed %d: %d waiting and %d in flight are left", seed, th.Waiting(), th.InFlight())
			}
		})
	}
}
