package throttlegrpc

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/pace"
)

// counts is a service of which Count follows s, and if that goes well, counts.
func (s *script) counts() *service {
	return &service{count: func(n int64, ss grpc.ServerStream) error {
		if err := s.next(ss.Context()); err != nil {
			return err
		}
		return numbers(n, ss)
	}}
}

// later is a step that takes its time.
func later(d time.Duration, then step) step {
	return func(ctx context.Context) error {
		select {
		case <-time.After(d):
			return then(ctx)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// one is a Client of one Throttle.
func one(th *throttle.Throttle) *Client {
	return &Client{Throttles: &throttle.Group{New: func(string) *throttle.Throttle { return th }}}
}

// A stream that is refused before its first message is opened again, be it
// refused at once or late, and the reader sees nothing of it.
func TestStreamIsReopened(t *testing.T) {
	for _, c := range []struct {
		name  string
		first step
		code  codes.Code
		tries int
		lasts time.Duration
		asked int64 // tries of the Throttle
	}{
		{"not refused", well, codes.OK, 1, 0, 1},
		{"refused", fails(all, "", after(2*time.Second)), codes.OK, 2, 2 * time.Second, 2},
		{"pushed back", fails(all, "", pushback, "500"), codes.OK, 2, time.Second / 2, 2},
		{"refused for good", fails(all, "", pushback, "-1"), all, 1, 0, 1},
		{"refused late", later(5*time.Second, fails(all, "", after(2*time.Second))), codes.OK, 2, 7 * time.Second, 3},
		{"refused late for good", later(5*time.Second, fails(all, "", pushback, "-1")), all, 1, 5 * time.Second, 1},
		{"unavailable", fails(off, ""), off, 1, 0, 1},
		{"unavailable with RetryInfo", fails(off, "", after(time.Second)), codes.OK, 2, time.Second, 2},
		{"another failure", fails(codes.NotFound, "", after(time.Second)), codes.NotFound, 1, 0, 1},
		{"another failure, late", later(5*time.Second, fails(codes.NotFound, "")), codes.NotFound, 1, 5 * time.Second, 1},
	} {
		for _, header := range []string{"not asked for", "first", "meanwhile"} {
			bubble.Test(t, func(t *testing.T) {
				s := &script{steps: []step{c.first, well}}
				var told throttle.Counter
				th := &throttle.Throttle{Control: pace.All(nil), OnEvent: told.OnEvent}
				conn := pipe(t, s.counts())(one(th))
				began := time.Now()
				cs, err := counted(t.Context(), conn, 3)
				if err != nil {
					t.Fatalf("%s: %v", c.name, err)
				}
				var asking sync.WaitGroup
				switch header {
				case "meanwhile":
					asking.Go(func() { cs.Header() })
				case "first":
					want := c.code == codes.OK
					if md, err := cs.Header(); (md != nil) != want || err != nil {
						t.Errorf("%s: header %v, %v; want one: %t", c.name, md, err, want)
					}
				}
				n, err := drain(cs)
				lasted := time.Since(began)
				if status.Code(err) != c.code || len(s.calls()) != c.tries || lasted != c.lasts || (n == 3) != (c.code == codes.OK) {
					t.Errorf("%s: %d messages, %v after %d tries and %v; want %v after %d and %v", c.name, n, err, len(s.calls()), lasted, c.code, c.tries, c.lasts)
				}
				asking.Wait()
				synctest.Wait() // the Throttle hears of it in a goroutine of its own
				if n := told.Stats().Starts; th.Waiting()+th.InFlight() != 0 || n != c.asked {
					t.Errorf("%s: %d waiting and %d in flight are left after %d; want none after %d", c.name, th.Waiting(), th.InFlight(), n, c.asked)
				}
			})
		}
	}
}

// What cannot be undone is not done again, and the error says so.
func TestStreamIsNotReopened(t *testing.T) {
	slowDown := fails(all, "slow down", after(time.Second))
	after1 := func(ss grpc.ServerStream) error {
		in := new(wrapperspb.Int64Value)
		if err := ss.RecvMsg(in); err != nil {
			return err
		}
		return slowDown(ss.Context())
	}
	s := &service{
		count: func(_ int64, ss grpc.ServerStream) error {
			return errors.Join(numbers(1, ss), slowDown(ss.Context()))
		},
		sum:  after1,
		chat: func(ss grpc.ServerStream) error { return slowDown(ss.Context()) },
	}
	for _, c := range []struct {
		name   string
		desc   *grpc.StreamDesc
		method string
		send   bool
		mayRun bool
	}{
		{"a client that streams", descSum, sum, true, true},
		{"both stream", descChat, chat, false, false},
		{"both stream, a message was sent", descChat, chat, true, true},
	} {
		bubble.Test(t, func(t *testing.T) {
			conn := pipe(t, s)(&Client{Throttles: &throttle.Group{New: unpaced}})
			cs, err := conn.NewStream(t.Context(), c.desc, c.method)
			if err == nil && c.send {
				err = cs.SendMsg(wrapperspb.Int64(1))
			}
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			err = cs.RecvMsg(new(wrapperspb.Int64Value))
			var e *throttle.Error
			if status.Code(err) != all || !errors.As(err, &e) || e.Tries != 1 || e.MayHaveRun != c.mayRun {
				t.Errorf("%s: %v, %+v; want one try that may have run: %t", c.name, err, e, c.mayRun)
			}
		})
	}
	bubble.Test(t, func(t *testing.T) {
		cs, err := counted(t.Context(), pipe(t, s)(&Client{Throttles: &throttle.Group{New: unpaced}}), 1)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := drain(cs); n != 1 || status.Code(err) != all {
			t.Errorf("refused after a message: %d messages, %v; want 1 and the refusal", n, err)
		}
	})
}

// A stream that may be executed twice is opened again when it fails.
func TestStreamRepeats(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := &script{steps: []step{fails(off, ""), later(3*time.Second, fails(off, "")), well}}
		c := &Client{Throttles: &throttle.Group{New: unpaced}, Repeat: func(method string) bool { return method == count }}
		cs, err := counted(t.Context(), pipe(t, s.counts())(c), 3)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := drain(cs); n != 3 || err != nil || len(s.calls()) != 3 {
			t.Errorf("%d messages, %v after %d tries; want 3 after 3", n, err, len(s.calls()))
		}
	})
}

// A stream is in flight until it is accepted, or quiet for long enough.
func TestStreamInFlight(t *testing.T) {
	event := make(chan struct{})
	s := &service{chat: func(ss grpc.ServerStream) error {
		switch metadata.ValueFromIncomingContext(ss.Context(), "do")[0] {
		case "header":
			ss.SendHeader(metadata.Pairs("a", "b"))
		case "message":
			ss.SendMsg(wrapperspb.Int64(1))
		}
		select {
		case <-event:
		case <-ss.Context().Done():
		}
		return ss.Context().Err()
	}}
	for _, c := range []struct {
		do   string
		then func(cs grpc.ClientStream, cancel func()) error
		in   time.Duration // until it is not in flight
	}{
		{"header", func(cs grpc.ClientStream, _ func()) error { _, err := cs.Header(); return err }, 0},
		{"message", func(cs grpc.ClientStream, _ func()) error { return cs.RecvMsg(new(wrapperspb.Int64Value)) }, 0},
		{"nothing", func(_ grpc.ClientStream, cancel func()) error { cancel(); return nil }, 0},
		{"nothing", func(grpc.ClientStream, func()) error { return nil }, quiet},
	} {
		bubble.Test(t, func(t *testing.T) {
			event = make(chan struct{})
			th := new(throttle.Throttle)
			conn := pipe(t, s)(one(th))
			ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(t.Context(), "do", c.do))
			defer cancel()
			cs, err := conn.NewStream(ctx, descChat, chat)
			if err != nil || th.InFlight() != 1 {
				t.Fatalf("%s: %v, %d in flight; want 1", c.do, err, th.InFlight())
			}
			began := time.Now()
			if err := c.then(cs, cancel); err != nil {
				t.Fatalf("%s: %v", c.do, err)
			}
			if c.in > 0 {
				time.Sleep(c.in - 1)
				synctest.Wait()
				if th.InFlight() != 1 {
					t.Errorf("%s: %d in flight after %v, want 1", c.do, th.InFlight(), time.Since(began))
				}
				time.Sleep(time.Nanosecond)
			}
			synctest.Wait()
			if th.InFlight() != 0 || time.Since(began) != c.in {
				t.Errorf("%s: %d in flight after %v, want none", c.do, th.InFlight(), time.Since(began))
			}
		})
	}
}

// Many quiet streams can be open at a time, though nothing is known of a limit.
func TestManyQuietStreams(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		th := new(throttle.Throttle)
		conn := pipe(t, &service{chat: func(ss grpc.ServerStream) error {
			<-ss.Context().Done()
			return nil
		}})(one(th))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for i := range 20 {
			if _, err := conn.NewStream(ctx, descChat, chat); err != nil {
				t.Fatalf("stream %d: %v", i, err)
			}
		}
	})
}

// What lies between may keep gRPC from saying when a stream ends.
func TestStreamWithoutOptions(t *testing.T) {
	deafen := func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, _ ...grpc.CallOption) (grpc.ClientStream, error) {
		return streamer(ctx, desc, cc, method)
	}
	bubble.Test(t, func(t *testing.T) {
		s := &script{steps: []step{fails(all, ""), well}}
		th := new(throttle.Throttle)
		th.Control = pace.All(nil)
		both := s.counts()
		both.chat = func(ss grpc.ServerStream) error { <-ss.Context().Done(); return nil }
		conn := pipe(t, both)(one(th), grpc.WithChainStreamInterceptor(deafen))
		began := time.Now()
		cs, err := counted(t.Context(), conn, 3)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := drain(cs); n != 3 || err != nil || time.Since(began) != 0 {
			t.Errorf("%d messages, %v after %v; want 3 at once", n, err, time.Since(began))
		}
		if cs, err = counted(t.Context(), conn, 0); err != nil {
			t.Fatal(err)
		}
		if n, err := drain(cs); n != 0 || err != nil {
			t.Errorf("%d messages, %v; want none", n, err)
		}
		if synctest.Wait(); th.InFlight() != 0 {
			t.Errorf("%d in flight after the end, want none", th.InFlight())
		}
		if cs, err = conn.NewStream(t.Context(), descChat, chat); err != nil {
			t.Fatal(err)
		}
		err = cs.SendMsg("no message")
		synctest.Wait()
		if status.Code(err) != codes.Internal || th.InFlight() != 0 {
			t.Errorf("%v, %d in flight; want an error of the codec, and none", err, th.InFlight())
		}
	})
}

func TestStreamPassesThrough(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := &service{chat: func(ss grpc.ServerStream) error {
			ss.SetTrailer(metadata.Pairs("sum", "known"))
			total := int64(0)
			for {
				in := new(wrapperspb.Int64Value)
				if err := ss.RecvMsg(in); err == io.EOF {
					return nil
				} else if err != nil {
					return err
				}
				total += in.Value
				if err := ss.SendMsg(wrapperspb.Int64(total)); err != nil {
					return err
				}
			}
		}}
		cs, err := pipe(t, s)(new(Client)).NewStream(t.Context(), descChat, chat)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []int64{1, 3, 6, 10} {
			out := new(wrapperspb.Int64Value)
			if err := errors.Join(cs.SendMsg(wrapperspb.Int64(int64(i)+1)), cs.RecvMsg(out)); err != nil || out.Value != want {
				t.Errorf("message %d: %d, %v; want %d", i, out.Value, err, want)
			}
		}
		if err := errors.Join(cs.CloseSend(), cs.Context().Err()); err != nil {
			t.Error(err)
		}
		if err := cs.RecvMsg(new(wrapperspb.Int64Value)); err != io.EOF || cs.Trailer().Get("sum") == nil {
			t.Errorf("the end is %v with trailer %v, want io.EOF with one", err, cs.Trailer())
		}
	})
}

// A stream that cannot be opened, or whose wait would be too long.
func TestStreamDoesNotOpen(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		th := &throttle.Throttle{Control: pace.All(nil)}
		conn := dial(t, "passthrough:///nowhere", one(th), grpc.WithContextDialer(unreachable))
		_, err := conn.NewStream(t.Context(), descChat, chat)
		var e *throttle.Error
		if status.Code(err) != off || !errors.As(err, &e) || e.MayHaveRun {
			t.Errorf("unreachable: %v, %+v; want UNAVAILABLE, and that it has not run", err, e)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		s := &script{steps: []step{fails(all, "", after(time.Minute))}}
		cs, err := counted(ctx, pipe(t, s.counts())(one(th)), 1)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := drain(cs); status.Code(err) != all || !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 0 {
			t.Errorf("a minute's wait within a second: %v after %v; want the refusal, at once", err, time.Since(began))
		}
	})
}
