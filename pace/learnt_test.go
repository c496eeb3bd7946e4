package pace

import (
	"encoding/json"
	"math"
	"testing"
	"time"
)

// learnt is an Adaptive that has come to know a limit.
func learnt(t *testing.T) (*Adaptive, time.Duration) {
	p := &play{t: t, a: &Adaptive{Blind: true}}
	for range 100 {
		p.served()
	}
	p.throttled()
	for range 20 {
		p.served()
	}
	return p.a, p.now
}

func TestLearntOutlivesARestart(t *testing.T) {
	old, now := learnt(t)
	text, err := json.Marshal(old.Learnt(at(now)))
	if err != nil {
		t.Fatal(err)
	}
	var l Learnt
	if err := json.Unmarshal(text, &l); err != nil {
		t.Fatal(err)
	}
	if want := old.rate(now.Seconds()); l.Rate > want || l.Rate < 0.9*want {
		t.Errorf("learnt a rate of %v, want %v", l.Rate, want)
	}
	for _, age := range []time.Duration{0, time.Minute, 10 * time.Hour} {
		p := &play{t: t, a: &Adaptive{Blind: true}, now: now + age}
		p.a.Restore(at(p.now), l)
		p.request()
		p.request()
		_, waited := p.request() // all at once
		if want := 1 / l.Rate; waited.Seconds() < 0.8*want || waited.Seconds() > 1.2*want {
			t.Errorf("%v later three calls are %v apart, want about %.3fs", age, waited, want)
		}
	}
}

func TestLearntAges(t *testing.T) {
	after := func(age time.Duration) float64 {
		a := &Adaptive{Blind: true}
		a.Restore(at(0), Learnt{At: at(-age), Rate: 11})
		ask(a, 0, 60, 0.02, func(float64) Verdict { return Served }, func(float64, Verdict) {})
		return a.rate(60) // a minute on
	}
	if fresh, stale := after(0), after(time.Hour); stale < 1.5*fresh {
		t.Errorf("a minute on the rate is %.3f, and %.3f if it was an hour old: want it to look for more sooner", fresh, stale)
	}
}

// TestLearntAtTheEndOfAQuietTime: time in which nobody calls raises nothing.
func TestLearntAtTheEndOfAQuietTime(t *testing.T) {
	a, now := learnt(t)
	busy, quiet := a.Learnt(at(now)).Rate, a.Learnt(at(now+10*time.Minute)).Rate
	if quiet > 1.01*busy || quiet < busy {
		t.Errorf("a rate of %.3f, and %.3f after ten minutes without calls; want the same", busy, quiet)
	}
}

func TestLearntThatIsNoUse(t *testing.T) {
	_, now := learnt(t)
	if l := new(Adaptive).Learnt(t0); l != (Learnt{}) {
		t.Errorf("a new one has learnt %+v", l)
	}
	for name, l := range map[string]Learnt{
		"nothing": {}, "too old": {at(now - 25*time.Hour), 1}, "from the future": {at(now + 1), 1},
		"negative": {at(now), -1}, "not a number": {at(now), math.NaN()}, "infinite": {at(now), math.Inf(1)},
	} {
		a := &Adaptive{}
		a.Restore(at(now), l)
		if *a != (Adaptive{}) {
			t.Errorf("%s: restored", name)
		}
	}
	used, _ := learnt(t)
	before := *used
	used.Restore(at(now), Learnt{at(now), 1})
	if *used != before {
		t.Error("restored after its first use")
	}
}

func TestLearntDoesNotPaceAFullBucket(t *testing.T) {
	p := &play{t: t, a: &Adaptive{}}
	p.a.Restore(at(0), Learnt{t0, 0.5})
	p.call(Served, remaining(4000), 0)
	for i := range 20 {
		if w := p.call(Served, remaining(4000), 0); w > trip && i > 1 {
			t.Fatalf("call %d waits %v although 4000 remain", i, w)
		}
	}
}

// TestAnAbsurdShareCostsLittle: a first refusal beside an absurd fair part does
// not take many more to be put right.
func TestAnAbsurdShareCostsLittle(t *testing.T) {
	for _, share := range []float64{1e9, 1e-9} {
		p := &play{t: t, a: new(Adaptive)}
		hints := Hints{Remaining: Some(int64(1000)), Share: Some(share)}
		for range 10 {
			p.call(Served, hints, 0) // ten a second
		}
		p.call(Throttled, hints, 0)
		if rate := p.a.rate(p.now.Seconds()); rate < 0.2 || rate > 60 {
			t.Errorf("ten a second were served, the share is said to be %g: %g a second after a refusal, want 0.2 to 60", share, rate)
		}
	}
}

// TestBlindIgnoresAShare: a client that ignores hints begins as without a share.
func TestBlindIgnoresAShare(t *testing.T) {
	var rates [2]float64
	for i, h := range []Hints{{}, {Share: Some(2.0)}} {
		p := &play{t: t, a: &Adaptive{Blind: true}}
		for range 20 {
			p.call(Served, h, 0)
		}
		p.call(Throttled, h, 0)
		rates[i] = p.a.rate(p.now.Seconds())
	}
	if rates[0] != rates[1] {
		t.Errorf("%.3g a second after a refusal, %.3g where a share is stated; want the same", rates[0], rates[1])
	}
}

// What is learnt is the rate that the limit allows, and not how often a server
// that is away is asked whether it is back.
func TestLearntInAnOutage(t *testing.T) {
	a, now := learnt(t)
	before := a.Learnt(at(now)).Rate
	p := &play{t: t, a: a, now: now}
	for range 10 {
		p.throttled()
	}
	if got := a.Learnt(at(p.now)).Rate; got < before/2 {
		t.Errorf("after ten refusals in a row it has learnt %.3g a second, before %.3g", got, before)
	}
}
