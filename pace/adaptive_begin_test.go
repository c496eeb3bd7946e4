package pace

import (
	"testing"
	"time"
)

// Once a hundred were served the first flight is over, however many take off
// at once after that.
func TestAdaptiveFirstFlightEnds(t *testing.T) {
	p := &play{t: t, a: &Adaptive{}}
	for range 101 {
		p.now -= 99 * time.Millisecond // calls of 1 ms, so that all is in 10 s
		p.served()
	}
	for i := range 1000 {
		if _, w := p.request(); w != 0 {
			t.Fatalf("request %d of a thousand at once waits %v, want 0", i, w)
		}
	}
}

// A policy that the very first refusal states is where it begins.
func TestAdaptiveBeginsWithThePolicy(t *testing.T) {
	p := &play{t: t, a: &Adaptive{}}
	p.call(Throttled, Hints{Limit: Some(int64(1)), Window: Some(time.Minute)}, 0)
	if w := p.a.Wait(at(p.now), Request{Since: at(p.now)}); w < 50*time.Second || w > 70*time.Second {
		t.Errorf("refused at 1 a minute, the next may start in %v, want about a minute", w)
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
