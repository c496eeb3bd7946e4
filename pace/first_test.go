package pace

import (
	"testing"
	"time"
)

// What has no answer counts as accepted after a second, or after twice the time
// of the slowest answer.
func TestAdaptiveFirstFlightIsBounded(t *testing.T) {
	for _, c := range []struct{ slowest, want time.Duration }{
		{0, time.Second},
		{200 * time.Millisecond, time.Second},
		{2 * time.Second, 4 * time.Second},
		{8 * time.Second, 10 * time.Second},
	} {
		var a Adaptive
		now := at(0)
		if c.slowest > 0 {
			a.Start(now, Request{})
			sent := now
			now = now.Add(c.slowest)
			a.Observe(now, Outcome{Report: Report{Verdict: Served}, Sent: sent})
		}
		started := 0
		for a.Wait(now, Request{Since: now}) <= 0 && started < 100 {
			a.Start(now, Request{})
			started++
		}
		if w := a.Wait(now, Request{Since: now}); w != c.want || started > 2 {
			t.Errorf("after an answer in %v, %d start and the next waits %v; want %v", c.slowest, started, w, c.want)
		}
		if w := a.Wait(now, Request{Since: now, Place: 1}); w != Never {
			t.Errorf("the forecast is %v; want unknown, as an answer may come at any time", w)
		}
		if w := a.Wait(now.Add(c.want), Request{Since: now}); w > 0 {
			t.Errorf("after %v the next waits %v more", c.want, w)
		}
	}
}
