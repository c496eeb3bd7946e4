package throttlegrpc

import (
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
)

// What users of other interceptors suffered. Layers of retries that multiply are
// in TestOneLayerRetries, the last real error in TestTheLastStatusIsKept.

// go-grpc-middleware 636: the time for one try ended the stream that it had
// opened.
func TestStreamOutlivesItsTimeout(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := &service{count: func(n int64, ss grpc.ServerStream) error {
			for range n {
				time.Sleep(time.Minute)
				if err := ss.SendMsg(wrapperspb.Int64(1)); err != nil {
					return err
				}
			}
			return nil
		}}
		conn := pipe(t, s)(new(Client))
		cs, err := counted(throttle.WithOptions(t.Context(), throttle.CallOptions{MaxWait: time.Second}), conn, 5)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := drain(cs); n != 5 || err != nil {
			t.Errorf("%d messages, %v of a stream of 5 minutes; want 5", n, err)
		}
	})
}

// sourcegraph 51743: an hour was waited for where failing at once is better.
func TestAnHourIsNotWaitedFor(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := &script{steps: []step{fails(all, "slow down", after(time.Hour))}}
		conn := pipe(t, s.echoes())(new(Client))
		began := time.Now()
		err := call1(throttle.WithOptions(t.Context(), throttle.CallOptions{MaxWait: 3 * time.Second}), conn)
		var gaveUp *throttle.Error
		if !errors.As(err, &gaveUp) || gaveUp.Wait < time.Hour || gaveUp.MayHaveRun || time.Since(began) != 0 || len(s.calls()) != 1 {
			t.Errorf("%v after %v and %d tries; want at once, after 1, that it would wait an hour, and has not run", err, time.Since(began), len(s.calls()))
		}
	})
}
