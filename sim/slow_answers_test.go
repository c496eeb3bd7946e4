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

// TestJobsOfVaryingAnswers: where answers take 5 s or so, some much longer, requests are always in
// flight. Their number does not grow without end; and a client alone that hears that much remains
// does not wait for ten of them, one after the other.
func TestJobsOfVaryingAnswers(t *testing.T) {
	log := limit.Limit{Kind: limit.SlidingLog, Count: 42, Period: 10 * time.Second}
	bucket := limit.Limit{Count: 500, Period: time.Minute, Burst: 500}
	for _, c := range []struct {
		name    string
		limit   limit.Limit
		told    Hints
		calls   int64
		done    time.Duration // median of five seeds, at most
		refused float64       // the same
	}{
		{"twelve windows", log, Hints{}, 578, 220 * time.Second, 160},
		{"twelve windows, told the policy", log, Hints{Policy: true}, 578, 220 * time.Second, 40},
		{"less than remains", bucket, Hints{Remaining: true, Policy: true, Reset: true}, 300, 30 * time.Second, 0},
		{"three times as much", bucket, Hints{Remaining: true, Policy: true, Reset: true}, 1500, 160 * time.Second, 60},
	} {
		s := Scenario{
			Name: "varying", Duration: 20 * time.Minute,
			Server:  Server{Limit: c.limit, Hints: c.told},
			Network: Network{Latency: 5 * time.Second, Spread: 0.2, Tail: 0.5},
			Clients: []Group{{Processes: 1, Workers: int(c.calls), Work: c.calls}},
		}
		var ends, refused []float64
		for seed := range uint64(5) {
			r := play(t, s, "adaptive-informed", seed+1)
			ends, refused = append(ends, r.Finish.V), append(refused, float64(r.Throttled))
			if !r.Finish.OK {
				t.Errorf("%s, seed %d: not done", c.name, seed+1)
			}
		}
		done, no := median(ends), median(refused)
		if t.Logf("%s: done in %.0f s, %.0f refused", c.name, done, no); done > c.done.Seconds() || no > c.refused {
			t.Errorf("%s: done in %.0f s, %.0f refused; want %v and %.0f at most", c.name, done, no, c.done, c.refused)
		}
	}
}

// Services whose answers take half of the window hear late what remains, and all at once: those
// that it lets start must not take it many times over.
func TestLateAnswersOfALog(t *testing.T) {
	for _, kind := range []limit.Kind{limit.SlidingLog, limit.SlidingSlots} {
		for _, reset := range []bool{false, true} {
			s := Scenario{
				Name: "late", Duration: 5 * time.Minute,
				Server:  Server{Limit: limit.Limit{Kind: kind, Count: 1038, Period: 10 * time.Second}, Hints: Hints{Remaining: true, Reset: reset}},
				Network: Network{Latency: 5100 * time.Millisecond, Spread: 0.2},
				Clients: []Group{{Processes: 10, Workers: 200, Arrivals: 8.82}},
			}
			_, refused := atP99(t, s, 5)
			if t.Logf("%v, reset stated: %v: %.1f %% refused", kind, reset, 100*refused); refused > 0.08 {
				t.Errorf("%v, reset stated: %v: %.1f %% refused, want at most 8 %%", kind, reset, 100*refused)
			}
		}
	}
}
