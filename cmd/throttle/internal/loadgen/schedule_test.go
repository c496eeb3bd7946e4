package loadgen

import (
	"math"
	"testing"
	"time"
)

func TestScheduleEven(t *testing.T) {
	for _, test := range []struct {
		rate float64
		want []time.Duration
	}{
		{10, []time.Duration{0, 100 * time.Millisecond, 200 * time.Millisecond}},
		{0.5, []time.Duration{0, 2 * time.Second, 4 * time.Second}},
		{3, []time.Duration{0, 333333333, 666666666, time.Second}},
		{1e9, []time.Duration{0, 1, 2, 3}},
		{0, []time.Duration{Never, Never}},
		{-1, []time.Duration{Never}},
		{math.NaN(), []time.Duration{Never}},
		{1e-300, []time.Duration{0, Never, Never}},
	} {
		s := Schedule{Rate: test.rate, Even: true}
		for i, want := range test.want {
			if got := s.Next(); got != want {
				t.Errorf("rate %v: start %d is at %v, want %v", test.rate, i, got, want)
			}
		}
	}
}

// TestSchedulePoisson: gaps of a Poisson process have a mean and a standard
// deviation of 1/rate, and a seed always draws the same ones.
func TestSchedulePoisson(t *testing.T) {
	const n, rate = 100_000, 250.0
	s, same, other := Schedule{Rate: rate, Seed: 1}, Schedule{Rate: rate, Seed: 1}, Schedule{Rate: rate, Seed: 2}
	var last time.Duration
	var sum, squares float64
	differ := false
	for range n {
		at := s.Next()
		if at < last {
			t.Fatalf("falls from %v to %v", last, at)
		}
		if again := same.Next(); again != at {
			t.Fatalf("the same seed starts at %v and at %v", at, again)
		}
		differ = differ || other.Next() != at
		gap := (at - last).Seconds() * rate
		sum, squares, last = sum+gap, squares+gap*gap, at
	}
	mean := sum / n
	if dev := math.Sqrt(squares/n - mean*mean); math.Abs(mean-1) > 0.02 || math.Abs(dev-1) > 0.02 || !differ {
		t.Errorf("gaps of mean %.3f and deviation %.3f, in 1/rate, want 1 and 1; seeds differ: %t", mean, dev, differ)
	}
}

func FuzzSchedule(f *testing.F) {
	f.Add(10.0, true, uint64(1))
	f.Add(1e-9, false, uint64(2))
	f.Add(math.Inf(1), false, uint64(3))
	f.Fuzz(func(t *testing.T, rate float64, even bool, seed uint64) {
		s := Schedule{Rate: rate, Even: even, Seed: seed}
		last := time.Duration(0)
		for range 100 {
			at := s.Next()
			if at < last {
				t.Fatalf("rate %v, even %t: falls from %v to %v", rate, even, last, at)
			}
			last = at
		}
	})
}
