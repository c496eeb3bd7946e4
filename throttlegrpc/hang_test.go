package throttlegrpc

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"
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
		synctest.Test(t, func(t *testing.T) {
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
