package sim

import (
	"math"
	"os"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/pace"
)

// shared is what processes get of one bucket from the second minute on: Jain's
// index and the deviation between them, and the share that is refused.
type shared struct{ jain, deviation, refused float64 }

// evenly runs n processes that always have more to do, on so many a second each,
// for ten minutes after the first.
func evenly(t *testing.T, text string, n int, each float64, hints Hints, seed uint64) shared {
	t.Helper()
	rate := int64(float64(n) * each)
	s := plain("evenly", 11*time.Minute, bucketOf(rate, time.Second, rate), Group{Processes: n, Workers: 10})
	s.Server.Hints = hints
	served, sent, refused := make([]float64, n), 0.0, 0.0
	r := New(s, policy(t, text), seed)
	r.Watch = func(p Point) {
		switch {
		case p.At < time.Minute:
		case p.Sent:
			sent++
		case p.Verdict == pace.Served:
			served[p.Process]++
		case p.Verdict == pace.Throttled:
			refused++
		}
	}
	for !r.Step(1_000_000) {
	}
	var sum, squares float64
	for _, x := range served {
		sum, squares = sum+x, squares+x*x
	}
	mean := sum / float64(n)
	return shared{sum * sum / float64(n) / squares, math.Sqrt(max(0, squares/float64(n)-mean*mean)) / mean, refused / sent}
}

// From the second minute on, clients that know the level of a bucket share it
// evenly. Blind ones, of which each refusal slows down one at random, stay within
// a quarter of their mean: docs/concurrency.md has the table.
func TestFairAfterAMinute(t *testing.T) {
	left, share := Hints{Remaining: true}, Hints{Remaining: true, Policy: true, RetryAfter: true, Share: true}
	seeds, bounds := uint64(1), []struct {
		about, text     string
		hints           Hints
		jain, deviation float64
	}{
		{"share", "adaptive-informed", share, 0.95, 0.1},
		{"left", "adaptive-informed", left, 0.95, 0.2},
		{"blind", "adaptive", left, 0.9, 0.33},
	}
	clients, rates := []int{5, 50}, []float64{2, 20}
	if os.Getenv("THROTTLE_SOAK") != "" {
		seeds, clients, rates = 3, []int{2, 5, 20, 50, 200}, []float64{0.5, 1, 2, 5, 20}
	}
	for _, b := range bounds {
		for _, n := range clients {
			for _, each := range rates {
				var mean shared
				for seed := range seeds {
					got := evenly(t, b.text, n, each, b.hints, seed+1)
					mean.jain += got.jain / float64(seeds)
					mean.deviation += got.deviation / float64(seeds)
					mean.refused += got.refused / float64(seeds)
				}
				t.Logf("| %s | %d at %v/s | %.2f | %.2f | %.3f |", b.about, n, each, mean.jain, mean.deviation, mean.refused)
				if n < 5 || each < 2 { // too few refusals in a minute to learn from
					continue
				}
				if mean.jain < b.jain || mean.deviation > b.deviation || mean.refused > 0.03 {
					t.Errorf("%s, %d clients at %v/s: Jain %.3f, deviation %.3f of the mean, %.3f refused; want at least %v, at most %v and 0.03", b.about, n, each, mean.jain, mean.deviation, mean.refused, b.jain, b.deviation)
				}
			}
		}
	}
}

// TestFairAfterARush: clients that have used up a large bucket at once, each of whose answers
// overtook others, soon share what comes back.
func TestFairAfterARush(t *testing.T) {
	for _, h := range []Hints{{Remaining: true}, {Remaining: true, Reset: true}, {Remaining: true, RetryAfter: true}, {Remaining: true, Reset: true, RetryAfter: true, Policy: true}} {
		var fair, waits []float64
		for seed := range uint64(3) {
			r := play(t, Scenario{
				Name: "rush", Duration: 150 * time.Second,
				Server:  Server{Limit: bucketOf(136, time.Second, 11_408), Hints: h},
				Network: Network{Latency: 1450 * time.Microsecond, Spread: 0.2},
				Clients: []Group{{Processes: 46, Workers: 19}, {Processes: 45, Workers: 19, Leave: 70 * time.Second}},
			}, "adaptive-informed", seed+1)
			fair, waits = append(fair, r.Jain.V), append(waits, r.WaitP99.V)
		}
		t.Logf("told %+v: Jain's index %.2f, 99 %% of waits below %.0f s", h, median(fair), median(waits))
		if median(fair) < 0.9 || median(waits) > 35 {
			t.Errorf("told %+v: Jain's index %.2f, 99 %% of waits below %.0f s; want 0.9 at least, and 35 s at most", h, median(fair), median(waits))
		}
	}
}

// TestFairInALongWindow: a client that sends most of what is sent now does not take itself for
// the only one, and the rest of the window for its own, where more is gone than it was served.
func TestFairInALongWindow(t *testing.T) {
	for _, processes := range []int{2, 4} {
		var fair []float64
		for seed := range uint64(6) {
			r := play(t, Scenario{
				Name: "hours", Duration: 150 * time.Minute,
				Server:  Server{Limit: limit.Limit{Kind: limit.FirstHitWindow, Count: 5869, Period: time.Hour}, Hints: Hints{Remaining: true, Reset: true, Policy: true}},
				Network: Network{Latency: 18 * time.Millisecond, Spread: 0.2},
				Clients: []Group{{Processes: processes, Workers: 46}},
			}, "adaptive-informed", seed+1)
			if fair = append(fair, r.Jain.V); r.Jain.V < 0.97 {
				t.Errorf("%d clients, seed %d: Jain's index %.2f, want at least 0.97", processes, seed+1, r.Jain.V)
			}
		}
		t.Logf("%d clients: Jain's index %.2f", processes, median(fair))
	}
}
