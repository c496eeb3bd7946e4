package throttlegrpc

import (
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/internal/bubble"
)

// TestLongStreamsHoldNoPlaces: where a Shedder learns its bound, streams that stay open hold
// no place in it, or some twenty of them would have all calls refused. A bound that is set
// counts them.
func TestLongStreamsHoldNoPlaces(t *testing.T) {
	for most, want := range map[int][2]int{0: {3, 0}, 5: {3, 3}} {
		bubble.Test(t, func(t *testing.T) {
			shed := &admit.Shedder{MaxInFlight: most}
			s := &Server{Control: &admit.Control{Shed: shed}}
			conn := limited(t, &service{echo: same, chat: func(ss grpc.ServerStream) error { <-ss.Context().Done(); return nil }}, s)
			for range 3 {
				if _, err := conn.NewStream(t.Context(), descChat, chat); err != nil {
					t.Fatal(err)
				}
			}
			var got [2]int
			for i := range got {
				synctest.Wait()
				got[i] = shed.Stats().InFlight
				time.Sleep(2 * streaming)
			}
			if err := call1(t.Context(), conn); err != nil || got != want {
				t.Errorf("a bound of %d: %d streams hold places, then %d, and a call: %v; want %d", most, got[0], got[1], err, want)
			}
		})
	}
}
