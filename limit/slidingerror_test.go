package limit

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// arrivals are the times of n events at a mean rate in events a Period, in
// microseconds of a Period of a million. Where they are bursty, the rate is
// four times the mean and a quarter of it in turns, two Periods each on the
// average.
func arrivals(n int, rate float64, bursty bool) []int64 {
	const period = 1e6
	r := rand.New(rand.NewPCG(1, 2))
	at := make([]int64, n)
	now, turn, factor := 0.0, 0.0, 1.0
	for i := range at {
		if bursty && now >= turn {
			turn = now + r.ExpFloat64()*2*period
			if factor == 4 {
				factor = 0.25
			} else {
				factor = 4
			}
		}
		now += r.ExpFloat64() * period / (rate * factor)
		at[i] = int64(now)
	}
	return at
}

// slidingErrors compares each decision with the exact log of what the window
// itself has admitted, and the sum with what a log would have admitted instead.
func slidingErrors(l Limit, at []int64) (wrong, more float64, over int64) {
	var s State
	var own, other Log
	var errors, admitted, exact int
	for _, us := range at {
		now := t0.Add(time.Duration(us) * time.Microsecond)
		var d Decision
		s, d = Take(s, now, Ask{Limit: l, N: 1})
		if fits := own.Take(now, Ask{Limit: l}).Remaining > 0; fits != d.OK {
			errors++
		}
		if d.OK {
			admitted++
			own.Take(now, Ask{Limit: l, N: 1, Debt: true})
			over = max(over, own.Used(now, l)-l.Count)
		}
		if other.Take(now, Ask{Limit: l, N: 1}).OK {
			exact++
		}
	}
	n := float64(len(at))
	return float64(errors) / n, float64(admitted-exact) / n, over
}

// How often the estimate decides otherwise than an exact count would: in less
// than one of 1000 decisions for those who keep away from their limit; often
// for those who are at it, whose next event passes a little early or late. What
// they get in all differs by a percent at most.
func TestSlidingWindowErrors(t *testing.T) {
	for _, c := range []struct {
		count  int64
		load   float64 // of the limit
		bursty bool
		wrong  float64 // share of decisions, at most
		more   float64 // share admitted more or less than by a log, at most
		over   int64   // most above Count in any Period
	}{
		{100, 0.3, false, 0, 0, 0},
		{100, 0.5, false, 0.001, 0.001, 0},
		{1000, 0.8, false, 0.001, 0.001, 0},
		{1000, 0.9, false, 0.001, 0.001, 0},
		{100, 0.1, true, 0.001, 0.001, 0},
		{1000, 0.2, true, 0.001, 0.001, 0},
		{100, 0.8, false, 0.01, 0.002, 15},
		{100, 1, false, 0.16, 0.013, 22},
		{100, 2, false, 0.28, 0.003, 12},
		{100, 10, false, 0.06, 0.001, 5},
		{1000, 10, false, 0.14, 0.002, 5},
		{100, 1, true, 0.31, 0.01, 70},
		{1000, 2, true, 0.20, 0.001, 400},
	} {
		name := fmt.Sprintf("%d, load %v, bursty %t", c.count, c.load, c.bursty)
		l := Limit{Kind: SlidingWindow, Count: c.count, Period: time.Second}
		wrong, more, over := slidingErrors(l, arrivals(100_000, c.load*float64(c.count), c.bursty))
		t.Logf("%s: %.3f %% of decisions differ, %+.3f %% admitted, at most %d above", name, 100*wrong, 100*more, over)
		if wrong > c.wrong || max(more, -more) > c.more || over > c.over {
			t.Errorf("%s: %.3f %% of decisions differ, %+.3f %% admitted, at most %d above; want at most %.3f %%, %.3f %% and %d",
				name, 100*wrong, 100*more, over, 100*c.wrong, 100*c.more, c.over)
		}
	}
}
