package sim

import (
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// Where answers take longer than the window of a limit lasts, what they say
// remains is long over when they come. Clients that are told are refused no more,
// and served no less, than those that are told nothing.
func TestSlowAnswersOfShortWindows(t *testing.T) {
	told := Hints{Remaining: true, RetryAfter: true, Reset: true, Policy: true}
	for _, kind := range []limit.Kind{limit.FixedWindow, limit.SlidingLog, limit.SlidingWindow} {
		for _, latency := range []time.Duration{300 * time.Millisecond, time.Second, 5 * time.Second} {
			run := func(h Hints) (refused, used float64) {
				s := Scenario{
					Name: "slow-answers", Duration: 2 * time.Minute,
					Server:  Server{Limit: limit.Limit{Kind: kind, Count: 100, Period: time.Second}, Hints: h},
					Network: Network{Latency: latency, Spread: 0.2},
					Clients: []Group{{Processes: 5, Workers: 300, Arrivals: 18}},
				}
				if err := s.Check(); err != nil {
					t.Fatal(err)
				}
				r := play(t, s, "adaptive-informed", 1)
				return r.RetryRate.V, r.Utilisation.V
			}
			blind, without := run(Hints{})
			refused, used := run(told)
			t.Logf("%v, answers after %v: %.1f %% refused, %.2f used; told nothing %.1f %%, %.2f", kind, latency, 100*refused, used, 100*blind, without)
			if refused > blind+0.05 || used < 0.75*without {
				t.Errorf("%v, answers after %v: %.1f %% refused and %.2f used; told nothing %.1f %% and %.2f", kind, latency, 100*refused, used, 100*blind, without)
			}
		}
	}
}
