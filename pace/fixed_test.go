package pace

import (
	"math"
	"testing"
	"time"
)

// startAll starts n requests as soon as they may, and returns when.
func startAll(c Controller, now time.Time, n int) (at []time.Time) {
	for range n {
		r := Request{Since: now}
		now = now.Add(max(c.Wait(now, r), 0))
		c.Start(now, r)
		at = append(at, now)
	}
	return at
}

func TestFixedDoesNotDrift(t *testing.T) {
	for _, c := range []struct {
		rate float64
		n    int
		want time.Duration // from the first to the n-th
	}{
		{4, 1001, 250 * time.Second},
		{3, 300_001, 100_000 * time.Second},
		{1.25, 4501, time.Hour},
		{50_000, 500_001, 10 * time.Second},
		{49_999, 499_991, 10 * time.Second},
		{1.0 / 3600, 24*365 + 1, 365 * 24 * time.Hour},
		{7.0 / 86_400, 70_001, 10_000 * 24 * time.Hour},
	} {
		f := &Fixed{Rate: c.rate}
		at := startAll(f, t0, c.n)
		slack := 10 + c.want/1e15 // the rate itself is rounded
		if got := at[c.n-1].Sub(at[0]); got < c.want-slack || got > c.want+slack {
			t.Errorf("Fixed{%v}: start %d after %v, want %v", c.rate, c.n, got, c.want)
		}
	}
}

func TestFixedWait(t *testing.T) {
	f := &Fixed{Rate: 4}
	f.Start(t0, Request{Since: t0})
	for _, c := range []struct {
		now   time.Duration
		place int
		want  time.Duration
	}{
		{0, 0, 250 * ms},
		{0, 1, 250 * ms},
		{0, 2, 500 * ms},
		{0, 41, 10250 * ms},
		{100 * ms, 0, 150 * ms},
		{100 * ms, 3, 650 * ms},
		{250 * ms, 0, 0},
		{10 * time.Second, 1, 0},
		{10 * time.Second, 2, 250 * ms}, // a pause saves nothing up
	} {
		if got := f.Wait(at(c.now), Request{Since: at(c.now), Place: c.place}); got != c.want {
			t.Errorf("Wait(Place %d) at %v = %v, want %v", c.place, c.now, got, c.want)
		}
	}
}

// A wait is rounded up: nobody starts before his time.
func TestFixedRoundsUp(t *testing.T) {
	f := &Fixed{Rate: 3}
	f.Start(t0, Request{Since: t0})
	for place, want := range []time.Duration{333333334, 333333334, 666666667, 1000000000} {
		if got := f.Wait(t0, Request{Since: t0, Place: place}); got != want {
			t.Errorf("Wait(Place %d) = %v, want %v", place, got, want)
		}
	}
}

func TestFixedForecastComesTrue(t *testing.T) {
	for _, f := range []*Fixed{{Rate: 4}, {Rate: 3, Burst: 5}, {Rate: 1.0 / 3600}, {Rate: 50_000, Burst: 100}} {
		startAll(f, t0, 7)
		now := at(time.Second)
		var want []time.Duration
		for k := range 20 {
			want = append(want, f.Wait(now, Request{Since: now, Place: k + 1}))
		}
		for k, at := range startAll(f, now, 20) {
			if got := at.Sub(now); got != max(want[k], 0) {
				t.Errorf("Fixed{%v, %d}: place %d starts after %v, forecast %v", f.Rate, f.Burst, k+1, got, want[k])
			}
		}
	}
}

// A dear request waits for those ahead as they are, not as if they cost as much.
func TestFixedForecastOfADearRequest(t *testing.T) {
	f := &Fixed{Rate: 100}
	f.Start(t0, Request{Since: t0, Cost: 1})
	for _, c := range []struct {
		cost int64
		want time.Duration
	}{{1, 20 * ms}, {1000, 20 * ms}} {
		if got := f.Wait(t0, Request{Since: t0, Place: 2, Cost: c.cost}); got != c.want {
			t.Errorf("a request of %d, second in line behind requests of 1, waits %v, want %v", c.cost, got, c.want)
		}
	}
	f.Start(at(10*ms), Request{Since: t0, Cost: 9})
	if got := f.Wait(at(10*ms), Request{Since: t0, Place: 2, Cost: 1}); got != 110*ms { // 90 for the last, 20 for one of the mean
		t.Errorf("behind a request of 1 and one of 9, the second in line waits %v, want 110ms", got)
	}
}

func TestFixedBurst(t *testing.T) {
	count := func(f *Fixed, now time.Time, since time.Time) (n int) {
		for r := (Request{Since: since}); f.Wait(now, r) <= 0; n++ {
			f.Start(now, r)
		}
		return n
	}
	for _, c := range []struct {
		burst            int
		first, idle, was int
	}{
		{0, 1, 1, 2}, // late by a second: made up for by one interval
		{1, 1, 1, 2},
		{3, 3, 3, 4},
	} {
		f := &Fixed{Rate: 10, Burst: c.burst}
		if got := count(f, t0, t0); got != c.first {
			t.Errorf("burst %d: %d start at first, want %d", c.burst, got, c.first)
		}
		if got := count(f, at(time.Minute), at(time.Minute)); got != c.idle {
			t.Errorf("burst %d: %d start after a pause, want %d", c.burst, got, c.idle)
		}
		// Somebody waited all the time, but nobody came to start him.
		if got := count(f, at(62*time.Second), at(time.Minute)); got != c.was {
			t.Errorf("burst %d: %d start after a late driver, want %d", c.burst, got, c.was)
		}
	}
}

// A driver late by less than an interval each time loses nothing.
func TestFixedMakesUpForLateDrivers(t *testing.T) {
	f := &Fixed{Rate: 100}
	now := t0
	for i := range 1000 {
		r := Request{Since: t0}
		now = now.Add(max(f.Wait(now, r), 0) + time.Duration(luckOf(1, uint64(i), 0).Unit(0)*9e6))
		f.Start(now, r)
	}
	if got := now.Sub(t0); got > 10*time.Second+20*ms {
		t.Errorf("1000 starts at 100/s took %v, want 10s", got)
	}
}

func TestFixedGivesBack(t *testing.T) {
	for _, burst := range []int{1, 3} {
		a, b := &Fixed{Rate: 3, Burst: burst}, &Fixed{Rate: 3, Burst: burst}
		startAll(a, t0, 4)
		startAll(b, t0, 4)
		now := at(5 * time.Second)
		r := Request{Since: now}
		a.Start(now, r)
		a.Observe(now.Add(100*ms), Outcome{Request: r})
		for place := range 6 {
			r := Request{Since: now.Add(100 * ms), Place: place}
			got, want := a.Wait(r.Since, r), b.Wait(r.Since, r)
			if max(got, 0) != max(want, 0) {
				t.Errorf("burst %d: after an unsent start Wait(Place %d) = %v, want %v", burst, place, got, want)
			}
		}
	}
}

// A cost that is said to be far higher than estimated holds up the next start for an
// hour at most, also where two say so at once; one that was estimated does for longer.
func TestFixedBelievesCostsForAnHour(t *testing.T) {
	for _, c := range []struct {
		estimate, said int64
		want           time.Duration
	}{
		{1, 1, 100 * ms},
		{1, 1000, 100 * time.Second},
		{1, 1_000_000, time.Hour},
		{1, math.MaxInt64, time.Hour},
		{72_000, math.MaxInt64, 2 * time.Hour},
		{72_000, 1000, 100 * time.Second},
	} {
		f, r := &Fixed{Rate: 10}, Request{Since: t0, Cost: c.estimate}
		f.Start(t0, r)
		for range 2 {
			f.Observe(t0, Outcome{Report: Report{Verdict: Served, Cost: c.said}, Request: r, Sent: t0})
			if c.said < 72_000 {
				break
			}
		}
		if got := f.Wait(t0, Request{Since: t0}); got != c.want {
			t.Errorf("estimated at %d and said to be %d: the next may start after %v, want %v", c.estimate, c.said, got, c.want)
		}
	}
}

func TestFixedWithoutLimit(t *testing.T) {
	for _, rate := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		f := &Fixed{Rate: rate}
		startAll(f, t0, 5)
		for place := range 3 {
			if got := f.Wait(t0, Request{Since: t0, Place: place}); got > 0 {
				t.Errorf("Fixed{%v}: Wait(Place %d) = %v, want 0", rate, place, got)
			}
		}
	}
}

// Without a rate nothing paces the retries of what was throttled, so they rest,
// longer each time; all else starts at once.
func TestFixedWithoutARateRests(t *testing.T) {
	for _, rate := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		for try, longest := range []time.Duration{100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond} {
			f := &Fixed{Rate: rate}
			r := Request{Try: try, Luck: 7}
			f.Start(t0, r)
			if rest := f.Observe(t0, Outcome{Report: Report{Verdict: Throttled}, Request: r, Sent: t0}); rest < longest/2 || rest > longest {
				t.Errorf("Fixed{%v}: rest %v after try %d, want %v to %v", rate, rest, try, longest/2, longest)
			}
			for _, v := range []Verdict{Ignored, Served, Failed} {
				if rest := f.Observe(t0, Outcome{Report: Report{Verdict: v}, Request: r, Sent: t0}); rest != 0 {
					t.Errorf("Fixed{%v}: rest %v after %v, want none", rate, rest, v)
				}
			}
		}
	}
	f := &Fixed{Rate: 4}
	if rest := f.Observe(t0, Outcome{Report: Report{Verdict: Throttled}, Sent: t0}); rest != 0 {
		t.Errorf("Fixed{4}: rest %v, want none, as the rate paces", rest)
	}
}
