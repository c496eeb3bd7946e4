package fit

import (
	"math"
	"testing"
	"time"
)

// TestPartOfAKnownSum: where the sum of what others used is known, half of it is not: it
// varies as a part of a whole does, until all that was known is gone.
func TestPartOfAKnownSum(t *testing.T) {
	var l history
	for i := range 8 {
		l.add(float64(i), float64(i+1), 1, 1, nil)
	}
	l.shift(0, 2, 0)
	l.add(8, 9, 3, 3, nil)
	for _, x := range [...]struct{ since, used, vary float64 }{
		{0, 13, 3}, {2, 10.5, 3 + 6*(1-6.0/8)}, {4, 8, 3 + 4*0.5}, {8, 3, 3},
	} {
		if used, vary := l.since(x.since); math.Abs(used-x.used) > 1e-9 || math.Abs(vary-x.vary) > 1e-9 {
			t.Errorf("after %v: %v used, variance %v; want %v and %v", x.since, used, vary, x.used, x.vary)
		}
	}
}

// TestUnevenRun: of a merged run, a log gives back as many as were sent until then, not
// as many as of an even one.
func TestUnevenRun(t *testing.T) {
	e := event{from: 0, to: 9, n: 5, times: []float64{0, 1, 1, 1, 9}, told: math.NaN()}
	p := params{kind: SlidingLog, n: 5, period: 10}
	s := begin(&p, nil)
	s.run(&e)
	var l history
	l.add(e.from, e.to, e.n, 0, e.times)
	for at, want := range map[float64]float64{9.5: 5, 10.5: 4, 11.5: 1, 18.5: 1, 19.5: 0} {
		used, _ := l.since(at - 10)
		if got := s.usedAt(at); math.Abs(got-want) > 1e-9 || math.Abs(used-want) > 1e-9 {
			t.Errorf("at %v: %v used, with others %v; want %v", at, got, used, want)
		}
	}
}

// TestMergedRunsAreDated: each merged run has the times of its own requests.
func TestMergedRunsAreDated(t *testing.T) {
	now := time.Unix(1000, 0)
	var all []Answer
	for i := range 2000 {
		at := now.Add(time.Duration(i)*time.Millisecond + time.Duration(i/100)*time.Second)
		all = append(all, Answer{Sent: at, Ended: at, Refused: i%100 == 99})
	}
	tr := readTrace(all)
	if !tr.merged {
		t.Fatal("none are merged, so nothing is tested")
	}
	for _, e := range tr.events {
		if e.n > 1 && (len(e.times) != int(e.n) || e.times[0] != e.from || e.times[len(e.times)-1] != e.to) {
			t.Fatalf("%v from %v to %v: %d times", e.n, e.from, e.to, len(e.times))
		}
	}
}

// TestRefusalsInFlight: many refused at once are two events, the first and the last.
func TestRefusalsInFlight(t *testing.T) {
	all := []Answer{exchange(0, 20, false), exchange(30, 50, false)}
	for i := range 128 {
		all = append(all, exchange(60+float64(i)/7, 80+float64(i)/7, true))
	}
	if n := len(readTrace(all).events); n != 4 {
		t.Errorf("%d events of 128 refused within one latency and two served, want 4", n)
	}
}
