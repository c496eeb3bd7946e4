package peers

import (
	"math"
	"testing"
	"time"

	"github.com/throttle-go/throttle/pace"
)

// rubyLoop is the gem's call, line by line; it returns the sleep before the
// call and those before its retries.
type rubyLoop struct {
	kind                 RubyKind
	maxLimit             float64
	minSleep, multiplier float64
	sleepFor             float64
}

func (c *rubyLoop) call(jitter func() float64, answers func() (status int, remaining float64)) (sleeps []float64) {
	sleep := func(v float64) { sleeps = append(sleeps, v+v*jitter()) }
	sleepFor := c.sleepFor
	if c.kind == RubyExponential {
		sleepFor = c.minSleep
	} else {
		sleep(sleepFor)
	}
	status, remaining := answers()
	for status == 429 {
		if c.kind != RubyExponential {
			sleepFor += c.minSleep
		}
		sleep(sleepFor)
		sleepFor *= c.multiplier
		status, remaining = answers()
	}
	if status == 500 { // raises
		return sleeps
	}
	var decrease float64
	switch c.kind {
	case RubyExponential:
		return sleeps
	case RubyGradual:
		decrease = c.minSleep
	case RubyProportional:
		decrease = sleepFor / c.maxLimit
	case RubyRemaining:
		decrease = sleepFor * remaining
		decrease /= c.maxLimit
	}
	if sleepFor >= decrease {
		sleepFor -= decrease
	} else {
		sleepFor = 0
	}
	c.sleepFor = sleepFor
	return sleeps
}

// Calls of one worker through a Gate rest and wait as the gem's loop sleeps.
func TestRubyAgreesWithTheGem(t *testing.T) {
	for _, kind := range []RubyKind{RubyExponential, RubyGradual, RubyProportional, RubyRemaining} {
		for _, initial := range []time.Duration{0, time.Second} {
			c := &Ruby{Kind: kind, Initial: initial}
			gem := &rubyLoop{kind: kind, maxLimit: 4500, minSleep: 3600 / 4500., multiplier: 1.2, sleepFor: initial.Seconds()}
			compareRuby(t, c, gem)
		}
	}
	c := &Ruby{Kind: RubyRemaining, MaxLimit: 100, MinSleep: 2 * time.Second, Multiplier: 3}
	compareRuby(t, c, &rubyLoop{kind: RubyRemaining, maxLimit: 100, minSleep: 2, multiplier: 3})
	c = &Ruby{Kind: RubyGradual, MaxLimit: 7200}
	compareRuby(t, c, &rubyLoop{kind: RubyGradual, maxLimit: 7200, minSleep: 0.5, multiplier: 1.2})
}

func compareRuby(t *testing.T, c *Ruby, gem *rubyLoop) {
	t.Helper()
	now := t0
	for call := range 400 {
		var got []time.Duration
		var jitters []float64
		draw := func(luck pace.Luck, k int) { jitters = append(jitters, luck.Unit(k)/10) }
		r := pace.Request{Since: now, Luck: luckOf(5, uint64(call), 0)}
		if c.Kind != RubyExponential {
			wait := c.Wait(now, r)
			got, now = append(got, wait), now.Add(wait)
			draw(r.Luck, 0)
		}
		var trace []int
		var remaining float64
		for done := false; !done; {
			if wait := c.Wait(now, r); wait > 0 {
				t.Fatalf("kind %d call %d try %d: Wait = %v after the sleep", c.Kind, call, r.Try, wait)
			}
			c.Start(now, r)
			o := pace.Outcome{Request: r, Sent: now, Report: pace.Report{Verdict: pace.Served}}
			now = now.Add(100 * ms)
			switch u := r.Luck.Unit(9); {
			case u < 1/(2+c.pace()):
				o.Verdict = pace.Throttled
			case u < 0.55:
				o.Verdict = pace.Failed
			case u < 0.95: // else the server does not say
				o.Hints.Remaining = pace.Some(int64(r.Luck.Unit(10) * 5000))
			}
			remaining = float64(o.Hints.Remaining.V)
			rest := c.Observe(now, o)
			trace = append(trace, map[pace.Verdict]int{pace.Served: 200, pace.Throttled: 429, pace.Failed: 500}[o.Verdict])
			done = o.Verdict != pace.Throttled
			if !done {
				got, now = append(got, rest), now.Add(rest)
				draw(r.Luck, 1)
				r = pace.Request{Since: now, Try: r.Try + 1, Rest: rest, Luck: luckOf(5, uint64(call), r.Try+1)}
			}
		}
		next := 0
		want := gem.call(
			func() float64 { next++; return jitters[next-1] },
			func() (int, float64) { s := trace[0]; trace = trace[1:]; return s, remaining },
		)
		if len(got) != len(want) {
			t.Fatalf("kind %d call %d: %d sleeps %v, want %d %v", c.Kind, call, len(got), got, len(want), want)
		}
		for i := range got {
			// Ruby's sleeps are in seconds, ours in whole nanoseconds.
			if d := math.Abs(got[i].Seconds() - want[i]); d > 2e-9+want[i]*1e-12 {
				t.Fatalf("kind %d call %d: sleep %d = %v, want %.9f s", c.Kind, call, i, got[i], want[i])
			}
		}
	}
}

// After a failure the retry is a new call: it rests as long as s, and the
// throttled tries before do not count.
func TestRubyFailureIsANewCall(t *testing.T) {
	c := &Ruby{Kind: RubyGradual, Initial: 2 * time.Second}
	tell := func(try int, v pace.Verdict) time.Duration {
		r := pace.Request{Since: t0, Try: try}
		c.Start(t0, r)
		return c.Observe(t0, pace.Outcome{Request: r, Sent: t0, Report: pace.Report{Verdict: v}})
	}
	unit := pace.Luck(0).Unit(1)
	for _, s := range []struct {
		try     int
		verdict pace.Verdict
		x       float64
	}{
		{0, pace.Throttled, 2.8},
		{1, pace.Throttled, 2.8*1.2 + .8},
		{2, pace.Failed, 2},
		{3, pace.Throttled, 2.8},
		{4, pace.Throttled, 2.8*1.2 + .8},
	} {
		if got, want := tell(s.try, s.verdict), jittered(s.x, unit); got-want > 1 || want-got > 1 {
			t.Errorf("try %d %v rests %v, want %v", s.try, s.verdict, got, want)
		}
	}
	tell(5, pace.Served)
	if want := (2.8*1.2+.8)*1.2 - .8; c.pace()-want > 1e-9 || want-c.pace() > 1e-9 {
		t.Errorf("s = %v, want %v", c.pace(), want)
	}
}

// Ten calls throttled in one flight do not multiply one another's sleep.
func TestRubySharedDoesNotCollapse(t *testing.T) {
	c := &Ruby{Kind: RubyProportional}
	r := pace.Request{Since: t0}
	for range 10 {
		c.Start(t0, r)
	}
	for range 10 {
		if rest := c.Observe(t0, pace.Outcome{Request: r, Sent: t0, Report: pace.Report{Verdict: pace.Throttled}}); rest > 880*ms {
			t.Fatalf("rest %v, want at most 880ms", rest)
		}
	}
	r.Try = 1
	c.Start(t0, r)
	c.Observe(t0, pace.Outcome{Request: r, Sent: t0, Report: pace.Report{Verdict: pace.Served}})
	if want := .96 - .96/4500; c.pace()-want > 1e-12 || want-c.pace() > 1e-12 {
		t.Errorf("s = %v, want %v", c.pace(), want)
	}
}
