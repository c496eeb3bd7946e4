package pace

import (
	"testing"
	"time"
)

// A table worked by hand: ten answers a second, one throttled.
func TestAWSByHand(t *testing.T) {
	a := &AWS{}
	now := time.Unix(1_000_000, 0)
	step := func(v Verdict) (rest time.Duration) {
		r := Request{Since: now}
		a.Start(now, r)
		now = now.Add(100 * ms)
		return a.Observe(now, Outcome{Request: r, Sent: now.Add(-100 * ms), Verdict: v})
	}
	near := func(what string, got, want float64) {
		t.Helper()
		if got < want-1e-6 || got > want+1e-6 {
			t.Errorf("%s = %v, want %v", what, got, want)
		}
	}
	for i := range 10 {
		if w := a.Wait(now, Request{Since: now, Place: i}); w != 0 {
			t.Fatalf("Wait before the first throttled answer = %v, want 0", w)
		}
		step(Served)
	}
	// 5 answers by the half second: 0.8 × 10; 5 more: 0.8 × 10 + 0.2 × 8.
	near("measured", a.measured, 9.6)
	if rest := step(Throttled); rest < 0 || rest >= 2*time.Second {
		t.Errorf("first rest %v, want less than 2s", rest)
	}
	near("rate", a.fill, 0.7*9.6)
	near("bucket", a.most, 0.7*9.6)
	a.tokens = 0
	near("wait", a.Wait(now, Request{Since: now}).Seconds(), 1/6.72)
	near("wait of the third", a.Wait(now, Request{Since: now, Place: 3}).Seconds(), 3/6.72)
	// The cubic is back at 9.6 after ∛(9.6 × 0.3 / 0.4) = 1.93 s.
	a.measured = 100
	now = now.Add(1_831*ms + 98*time.Microsecond)
	a.bucket = 2_000_000 // no new measure
	step(Failed)
	near("rate at the window's end", a.fill, 9.6)
}

func TestAWSRest(t *testing.T) {
	for try := range 8 {
		low, top := Never, time.Duration(0)
		for i := range 5000 {
			d := awsRest(Request{Try: try, Luck: luckOf(0, uint64(i), try)})
			low, top = min(low, d), max(top, d)
		}
		want := 2 * time.Second << try
		if try >= 4 {
			if low != 20*time.Second || top != 20*time.Second {
				t.Errorf("retry %d rests %v to %v, want 20s", try, low, top)
			}
			continue
		}
		if low > want/100 || top >= want || top < want-want/100 {
			t.Errorf("retry %d rests %v to %v, want 0 to %v", try, low, top, want)
		}
	}
}

// The bucket lets as many go at once as a second brings.
func TestAWSBurst(t *testing.T) {
	a := &AWS{}
	startAll(a, t0, 1)
	a.enabled, a.fill, a.most, a.filled = true, 4, 4, t0
	now := at(time.Minute)
	var got []time.Duration
	for place := 1; place <= 6; place++ {
		got = append(got, a.Wait(now, Request{Since: now, Place: place}))
	}
	for k, start := range startAll(a, now, 6) {
		want := time.Duration(max(k-3, 0)) * 250 * ms
		if start.Sub(now) != want || max(got[k], 0) != want {
			t.Errorf("start %d after %v, forecast %v; want %v", k+1, start.Sub(now), got[k], want)
		}
	}
	before := *a
	now = now.Add(time.Second)
	a.Start(now, Request{Since: now})
	a.Observe(now.Add(ms), Outcome{Request: Request{Since: now}})
	now = now.Add(ms)
	for place := range 6 {
		r := Request{Since: now, Place: place}
		got, want := max(a.Wait(now, r), 0), max(before.Wait(now, r), 0)
		if d := got - want; d < -1 || d > 1 {
			t.Errorf("after an unsent start Wait(Place %d) = %v, want %v", place, got, want)
		}
	}
}
