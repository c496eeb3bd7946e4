package sim

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/pace"
)

// minutes returns Jain's index between processes in each minute of a run.
func minutes(t *testing.T, s Scenario, text string, seed uint64) (jain []float64) {
	t.Helper()
	served := make([][]float64, s.Duration/time.Minute)
	for i := range served {
		served[i] = make([]float64, s.Clients[0].Processes)
	}
	r := New(s, policy(t, text), seed)
	r.Watch = func(p Point) {
		if !p.Sent && p.Verdict == pace.Served {
			served[p.At/time.Minute][p.Process]++
		}
	}
	for !r.Step(1_000_000) {
	}
	for _, m := range served {
		var sum, squares float64
		for _, x := range m {
			sum, squares = sum+x, squares+x*x
		}
		jain = append(jain, sum*sum/float64(len(m))/squares)
	}
	return jain
}

// A small bucket that many share rises and falls by itself for each of them. None
// takes that for something else than the others do, and with it a half of all for a
// minute.
func TestFairInEachMinute(t *testing.T) {
	for _, workers := range []int{1, 4} {
		for seed := uint64(1); seed <= 3; seed++ {
			s := plain("fair", 12*time.Minute, bucketOf(20, time.Second, 20), Group{Processes: 20, Workers: workers})
			if got := minutes(t, s, "adaptive-informed", seed); slices.Min(got) < 0.9 {
				t.Errorf("20 processes of %d workers share 20/s, seed %d: Jain %.2f by the minute, want 0.9 in each", workers, seed, got)
			}
		}
	}
}

// peak is the most that is sent in a tenth of a second from then on, in parts of
// the capacity.
func peak(t *testing.T, s Scenario, text string, from time.Duration) float64 {
	t.Helper()
	sent := map[time.Duration]float64{}
	r := New(s, policy(t, text), 1)
	r.Watch = func(p Point) {
		if p.Sent && p.At >= from {
			sent[p.At/(100*time.Millisecond)]++
		}
	}
	for !r.Step(1_000_000) {
	}
	most := 0.0
	for _, n := range sent {
		most = max(most, n)
	}
	return 10 * most / float64(s.Server.Limit.Count)
}

// When an outage of half a minute ends, those who waited for that do not come all
// at once: no thundering herd. Backoff with jitter comes with twice and more of
// what can be served.
func TestHerdAfterOutage(t *testing.T) {
	n, most := 1000, 1.6 // of the hundred in a tenth of a second, chance alone makes 1.3 once a minute
	if os.Getenv("THROTTLE_SOAK") != "" {
		n, most = 10_000, 1.5
	}
	rate := int64(n)
	s := plain("herd", 3*time.Minute, bucketOf(rate, time.Second, rate/50), Group{Processes: n, Workers: 1})
	s.Server.Changes = []Change{{At: 60 * time.Second, Count: 0, Period: time.Second}, {At: 90 * time.Second, Count: rate, Period: time.Second}}
	for _, name := range []string{"adaptive", "adaptive-informed"} {
		if got := peak(t, s, name, 90*time.Second); got > most {
			t.Errorf("%s: %.2f of the capacity in a tenth of a second, want %v at most", name, got, most)
		}
	}
	if got := peak(t, s, "backoff-jitter", 90*time.Second); got < 2 {
		t.Errorf("backoff with jitter: %.2f of the capacity in a tenth of a second, want 2 or more, or this proves nothing", got)
	}
}

// A limit of a minute that gave nothing for half of it, and then all at once, is used again soon, also
// where clients hear what remains: refusals do not bring the rate of before to next to nothing, and
// what remains divides the rest.
func TestOutageToldWhatRemains(t *testing.T) {
	for _, kind := range []limit.Kind{limit.CalendarWindow, limit.FixedWindow, limit.SlidingWindow} {
		for _, count := range []int64{3000, 18_000} {
			var used [2][]float64
			for i, h := range []Hints{{RetryAfter: true, Policy: true}, {RetryAfter: true, Policy: true, Remaining: true}} {
				for seed := range uint64(3) {
					r := play(t, Scenario{
						Name: "outage", Duration: 150 * time.Second,
						Server: Server{Limit: limit.Limit{Kind: kind, Count: count, Period: time.Minute}, Hints: h, Changes: []Change{
							{At: 35 * time.Second, Period: time.Minute}, {At: 61 * time.Second, Count: count, Period: time.Minute},
						}},
						Network: Network{Latency: 16 * time.Millisecond, Spread: 0.2},
						Clients: []Group{{Processes: 22, Workers: 1, Arrivals: 0.9 * float64(count) / 60 / 22}},
					}, "adaptive-informed", seed+1)
					used[i] = append(used[i], r.Utilisation.V)
				}
			}
			t.Logf("%v of %d: %.2f used, not told what remains %.2f", kind, count, median(used[1]), median(used[0]))
			if median(used[1]) < 0.85 {
				t.Errorf("%v of %d: %.2f used, want 0.85", kind, count, median(used[1]))
			}
		}
	}
}
