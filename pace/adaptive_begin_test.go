package pace

import (
	"math"
	"testing"
	"time"
)

// As many as have been served take off at once.
func TestAdaptiveFirstFlightIsAsLargeAsServed(t *testing.T) {
	p := &play{t: t, a: &Adaptive{}}
	for range 1000 {
		p.served()
	}
	for i := range 1001 {
		if _, w := p.request(); w != 0 {
			t.Fatalf("request %d of a thousand and one at once waits %v, want 0", i, w)
		}
	}
	if w := p.a.Wait(at(p.now), Request{Since: at(p.now)}); w != 350*time.Millisecond {
		t.Errorf("one more waits %v, want 0.35 s", w)
	}
}

// A rest saves up a request, but time in which the server forbade to send does not: at
// a limit without a burst the second request after it would be refused.
func TestAdaptiveSavesNothingWhileBlocked(t *testing.T) {
	for _, c := range []struct {
		after, late time.Duration // Retry-After, and how long after it the next call comes
		least, most time.Duration // the wait of the one after that, in intervals of a second
	}{
		{10 * time.Second, 0, 900 * time.Millisecond, 1100 * time.Millisecond},
		{10 * time.Second, 5 * time.Second, -time.Hour, 100 * time.Millisecond},
		{0, 5 * time.Second, -time.Hour, 100 * time.Millisecond},
	} {
		p := &play{t: t, a: &Adaptive{}}
		p.a.begin(at(0))
		p.a.begins(0, 1)
		p.call(Throttled, Hints{}, c.after)
		p.now += p.a.Wait(at(p.now), Request{Since: at(p.now)}) + c.late
		p.a.Start(at(p.now), Request{Since: at(p.now)})
		p.a.Observe(at(p.now), Outcome{Report: Report{Verdict: Served}, Sent: at(p.now)})
		interval := time.Duration(float64(time.Second) / p.a.rate(p.now.Seconds()))
		if w := p.a.Wait(at(p.now), Request{Since: at(0)}); w < time.Duration(c.least.Seconds()*float64(interval)) || w > time.Duration(c.most.Seconds()*float64(interval)) {
			t.Errorf("Retry-After %v, and %v later: the second waits %v at intervals of %v; want %v to %v of them", c.after, c.late, w, interval, c.least.Seconds(), c.most.Seconds())
		}
	}
}

// A policy that the very first refusal states is where it begins, at a turn of its own.
func TestAdaptiveBeginsWithThePolicy(t *testing.T) {
	p := &play{t: t, a: &Adaptive{}}
	p.call(Throttled, Hints{Limit: Some(int64(1)), Window: Some(time.Minute)}, 0)
	if w := p.a.Wait(at(p.now), Request{Since: at(p.now)}); w < 60*time.Second || w > 100*time.Second {
		t.Errorf("refused at 1 a minute, the next may start in %v, want a minute, and half of one at most", w)
	}
}

// A share of the policy is a guess for who has served next to nothing. One of many
// clients that has measured its rate does not go up to a fourth of the policy as it is refused.
func TestAdaptiveBeginsWithWhatItMeasured(t *testing.T) {
	told := Hints{Limit: Some(int64(264)), Window: Some(time.Second)}
	for _, calls := range []int{5, 36} {
		p := &play{t: t, a: &Adaptive{}}
		for range calls {
			p.call(Served, told, 0)
		}
		p.call(Throttled, told, 0)
		got := p.a.rate(p.now.Seconds())
		if guess := calls < 10; guess && got < 50 || !guess && got > 10 {
			t.Errorf("after %d calls served at 10 a second and a refusal of 264 a second it goes on with %.1f a second", calls, got)
		}
	}
}

// A rate that was learnt from refusals is kept when hints appear.
func TestAdaptiveKeepsItsRateWhenHintsAppear(t *testing.T) {
	p := &play{t: t, a: &Adaptive{}}
	for range 100 {
		p.now -= 90 * time.Millisecond // calls of 10 ms
		p.served()
	}
	p.throttled() // about 46 a second, from now on
	rate := p.a.rate(p.now.Seconds())
	p.call(Served, remaining(5), 0)
	if got := p.a.level.theta; !p.a.level.on || got < 0.8*rate || got > 1.25*rate {
		t.Errorf("from %.1f a second it goes on with %.1f, on %v; want about the same, on", rate, got, p.a.level.on)
	}
}

// TestHintsAreForgotten: what a server said once, and for an hour or its window
// no more, binds nothing.
func TestHintsAreForgotten(t *testing.T) {
	for window, forgotten := range map[time.Duration]time.Duration{
		time.Minute:                61 * time.Minute,
		10 * time.Hour:             601 * time.Minute,
		100 * 365 * 24 * time.Hour: 24*time.Hour + 5*time.Minute,
	} {
		p := &play{t: t, a: &Adaptive{}}
		h := Hints{Limit: Some(int64(1)), Window: Some(window), Remaining: Some(int64(0))}
		p.call(Throttled, h, 0)
		p.now += forgotten - 10*time.Minute
		p.call(Served, h, 0)
		p.now += forgotten - 10*time.Minute // not yet
		p.served()
		if c := p.a.level.policy; c == 0 {
			t.Errorf("a window of %v is forgotten after %v", window, p.now)
		}
		p.now += 10 * time.Minute
		p.served()
		began := p.now
		for range 100 {
			p.served()
		}
		if c := p.a.level.policy; c != 0 || p.now-began > 12*time.Hour {
			t.Errorf("window of %v: policy %v, 100 requests took %v, want it forgotten", window, c, p.now-began)
		}
	}
}

// What a large flight hears as it comes home counts as one round, however few are
// still in flight when its last requests are answered.
func TestLevelCountsAFlightOnce(t *testing.T) {
	for _, n := range []int{4, 20, 500} {
		p := &play{t: t, a: &Adaptive{}}
		l := &p.a.level
		p.a.begin(at(0))
		p.a.begins(0, 100)
		l.on, l.theta, l.weight, l.most, l.low, l.swing, l.h = true, 100, 1, 50, 1, 4, 3
		sent := at(time.Second)
		for range n {
			p.a.Start(sent, Request{Since: sent})
		}
		before := l.theta
		for range n {
			p.a.Observe(at(2*time.Second), Outcome{Report: Report{Verdict: Served, Hints: remaining(1)}, Sent: sent})
		}
		if fell := math.Log(before / l.theta); fell < 0.5 || fell > 1.6*2/3 {
			t.Errorf("%d answers of one flight lower theta by a factor of e^%.2f; want e^0.5 to e^1.07", n, fell)
		}
	}
}

// Where the first answer says that little remains, the requests on the way count in
// half: that it took long is no limit.
func TestLevelBeginsWithWhatIsOnTheWay(t *testing.T) {
	for flying, want := range map[int]float64{1: 1.0 / 3, 9: 5.0 / 3, 21: 11.0 / 3} {
		p := &play{t: t, a: &Adaptive{}}
		for range flying {
			p.a.Start(at(0), Request{Since: at(0)})
		}
		p.a.Observe(at(3*time.Second), Outcome{Report: Report{Verdict: Served, Hints: remaining(4)}, Sent: at(0)})
		if got := p.a.level.theta; !p.a.level.on || math.Abs(got/want-1) > 0.01 {
			t.Errorf("%d in flight, the first answered after 3 s: begins with %.3g a second, want %.3g", flying, got, want)
		}
	}
}

// A call that is ignored may have ended before it was sent, so how long it took is not how
// long answers take; one that timed out took at least as long.
func TestAdaptiveIgnoredTellsNoLatency(t *testing.T) {
	a, now := new(Adaptive), at(0)
	call := func(took time.Duration, r Report) {
		a.Start(now, Request{Since: now})
		sent := now
		now = now.Add(took)
		a.Observe(now, Outcome{Report: r, Sent: sent})
	}
	call(time.Second, Report{Verdict: Served})
	for range 100 {
		call(0, Report{Verdict: Ignored})
	}
	if a.rtt != 1 {
		t.Errorf("after calls that were not sent answers are taken to need %v s, want 1", a.rtt)
	}
	for range 100 {
		call(3*time.Second, Report{Verdict: Ignored, TimedOut: true})
	}
	if math.Abs(a.rtt-3) > 0.01 {
		t.Errorf("after time-outs answers are taken to need %v s, want 3", a.rtt)
	}
}
