package pace

import (
	"math"
	"testing"
	"time"

	"github.com/throttle-go/throttle/pace/internal/schedule"
)

const ms = time.Millisecond

func TestBackoffDelay(t *testing.T) {
	zero := Backoff{}
	linear := Backoff{Base: 50 * ms, Step: 25 * ms, Cap: 120 * ms}
	ruby := Backoff{Base: 800 * ms, Factor: 1.2, Cap: -1}
	emr := Backoff{Base: 10 * ms, Cap: -1}
	for _, c := range []struct {
		name  string
		b     Backoff
		retry int
		want  time.Duration
	}{
		{"zero", zero, 0, 100 * ms},
		{"zero", zero, 1, 200 * ms},
		{"zero", zero, 7, 12800 * ms},
		{"zero", zero, 8, 20 * time.Second},
		{"zero", zero, math.MaxInt, 20 * time.Second},
		{"zero", zero, -1, 100 * ms},
		{"linear", linear, 0, 50 * ms},
		{"linear", linear, 2, 100 * ms},
		{"linear", linear, 3, 120 * ms},
		{"ruby", ruby, 1, 960 * ms},
		{"ruby", ruby, 2, 1152 * ms},
		{"ruby", ruby, 10_000, schedule.Longest},
		{"2^10 × 10 ms", emr, 10, 10240 * ms},
		{"not numbers", Backoff{Factor: math.NaN(), Jitter: UpwardJitter, Spread: math.NaN()}, 1, 200 * ms},
		{"cap below base", Backoff{Base: time.Second, Cap: ms}, 0, ms},
	} {
		got := c.b.Delay(c.retry, 0, 0)
		if c.b.Jitter != NoJitter { // at least, and at most a tenth more
			if got < c.want || got > c.want+c.want/10 {
				t.Errorf("%s: Delay(%d) = %v, want %v and up to a tenth more", c.name, c.retry, got, c.want)
			}
		} else if diff := got - c.want; diff < -1 || diff > 1 {
			t.Errorf("%s: Delay(%d) = %v, want %v", c.name, c.retry, got, c.want)
		}
	}
}

// Each jitter fills its range and stays in it.
func TestBackoffJitter(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		name     string
		b        Backoff
		retry    int
		prev     time.Duration
		low, top time.Duration
	}{
		{"full", Backoff{Jitter: FullJitter}, 3, 0, 0, 800 * ms},
		{"full at the cap", Backoff{Jitter: FullJitter}, 60, 0, 0, 20 * s},
		{"equal", Backoff{Jitter: EqualJitter}, 3, 0, 400 * ms, 800 * ms},
		{"decorrelated, first", Backoff{Jitter: DecorrelatedJitter}, 0, 0, 100 * ms, 300 * ms},
		{"decorrelated", Backoff{Jitter: DecorrelatedJitter}, 3, 2 * s, 100 * ms, 6 * s},
		{"decorrelated, no overflow", Backoff{Jitter: DecorrelatedJitter, Cap: 1000 * s}, 3, Never, 1000 * s, 1000 * s},
		{"±10 %", Backoff{Jitter: PlusMinusJitter}, 0, 0, 90 * ms, 110 * ms},
		{"±30 %", Backoff{Jitter: PlusMinusJitter, Spread: 0.3}, 0, 0, 70 * ms, 130 * ms},
		{"±200 % is ±100 %", Backoff{Jitter: PlusMinusJitter, Spread: 2}, 0, 0, 0, 200 * ms},
		{"± at the cap", Backoff{Jitter: PlusMinusJitter, Cap: 100 * ms}, 5, 0, 90 * ms, 100 * ms},
		{"upward", Backoff{Jitter: UpwardJitter}, 1, 0, 200 * ms, 220 * ms},
		{"upward over the cap", Backoff{Jitter: UpwardJitter, Spread: 0.5}, 60, 0, 20 * s, 30 * s},
	} {
		low, top := Never, time.Duration(0)
		for i := range 5000 {
			d := c.b.Delay(c.retry, c.prev, luckOf(1, uint64(i), c.retry))
			low, top = min(low, d), max(top, d)
		}
		slack := (c.top - c.low) / 100
		if low < c.low || low > c.low+slack || top > c.top || top < c.top-slack {
			t.Errorf("%s: Delay(%d, %v) from %v to %v, want from %v to %v", c.name, c.retry, c.prev, low, top, c.low, c.top)
		}
	}
}

func TestBackoffObserve(t *testing.T) {
	b := Backoff{Tries: 3}
	for _, c := range []struct {
		verdict Verdict
		try     int
		want    time.Duration
	}{
		{Served, 0, 0},
		{Ignored, 1, 0},
		{Served, 9, 0},
		{Throttled, 0, 100 * ms},
		{Failed, 1, 200 * ms},
		{Throttled, 2, Never},
		{Failed, 9, Never},
	} {
		o := Outcome{Request: Request{Try: c.try}, Sent: t0, Report: Report{Verdict: c.verdict}}
		if got := b.Observe(at(time.Second), o); got != c.want {
			t.Errorf("%+v.Observe(try %d %v) = %v, want %v", b, c.try, c.verdict, got, c.want)
		}
	}
	decorrelated := Backoff{Jitter: DecorrelatedJitter}
	r := Request{Try: 2, Rest: 5 * time.Second, Luck: 7}
	got, want := decorrelated.Observe(t0, Outcome{Request: r, Sent: t0, Report: Report{Verdict: Throttled}}), decorrelated.Delay(2, 5*time.Second, 7)
	if got != want {
		t.Errorf("Observe after a rest of %v = %v, want %v", r.Rest, got, want)
	}
}
