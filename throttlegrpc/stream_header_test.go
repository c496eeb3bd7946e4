package throttlegrpc

import (
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
)

// early sends the header before the request has come, as a proxy may.
func early(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if err := ss.SendHeader(metadata.Pairs("early", "yes")); err != nil {
		return err
	}
	return handler(srv, ss)
}

// A stream whose header was read before its request was sent is not opened again
// once it is refused: its messages would come twice.
func TestStreamWithAHeaderBeforeTheRequest(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := &service{count: func(n int64, ss grpc.ServerStream) error {
			return errors.Join(numbers(n, ss), fails(all, "slow down", after(time.Second))(ss.Context()))
		}}
		conn := pipe(t, s, grpc.StreamInterceptor(early))(&Client{Throttles: &throttle.Group{New: unpaced}, Tries: 3})
		cs, err := conn.NewStream(t.Context(), descCount, count)
		if err != nil {
			t.Fatal(err)
		}
		if md, err := cs.Header(); err != nil || md.Get("early") == nil {
			t.Fatalf("header %v, %v", md, err)
		}
		if err := errors.Join(cs.SendMsg(wrapperspb.Int64(2)), cs.CloseSend()); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for n := range 2 {
			if err := cs.RecvMsg(new(wrapperspb.Int64Value)); err != nil {
				t.Fatalf("message %d: %v", n, err)
			}
		}
		if err := cs.RecvMsg(new(wrapperspb.Int64Value)); status.Code(err) != all || time.Since(began) != 0 {
			t.Errorf("after two messages: %v after %v, want the refusal at once", err, time.Since(began))
		}
	})
}
