package pace

import (
	"testing"
	"time"
)

// TestReserve: h grows with the swing of what remains, up to 128, and beyond it where
// a share is stated; it is no more than an eighth of a policy, but 2 at least.
func TestReserve(t *testing.T) {
	for _, c := range []struct {
		about        string
		quota, share float64
		high, low    int64
		want         float64
	}{
		{"a wide swing", 0, 0, 4000, 3000, 128},
		{"a swing of 300, and a share", 0, 20, 4000, 3700, 210},
		{"a wide swing, and a share", 0, 20, 4000, 3000, 300},
		{"a policy of 800", 800, 0, 700, 500, 100},
		{"a policy of 10", 10, 0, 9, 2, 2},
	} {
		a := new(Adaptive)
		a.begin(time.Unix(0, 0))
		a.share.agreed, a.level.quota, a.level.length = c.share, c.quota, 1
		for i, r := range []int64{c.high, c.low, c.high} {
			o := Outcome{Sent: a.epoch}
			o.Verdict, o.Hints.Remaining = Served, Some(r)
			a.level.look(a, float64(i)/1e6, float64(i)/1e6, &o)
		}
		if h := a.level.h; h < 0.99*c.want || h > 1.01*c.want {
			t.Errorf("%s: h %.1f, want %v", c.about, h, c.want)
		}
	}
}

// TestReserveOfARush: how far what remains swung before the rate was paced counts by how long a
// round trip is, as answers to a rush overtake each other by far: less of it is in flight later.
func TestReserveOfARush(t *testing.T) {
	for _, c := range []struct{ swing, rtt, want float64 }{
		{200, 0.001, firstSwing},
		{200, 0.06, 20},
		{200, 1, 200},
		{4, 0.001, 4},
	} {
		a := new(Adaptive)
		a.begin(time.Unix(0, 0))
		a.rtt, a.level.swing = c.rtt, c.swing
		a.level.turnOn(a, 1, 0.9, &Outcome{Report: Report{Verdict: Served}})
		if got := a.level.swing; got < 0.99*c.want || got > 1.01*c.want {
			t.Errorf("a swing of %v, round trips of %v s: %v is remembered, want %v", c.swing, c.rtt, got, c.want)
		}
	}
}

// TestReserveOfADeepBucket: a bucket that holds more than the quota of its policy is known by
// the burst that is stated, or by what remained. Its window is the time in which it fills, and
// what remains of it is acted on where the policy alone would be too small and too short.
func TestReserveOfADeepBucket(t *testing.T) {
	for _, c := range []struct {
		about       string
		quota, most float64
		burst       Opt[int64]
		deep        float64
		stale       bool
	}{
		{"no more than the quota", 2, 1, Opt[int64]{}, 2, true},
		{"40 is stated", 2, 1, Some[int64](40), 40, false},
		{"39 remained", 2, 39, Opt[int64]{}, 40, false},
		{"what remained may be of a larger quota", 36, 40, Opt[int64]{}, 36, true},
		{"so much more is not", 36, 60, Opt[int64]{}, 61, false},
	} {
		a := new(Adaptive)
		a.begin(time.Unix(0, 0))
		var o Outcome
		o.Hints = Hints{Limit: Some(int64(c.quota)), Window: Some(time.Second), Burst: c.burst}
		a.level.tell(a, 1, &o)
		a.level.most, a.rtt = c.most, 0.15
		if deep, stale := a.level.capacity(), a.stale(); deep != c.deep || stale != c.stale {
			t.Errorf("%s: %v deep, stale %v; want %v, %v", c.about, deep, stale, c.deep, c.stale)
		}
	}
}
