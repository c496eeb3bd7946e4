package sim

import (
	"math"
	"testing"

	"github.com/throttle-go/throttle/pace"
)

// TestForecasts: in steady state the wait that is foreseen when a call comes
// is, on average and for most calls, the wait that it has.
func TestForecasts(t *testing.T) {
	for _, name := range []string{"adaptive", "adaptive-informed", "fixed(rate=3)"} {
		s := builtin(t, "emr-workers")
		s.Clients[0].Work = 4000
		r := New(s, policy(t, name), 1)
		var foreseen, waited float64
		var near, all int
		r.start = func(ticket *pace.Ticket) {
			w := ticket.Owner.(*worker)
			if f := ticket.Forecast; r.now > 100e9 && ticket.Tries() == 1 && f != pace.Never {
				took := float64(r.now-w.wish) / 1e9
				foreseen, waited = foreseen+f.Seconds(), waited+took
				all++
				if math.Abs(f.Seconds()-took) <= 0.2*took+0.05 {
					near++
				}
			}
			r.send(w)
		}
		for !r.Step(1_000_000) {
		}
		if all < 3000 || math.Abs(foreseen-waited) > 0.1*waited || float64(near) < 0.8*float64(all) {
			t.Errorf("%s: of %d waits %.0f s in all, %.0f s were foreseen, %d within 20 %%; want within 10 %% in all and 80 %% of them",
				name, all, waited, foreseen, near)
		}
	}
}
