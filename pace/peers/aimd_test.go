package peers

import (
	"math"
	"testing"
	"time"

	"github.com/throttle-go/throttle/pace"
)

// The story of 10, 5 and 2.5 requests a second.
func TestAIMDHalves(t *testing.T) {
	a := &AIMD{}
	tell := func(at, sent time.Duration, v pace.Verdict, wantRate float64) {
		t.Helper()
		if rest := a.Observe(t0.Add(at), pace.Outcome{Sent: t0.Add(sent), Report: pace.Report{Verdict: v}}); rest != 0 {
			t.Errorf("Observe at %v = %v, want 0", at, rest)
		}
		if math.Abs(a.rate-wantRate) > 1e-9 {
			t.Errorf("rate after %v at %v, sent at %v: %v, want %v", v, at, sent, a.rate, wantRate)
		}
	}
	wait := func(now time.Duration, place int, want time.Duration) {
		t.Helper()
		if got := a.Wait(at(now), pace.Request{Since: at(now), Place: place}); got-want > 1 || want-got > 1 {
			t.Errorf("Wait(Place %d) at %v = %v, want %v", place, now, got, want)
		}
	}
	wait(0, 0, 0)
	wait(0, 3, 200*ms)
	startAll(a, t0, 3) // at 0, 100, 200 ms
	wait(200*ms, 0, 100*ms)
	tell(250*ms, 0, pace.Throttled, 5)
	wait(250*ms, 0, 150*ms) // 200 ms after the last
	wait(250*ms, 2, 350*ms)
	tell(260*ms, 100*ms, pace.Throttled, 5) // same round
	tell(270*ms, 200*ms, pace.Failed, 5)
	tell(280*ms, 200*ms, pace.Ignored, 5)
	a.Start(at(400*ms), pace.Request{Since: at(300 * ms)})
	wait(400*ms, 0, 200*ms)
	tell(500*ms, 400*ms, pace.Throttled, 2.5)
	wait(500*ms, 0, 300*ms)
	tell(600*ms, 400*ms, pace.Served, 2.51)
	wait(600*ms, 0, 198406375*time.Nanosecond) // 400 ms + 1/2.51
}

func TestAIMDBounds(t *testing.T) {
	a := &AIMD{Initial: 100, Cut: 0.1, Step: 10, Min: 2, Max: 50}
	startAll(a, t0, 1)
	if a.rate != 50 {
		t.Errorf("first rate %v, want Max 50", a.rate)
	}
	for i := range 5 {
		now := at(time.Duration(i) * time.Second)
		a.Observe(now, pace.Outcome{Sent: now, Report: pace.Report{Verdict: pace.Throttled}})
	}
	if a.rate != 2 {
		t.Errorf("rate after five cuts %v, want Min 2", a.rate)
	}
	for range 10 {
		a.Observe(at(9*time.Second), pace.Outcome{Sent: at(8 * time.Second), Report: pace.Report{Verdict: pace.Served}})
	}
	if a.rate != 50 {
		t.Errorf("rate after ten steps %v, want Max 50", a.rate)
	}
	low := &AIMD{}
	startAll(low, t0, 1)
	for i := range 60 {
		now := at(time.Duration(i) * time.Second)
		low.Observe(now, pace.Outcome{Sent: now, Report: pace.Report{Verdict: pace.Throttled}})
	}
	if got := low.Wait(t0, pace.Request{}); got < time.Minute-ms || got > time.Minute+ms {
		t.Errorf("Wait at the least rate = %v, want a minute", got)
	}
}

func TestAIMDGivesBack(t *testing.T) {
	a := &AIMD{}
	startAll(a, t0, 2)
	before := *a
	now := at(100 * ms)
	r := pace.Request{Since: t0}
	a.Start(now, r)
	a.Observe(now, pace.Outcome{Request: r})
	if got, want := a.Wait(now, r), before.Wait(now, r); max(got, 0) != max(want, 0) {
		t.Errorf("Wait after an unsent start = %v, want %v", got, want)
	}
}

// Alone on a server of 4/s it finds the limit and stays about it.
func TestAIMDFindsTheLimit(t *testing.T) {
	a, f := &AIMD{}, &pace.Fixed{Rate: 4, Burst: 8} // f plays the server
	now, served, throttled := t0, 0, 0
	for now.Before(at(30 * time.Minute)) {
		r := pace.Request{Since: now}
		now = now.Add(max(a.Wait(now, r), 0))
		a.Start(now, r)
		o := pace.Outcome{Request: r, Sent: now, Report: pace.Report{Verdict: pace.Served}}
		if here := (pace.Request{Since: now}); f.Wait(now, here) <= 0 {
			f.Start(now, here)
			served++
		} else {
			o.Verdict = pace.Throttled
			throttled++
		}
		now = now.Add(10 * ms)
		a.Observe(now, o)
	}
	if served < 5000 || throttled > served/50 {
		t.Errorf("served %d, throttled %d in 30 minutes of 4/s; want 5000 at least, and a fiftieth at most", served, throttled)
	}
}
