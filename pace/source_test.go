package pace

import (
	"testing"
	"time"
)

// A Why says where its rate is known from.
func TestSource(t *testing.T) {
	told := func(remaining int64) Hints { return Hints{Limit: Some(int64(100)), Remaining: Some(remaining)} }
	end := func(a *Adaptive, now time.Time, v Verdict, h Hints) {
		a.Start(now, Request{Since: now, Cost: 1})
		a.Observe(now.Add(time.Second), Outcome{Report: Report{Verdict: v, Hints: h, Cost: 1}, Request: Request{Since: now, Cost: 1}, Sent: now})
	}
	for _, c := range []struct {
		name string
		now  time.Duration
		do   func(a *Adaptive)
		want Source
	}{
		{"unused", 0, func(*Adaptive) {}, SourceNone},
		{"served", 2 * time.Second, func(a *Adaptive) { end(a, t0, Served, Hints{}) }, SourceNone},
		{"refused", 2 * time.Second, func(a *Adaptive) { end(a, t0, Throttled, Hints{}) }, SourceRefusals},
		{"restored", 2 * time.Second, func(a *Adaptive) {
			a.Restore(t0, Learnt{At: t0, Rate: 5})
			end(a, t0, Served, Hints{})
		}, SourceRestored},
		{"restored and refused", 2 * time.Second, func(a *Adaptive) {
			a.Restore(t0, Learnt{At: t0, Rate: 5})
			end(a, t0, Throttled, Hints{})
		}, SourceRefusals},
		{"little remains", 2 * time.Second, func(a *Adaptive) { end(a, t0, Served, told(1)) }, SourceStated},
		{"refused with hints", 2 * time.Second, func(a *Adaptive) { end(a, t0, Throttled, told(0)) }, SourceStated},
		{"refused below a stated policy", time.Minute, func(a *Adaptive) {
			a.Restore(t0, Learnt{At: t0, Rate: 500})
			end(a, t0, Served, Hints{Limit: Some(int64(10)), Window: Some(time.Second)})
		}, SourceStated},
	} {
		a := new(Adaptive)
		c.do(a)
		if w := a.Why(at(c.now)); w.Source != c.want || (w.Rate > 0) != (c.want != SourceNone) {
			t.Errorf("%s: rate %.3g from %v, want from %v", c.name, w.Rate, w.Source, c.want)
		}
	}
	for f, want := range map[*Fixed]Why{{Rate: 4}: {Rate: 4, Source: SourceSet}, {}: {}} {
		if got := f.Why(t0); got != want {
			t.Errorf("Fixed with the rate %v: %+v, want %+v", f.Rate, got, want)
		}
	}
	if got := SourceStated.String() + " " + Source(9).String(); got != "stated unknown" {
		t.Error(got)
	}
}
