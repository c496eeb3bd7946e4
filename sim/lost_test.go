package sim

import (
	"testing"
	"time"
)

// A request whose answer is lost holds its place until it times out. Where one in
// a hundred is, Adaptive allows for those places, as they are no queue of the
// server, and does not take two that fall together for an overload.
func TestInFlightLostAnswers(t *testing.T) {
	for _, c := range []struct {
		service, timeout time.Duration
		width            int
		least            float64 // of the goodput without losses
	}{
		{2 * time.Millisecond, 600 * time.Millisecond, 8, 0.9},
		{10 * time.Millisecond, 600 * time.Millisecond, 5, 0.9},
		{10 * time.Millisecond, time.Second, 32, 0.94},
	} {
		s := database("lost", 20*time.Second)
		s.Server.Service.Time, s.Server.Service.AtOnce = c.service, c.width
		s.Clients[0].Timeout = c.timeout
		whole := seconds(t, s, "none(in-flight=adaptive)", 1)
		s.Network.Loss = 0.01
		got := seconds(t, s, "none(in-flight=adaptive)", 1)
		part := sum(got[5:]) / sum(whole[5:])
		t.Logf("%v x %d, time-out %v: %.2f of the goodput without losses", c.service, c.width, c.timeout, part)
		if part < c.least {
			t.Errorf("%v x %d, time-out %v, one answer in a hundred lost: %.2f of the goodput without losses, want at least %v", c.service, c.width, c.timeout, part, c.least)
		}
	}
}

// sum adds up.
func sum(x []float64) (s float64) {
	for _, v := range x {
		s += v
	}
	return s
}
