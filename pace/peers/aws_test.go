package peers

import (
	"cmp"
	"math"
	"testing"
	"time"

	"github.com/throttle-go/throttle/pace"
)

// A table worked by hand: ten answers a second, one throttled.
func TestAWSByHand(t *testing.T) {
	a := &AWS{}
	now := time.Unix(1_000_000, 0)
	step := func(v pace.Verdict) (rest time.Duration) {
		r := pace.Request{Since: now}
		a.Start(now, r)
		now = now.Add(100 * ms)
		return a.Observe(now, pace.Outcome{Request: r, Sent: now.Add(-100 * ms), Report: pace.Report{Verdict: v}})
	}
	near := func(what string, got, want float64) {
		t.Helper()
		if got < want-1e-6 || got > want+1e-6 {
			t.Errorf("%s = %v, want %v", what, got, want)
		}
	}
	for i := range 10 {
		if w := a.Wait(now, pace.Request{Since: now, Place: i}); w != 0 {
			t.Fatalf("Wait before the first throttled answer = %v, want 0", w)
		}
		step(pace.Served)
	}
	// 5 answers by the half second: 0.8 × 10; 5 more: 0.8 × 10 + 0.2 × 8.
	near("measured", a.measured, 9.6)
	if rest := step(pace.Throttled); rest < 0 || rest >= 2*time.Second {
		t.Errorf("first rest %v, want less than 2s", rest)
	}
	near("rate", a.fill, 0.7*9.6)
	near("bucket", a.most, 0.7*9.6)
	a.tokens = 0
	near("wait", a.Wait(now, pace.Request{Since: now}).Seconds(), 1/6.72)
	near("wait of the third", a.Wait(now, pace.Request{Since: now, Place: 3}).Seconds(), 3/6.72)
	// The cubic is back at 9.6 after ∛(9.6 × 0.3 / 0.4) = 1.93 s.
	a.measured = 100
	now = now.Add(1_831*ms + 98*time.Microsecond)
	a.bucket = 2_000_000 // no new measure
	step(pace.Failed)
	near("rate at the window's end", a.fill, 9.6)
}

func TestAWSRest(t *testing.T) {
	for try := range 8 {
		low, top := pace.Never, time.Duration(0)
		for i := range 5000 {
			d := awsRest(pace.Request{Try: try, Luck: luckOf(0, uint64(i), try)})
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
		got = append(got, a.Wait(now, pace.Request{Since: now, Place: place}))
	}
	for k, start := range startAll(a, now, 6) {
		want := time.Duration(max(k-3, 0)) * 250 * ms
		if start.Sub(now) != want || max(got[k], 0) != want {
			t.Errorf("start %d after %v, forecast %v; want %v", k+1, start.Sub(now), got[k], want)
		}
	}
	before := *a
	now = now.Add(time.Second)
	a.Start(now, pace.Request{Since: now})
	a.Observe(now.Add(ms), pace.Outcome{Request: pace.Request{Since: now}})
	now = now.Add(ms)
	for place := range 6 {
		r := pace.Request{Since: now, Place: place}
		got, want := max(a.Wait(now, r), 0), max(before.Wait(now, r), 0)
		if d := got - want; d < -1 || d > 1 {
			t.Errorf("after an unsent start Wait(Place %d) = %v, want %v", place, got, want)
		}
	}
}

// What a call costs of the retry quota, and when it is given up.
func TestAWSGivesUp(t *testing.T) {
	type end struct {
		v    pace.Verdict
		try  int
		rest bool // it is retried
		left int  // of the quota, where there is one
	}
	served, throttled, failed := pace.Served, pace.Throttled, pace.Failed
	for _, c := range []struct {
		name            string
		attempts, quota int
		ends            []end
	}{
		{"as the SDK does", 0, 0, []end{
			{throttled, 0, true, 495},
			{throttled, 1, true, 490},
			{throttled, 2, false, 490}, // the third attempt is the last
			{failed, 0, true, 485},
			{served, 1, false, 490}, // gives its own back
			{served, 0, false, 490}, // gives nothing
			{pace.Ignored, 1, false, 490},
			{throttled, math.MaxInt, false, 490},
		}},
		{"two retries", 9, 10, []end{
			{throttled, 0, true, 5},
			{throttled, 0, true, 0},
			{throttled, 0, false, 0},
			{throttled, 1, false, 0},
			{served, 1, false, 5},
			{failed, 0, true, 0},
			{served, 1, false, 5},
			{served, 1, false, 10},
			{served, 1, false, 10}, // at most what there was
		}},
		{"one attempt", 1, -1, []end{{throttled, 0, false, 0}, {failed, 0, false, 0}}},
		{"no end", -1, -1, []end{{throttled, 1000, true, 0}, {failed, math.MaxInt, true, 0}, {served, 7, false, 0}}},
	} {
		a := &AWS{Attempts: c.attempts, Quota: c.quota}
		for i, e := range c.ends {
			now := at(time.Duration(i) * time.Second)
			r := pace.Request{Since: now, Try: e.try}
			a.Start(now, r)
			rest := a.Observe(now, pace.Outcome{Request: r, Sent: now, Report: pace.Report{Verdict: e.v}})
			retried := rest != pace.Never && (e.v == throttled || e.v == failed)
			if retried != e.rest {
				t.Errorf("%s, answer %d: %v at try %d rests %v, want a retry: %v", c.name, i, e.v, e.try, rest, e.rest)
			}
			if left := cmp.Or(max(c.quota, 0), awsQuota) - a.spent; c.quota >= 0 && left != e.left {
				t.Errorf("%s, answer %d: %v at try %d leaves %d retry tokens, want %d", c.name, i, e.v, e.try, left, e.left)
			}
		}
		if c.quota < 0 && a.spent != 0 {
			t.Errorf("%s: %d retry tokens spent without a quota", c.name, a.spent)
		}
	}
	final := new(AWS)
	if rest := final.Observe(at(0), pace.Outcome{Sent: at(0), Report: pace.Report{Verdict: pace.Failed, Final: true}}); rest != pace.Never || final.spent != 0 {
		t.Errorf("what must not be retried rests %v and spends %d, want Never and nothing", rest, final.spent)
	}
}
