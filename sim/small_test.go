package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// A bucket of a few tokens never shows a high level. Callers who are told what
// remains of it use it as well as those that are told nothing.
func TestSmallBuckets(t *testing.T) {
	for _, rate := range []int64{1, 20, 1000} { // a second
		for _, burst := range []int64{2, 3, 4, 6} {
			for _, processes := range []int{1, 3} {
				run := func(h Hints) (refused, used float64) {
					s := Scenario{
						Name: "small", Duration: max(20*time.Second, 300*time.Duration(processes)*time.Second/time.Duration(rate)),
						Server:  Server{Limit: bucketOf(rate, time.Second, burst), Hints: h},
						Network: Network{Latency: 5 * time.Millisecond, Spread: 0.2},
						Clients: []Group{{Processes: processes, Workers: 4}},
					}
					r := play(t, s, "adaptive-informed", 1)
					return r.RetryRate.V, r.Utilisation.V
				}
				blind, without := run(Hints{})
				refused, used := run(Hints{Remaining: true})
				t.Logf("%d/s, burst %d, %d processes: %.1f %% refused, %.2f used; told nothing %.1f %%, %.2f",
					rate, burst, processes, 100*refused, used, 100*blind, without)
				if used < 0.7*without || refused > blind+0.05 {
					t.Errorf("%d/s, burst %d, %d processes: %.1f %% refused, %.2f used; told nothing %.1f %%, %.2f",
						rate, burst, processes, 100*refused, used, 100*blind, without)
				}
			}
		}
	}
}

// In the long run they use it about as well at least, alone or not, and are refused as seldom.
func TestToldInTinyBuckets(t *testing.T) {
	for _, burst := range []int64{2, 3} {
		for _, processes := range []int{1, 2} {
			run := func(h Hints) (refused, used float64) {
				for _, rate := range []int64{1, 6, 50} { // a second
					for _, latency := range []time.Duration{time.Millisecond, 60 * time.Millisecond} {
						r := play(t, Scenario{
							Name: "tiny", Duration: 1500 * time.Second / time.Duration(rate),
							Server:  Server{Limit: bucketOf(rate, time.Second, burst), Hints: h},
							Network: Network{Latency: latency, Spread: 0.2},
							Clients: []Group{{Processes: processes, Workers: 8}},
						}, "adaptive-informed", 1)
						refused, used = refused+r.RetryRate.V/6, used+r.Utilisation.V/6
					}
				}
				return refused, used
			}
			blind, without := run(Hints{})
			for _, h := range []Hints{{Remaining: true}, {Remaining: true, Reset: true, Policy: true}} {
				refused, used := run(h)
				t.Logf("burst %d, %d processes, told %+v: %.1f %% refused, %.2f used; told nothing %.1f %%, %.2f",
					burst, processes, h, 100*refused, used, 100*blind, without)
				if used < without-0.06 || refused > blind+0.01 {
					t.Errorf("burst %d, %d processes, told %+v: %.1f %% refused, %.3f used, want at most %.1f %% and at least %.3f",
						burst, processes, h, 100*refused, used, 100*blind+1, without-0.06)
				}
			}
		}
	}
}

// Nor does who has most of such a bucket keep it: that a fast client hears more often that
// the bucket is full makes it grow no faster.
func TestFairInSmallBuckets(t *testing.T) {
	for _, rate := range []int64{50, 300} { // a second
		for _, burst := range []int64{5, 6, 8} {
			for _, processes := range []int{3, 8} {
				var jain []float64
				for seed := range uint64(3) {
					r := play(t, Scenario{
						Name: "small", Duration: 5 * time.Minute,
						Server:  Server{Limit: bucketOf(rate, time.Second, burst), Hints: Hints{Remaining: true}},
						Network: Network{Latency: 20 * time.Millisecond, Spread: 0.2},
						Clients: []Group{{Processes: processes, Workers: 10}},
					}, "adaptive-informed", seed+1)
					jain = append(jain, r.Jain.V)
				}
				slices.Sort(jain)
				t.Logf("%d/s, burst %d, %d processes: Jain's index %.2f", rate, burst, processes, jain)
				if jain[1] < 0.75 {
					t.Errorf("%d/s, burst %d, %d processes: Jain's index %.2f", rate, burst, processes, jain)
				}
			}
		}
	}
}

// In a long window what remains is the same low number for most of the time, and
// says nothing of the rate. Processes that share one, and are told only that, are
// refused little more often than those that are told nothing, and share as well;
// the mean of several, as chance decides who is early in a window.
func TestWhatRemainsOfLongWindows(t *testing.T) {
	var refused, jain [2]float64 // told nothing, told
	cells := 0.0
	for _, kind := range []limit.Kind{limit.FixedWindow, limit.SlidingLog, limit.FirstHitWindow, limit.SlidingSlots} {
		for _, processes := range []int{2, 5, 20} {
			for _, each := range []int{3, 10, 30} {
				for k := range 6 {
					i := k % 2
					r := play(t, Scenario{
						Name: "long", Duration: 40 * time.Hour,
						Server:  Server{Limit: limit.Limit{Kind: kind, Count: int64(processes * each), Period: time.Hour}, Hints: Hints{Remaining: i == 1}},
						Network: Network{Latency: 50 * time.Millisecond, Spread: 0.2},
						Clients: []Group{{Processes: processes, Workers: 4}},
					}, "adaptive-informed", uint64(k/2+1))
					refused[i] += r.RetryRate.V
					jain[i] += r.Jain.V
				}
				cells += 3
			}
		}
	}
	t.Logf("%.1f %% refused, Jain %.2f; told nothing %.1f %%, %.2f", 100*refused[1]/cells, jain[1]/cells, 100*refused[0]/cells, jain[0]/cells)
	if refused[1] > refused[0]+0.10*cells || jain[1] < jain[0]-0.13*cells {
		t.Errorf("%.1f %% refused, Jain %.2f; told nothing %.1f %%, %.2f", 100*refused[1]/cells, jain[1]/cells, 100*refused[0]/cells, jain[0]/cells)
	}
}

// A crowd that shares a bucket is refused over and over with a Retry-After, and finds a token
// or two after it. That is no window that opens: who took it for one would try again as
// fast as answers come, have nearly all in the end, and be refused half of the time.
func TestBucketOfACrowd(t *testing.T) {
	var refused, jain []float64
	for seed := range uint64(3) {
		r := play(t, Scenario{
			Name: "crowd", Duration: 8 * time.Hour,
			Server:  Server{Limit: bucketOf(700, time.Hour, 13), Hints: Hints{Remaining: true, RetryAfter: true}},
			Network: Network{Latency: 400 * time.Millisecond, Spread: 0.2},
			Clients: []Group{{Processes: 55, Workers: 5}},
		}, "adaptive-informed", seed+1)
		refused, jain = append(refused, r.RetryRate.V), append(jain, r.Jain.V)
	}
	r, j := median(refused), median(jain)
	t.Logf("%.3f refused, Jain's index %.2f (medians)", r, j)
	if r > 0.35 || j < 0.5 {
		t.Errorf("%.3f refused, Jain's index %.2f (medians), want at most 0.35 and 0.5 or more", r, j)
	}
}

// Of a window that is one, who comes late may find as little. It remains one, and is shared.
func TestWindowOfACrowd(t *testing.T) {
	var jain []float64
	for seed := range uint64(3) {
		jain = append(jain, play(t, Scenario{
			Name: "crowd", Duration: 40 * time.Minute,
			Server: Server{
				Limit: limit.Limit{Kind: limit.FixedWindow, Count: 20, Period: time.Minute},
				Hints: Hints{Remaining: true, RetryAfter: true, Policy: true},
			},
			Network: Network{Latency: 5 * time.Millisecond, Spread: 0.2},
			Clients: []Group{{Processes: 10, Workers: 8}},
		}, "adaptive-informed", seed+1).Jain.V)
	}
	if median(jain) < 0.85 {
		t.Errorf("Jain's index %.2f, want 0.85 or more in the median", jain)
	}
}

// A window of so few that most who come when it opens are refused is better shared by
// refusals than by what remains of it.
func TestSmallWindowOfACrowd(t *testing.T) {
	var refused, served []float64
	for seed := range uint64(3) {
		r := play(t, Scenario{
			Name: "crowd", Duration: 300 * time.Hour,
			Server: Server{
				Limit: limit.Limit{Kind: limit.FixedWindow, Count: 3, Period: 10 * time.Minute},
				Hints: Hints{Remaining: true, RetryAfter: true, Reset: true},
			},
			Network: Network{Latency: 40 * time.Millisecond, Spread: 0.2},
			Clients: []Group{{Processes: 29, Workers: 1}},
		}, "adaptive-informed", seed+1)
		refused, served = append(refused, r.RetryRate.V), append(served, r.Utilisation.V)
	}
	r, u := median(refused), median(served)
	t.Logf("%.3f refused, %.2f used (medians)", r, u)
	if r > 0.7 || u < 0.85 {
		t.Errorf("%.3f refused, %.2f used (medians), want at most 0.7 and 0.85 or more", r, u)
	}
}

// What remains of a window that is half over when the answer comes says too little, whether a
// policy states how long the window is or its resets have shown it.
func TestSlowAnswersInAWindow(t *testing.T) {
	s := Scenario{
		Name: "slow window", Duration: 5 * time.Minute,
		Server:  Server{Limit: limit.Limit{Kind: limit.FirstHitWindow, Count: 300, Period: 10 * time.Second}, Hints: Hints{Remaining: true, Reset: true}},
		Network: Network{Latency: 3 * time.Second, Spread: 0.2},
		Clients: []Group{{Processes: 40, Workers: 7}},
	}
	var refused, used []float64
	for seed := range uint64(7) {
		r := play(t, s, "adaptive-informed", seed+1)
		refused, used = append(refused, r.RetryRate.V), append(used, r.Utilisation.V)
	}
	r, u := median(refused), median(used)
	t.Logf("%.3f refused, %.2f used (medians)", r, u)
	if r > 0.2 || u < 0.92 {
		t.Errorf("%.3f refused, %.2f used (medians), want at most 0.2 and 0.92 or more", r, u)
	}
}
