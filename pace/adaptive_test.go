package pace

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// play is one caller of an Adaptive, with answers that take 100 ms.
type play struct {
	t   *testing.T
	a   *Adaptive
	now time.Duration
	n   uint64
}

const trip = 100 * time.Millisecond

// request waits its turn from now on, and returns when it started.
func (p *play) request() (r Request, waited time.Duration) {
	p.t.Helper()
	p.n++
	r = Request{Since: at(p.now), Luck: luckOf(1, p.n, 0), Cost: 1}
	waited = max(p.a.Wait(at(p.now), r), 0)
	if waited == Never {
		p.t.Fatalf("at %v it waits for ever, %d in flight", p.now, p.a.flying)
	}
	p.now += waited
	p.a.Start(at(p.now), r)
	return r, waited
}

// call makes one request after the other is answered.
func (p *play) call(v Verdict, h Hints, after time.Duration) (waited time.Duration) {
	p.t.Helper()
	r, waited := p.request()
	sent := at(p.now)
	p.now += trip
	if rest := p.a.Observe(at(p.now), Outcome{Request: r, Sent: sent, Report: Report{Verdict: v, Hints: h, After: after}}); rest != 0 {
		p.t.Errorf("rest %v, want 0: the rate paces retries too", rest)
	}
	return waited
}

func (p *play) served() time.Duration    { p.t.Helper(); return p.call(Served, Hints{}, 0) }
func (p *play) throttled() time.Duration { p.t.Helper(); return p.call(Throttled, Hints{}, 0) }

func TestAdaptiveDoesNotSlowAServerWithoutLimit(t *testing.T) {
	p := &play{t: t, a: &Adaptive{}}
	for i := range 1000 {
		if w := p.served(); w != 0 {
			t.Fatalf("call %d waits %v, want 0", i, w)
		}
	}
}

func TestAdaptiveFirstFlight(t *testing.T) {
	a := &Adaptive{}
	ask := func(now time.Duration) time.Duration { return a.Wait(at(now), Request{Since: at(now)}) }
	start := func(now time.Duration) { a.Start(at(now), Request{Since: at(now)}) }
	end := func(now time.Duration) {
		a.Observe(at(now), Outcome{Sent: t0, Request: Request{}, Report: Report{Verdict: Served}})
	}
	for _, step := range []struct {
		name  string
		do    func(time.Duration)
		after time.Duration
		wait  time.Duration
	}{
		{"one may go", start, 0, 350 * time.Millisecond},
		{"served: two may be in flight", end, trip, 0},
		{"the first of them", start, trip, 0},
		{"the second", start, trip, 350 * time.Millisecond},
		{"two served", end, 2 * trip, 0},
	} {
		step.do(step.after)
		if w := max(ask(step.after), 0); w != step.wait {
			t.Errorf("%s: Wait = %v, want %v", step.name, w, step.wait)
		}
	}
}

func TestAdaptiveCutsAtOnceAndNeverReturnsAtFullSpeed(t *testing.T) {
	p := &play{t: t, a: &Adaptive{}}
	for range 20 {
		p.served() // 10 a second
	}
	p.throttled()
	if rate := p.a.rate(p.now.Seconds()); rate < 8 || rate > 9.8 {
		t.Fatalf("after the throttled answer it goes at %.2f a second, want somewhat below the 10 that were served", rate)
	}
	// A bucket of 5 a second that it empties holds it down from there.
	level, tries := 0.0, 0
	for end := p.now + time.Minute; p.now < end; tries++ {
		before := p.now
		if level >= 1 {
			level--
			p.served()
		} else {
			p.throttled()
		}
		level += 5 * (p.now - before).Seconds()
	}
	if rate := p.a.rate(p.now.Seconds()); rate > 6 || tries > 330 {
		t.Errorf("a minute later it goes at %.2f a second after %d tries, want about 5 and 300", rate, tries)
	}
}

func TestAdaptiveBacksOffExponentiallyAndSpringsBack(t *testing.T) {
	p := &play{t: t, a: &Adaptive{}}
	p.throttled()
	rates := []float64{p.a.rate(p.now.Seconds())}
	for range 5 {
		p.throttled()
		rates = append(rates, p.a.rate(p.now.Seconds()))
	}
	if ratio := rates[5] / rates[0]; ratio > 0.25 {
		t.Errorf("five throttled answers in a row cut to %.2f of the rate, want below a quarter: %v", ratio, rates)
	}
	gentleCuts := math.Exp(-5 * usualCut)
	if ratio := rates[5] / rates[0]; ratio > gentleCuts/2 {
		t.Errorf("to %.2f of the rate, hardly below the %.2f of ordinary cuts", ratio, gentleCuts)
	}
	if base := math.Exp(-usualCut - 5*usualCut/2); math.Abs(p.a.base-base) > 1e-9 {
		t.Errorf("base is %.4f, want %.4f: five refusals more cost half of L each", p.a.base, base)
	}
	for range 3 {
		p.served()
	}
	if now := p.a.rate(p.now.Seconds()); now < rates[0]*0.8 {
		t.Errorf("3 served later the rate is %.3f, want about %.3f: it springs back by a factor of 3 each", now, rates[0])
	}
}

func TestAdaptiveCutsOnceARound(t *testing.T) {
	p := &play{t: t, a: &Adaptive{}}
	for range 50 {
		p.served()
	}
	r, _ := p.request()
	sent := p.now
	p.throttled()
	want := p.a.base
	p.a.Observe(at(p.now), Outcome{Request: r, Sent: at(sent), Report: Report{Verdict: Throttled}})
	if p.a.base != want {
		t.Errorf("floor %v, want %v: that request left before the cut", p.a.base, want)
	}
}

func TestAdaptiveObeysRetryAfterAndSpreadsTheReturn(t *testing.T) {
	seen := map[time.Duration]bool{}
	for i := range 20 {
		p := &play{t: t, a: &Adaptive{Blind: true}, n: uint64(i) * 100}
		p.call(Throttled, Hints{}, 7*time.Second)
		w := p.a.Wait(at(p.now), Request{Since: at(p.now)})
		if w < 7*time.Second || w > 9*time.Second {
			t.Errorf("Wait = %v, want from 7s to 9s", w)
		}
		seen[w] = true
	}
	if len(seen) < 15 {
		t.Errorf("20 clients return at %d different times, want them spread", len(seen))
	}
}

func TestAdaptiveGrowsOnlyWhileItBinds(t *testing.T) {
	p := &play{t: t, a: &Adaptive{Blind: true}}
	for range 100 {
		p.served()
	}
	p.throttled()
	for range 10 {
		p.served()
	}
	before := p.a.rate(p.now.Seconds())
	p.now += 24 * time.Hour
	p.served()
	if after := p.a.rate(p.now.Seconds()); after > 1.1*before {
		t.Errorf("after a day of rest the rate went from %.2f to %.2f", before, after)
	}
	p.request()
	p.request()
	if _, w := p.request(); w < time.Duration(0.8/before*1e9) {
		t.Errorf("a rest saved up a burst: the third call at once waits %v", w)
	}
}

func TestAdaptiveFeelsItsWayUp(t *testing.T) {
	a := known(8, leastTrust)
	a.period = 10
	serve := func(from, end float64) float64 {
		ask(a, from, end, 0.02, func(float64) Verdict { return Served }, func(float64, Verdict) {})
		return a.rate(end)
	}
	// The feel is slow for a T, and then ever faster.
	if now := serve(0, 9); now > 1.1*8 || now <= 8 {
		t.Errorf("a T later the rate is %.2f, want a few hundredths above 8", now)
	}
	if now := serve(9, 40); now < 2*8 {
		t.Errorf("four T later the rate is %.2f, want above twice 8", now)
	}
}

func TestAdaptiveGivesBackWhatNeverLeft(t *testing.T) {
	p := &play{t: t, a: &Adaptive{}}
	for range 50 {
		p.served()
	}
	p.throttled()
	p.served()
	free := p.now + max(p.a.Wait(at(p.now), Request{Since: at(p.now)}), 0)
	p.now = free
	r, _ := p.request()
	p.a.Observe(at(p.now), Outcome{Request: r}) // no Sent
	if w := p.a.Wait(at(p.now), Request{Since: at(p.now)}); w > 10*time.Millisecond {
		t.Errorf("Wait = %v, want about nothing: the turn was not used", w)
	}
}

func remaining(n int64) Hints { return Hints{Remaining: Some(n)} }

func TestAdaptiveSlowsDownBeforeItIsRefused(t *testing.T) {
	p := &play{t: t, a: &Adaptive{}}
	level, waited := 50.0, time.Duration(0)
	for range 2000 { // a bucket of 50 that refills 4 a second
		before := p.now
		w := p.call(Served, remaining(int64(level)), 0)
		level = min(50, level+4*(p.now-before).Seconds()) - 1
		waited += w
		if level < 0 {
			t.Fatalf("at %v it emptied the bucket", p.now)
		}
	}
	if rate := 2000 / p.now.Seconds(); rate < 3.9 {
		t.Errorf("it kept to %.2f a second, want about 4", rate)
	}
}

func TestAdaptiveSpendsAWindowOverItsTime(t *testing.T) {
	p := &play{t: t, a: &Adaptive{}}
	left, end := int64(100), 10*time.Second
	var served, refused int
	for p.now < 5*time.Minute {
		w := p.a.Wait(at(p.now), Request{Since: at(p.now)})
		if start := p.now + max(w, 0); start >= end {
			left, end = 100, start.Truncate(10*time.Second)+10*time.Second
		}
		left--
		h := Hints{Remaining: Some(max(left, 0)), Reset: Some((end - p.now).Round(time.Second))}
		if left < 0 {
			refused++
			p.call(Throttled, h, 0)
			continue
		}
		served++
		p.call(Served, h, 0)
	}
	if refused > 30 || served < 1500 {
		t.Errorf("%d served and %d refused in 30 windows of 100", served, refused)
	}
}

func TestAdaptiveForecast(t *testing.T) {
	p := &play{t: t, a: &Adaptive{Blind: true}}
	for range 50 {
		p.served()
	}
	p.throttled()
	p.served()
	rate := p.a.rate(p.now.Seconds())
	first := p.a.Wait(at(p.now), Request{Place: 1})
	eleventh := p.a.Wait(at(p.now), Request{Place: 11})
	want := time.Duration(10 / rate * 1e9)
	if got := eleventh - first; got < want*9/10 || got > want*11/10 {
		t.Errorf("ten places are %v apart, want about %v", got, want)
	}
}

// TestAdaptiveWaitIsASubtraction: between two events the instant now+Wait stays.
func TestAdaptiveWaitIsASubtraction(t *testing.T) {
	p := &play{t: t, a: &Adaptive{}}
	p.served()
	p.throttled()
	want := p.now + p.a.Wait(at(p.now), Request{})
	saved := *p.a
	for i := range 1000 {
		now := p.now + time.Duration(i)*time.Millisecond
		if got := now + p.a.Wait(at(now), Request{Try: i}); got != want {
			t.Fatalf("asked at %v, it says %v, want %v", now, got, want)
		}
	}
	if saved != *p.a {
		t.Error("asking changed the state")
	}
}

// FuzzAdaptive: whatever a server says, the rate stays a positive number and
// nobody waits for ever.
func FuzzAdaptive(f *testing.F) {
	f.Add(uint64(1), []byte("an honest server"))
	f.Add(uint64(1), []byte{10, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200}) // refusals with absurd resets
	f.Add(uint64(3), []byte{2, 2, 2, 2, 2, 2, 2, 255, 255, 1, 0, 2, 130})
	f.Fuzz(func(t *testing.T, seed uint64, script []byte) {
		random := rand.New(rand.NewPCG(seed, 2))
		p := &play{t: t, a: &Adaptive{Blind: seed%2 == 0, Burst: seed%3 == 0, Probe: time.Duration(random.Int64() >> random.IntN(63))}}
		for _, b := range script[:min(len(script), 500)] {
			h := Hints{}
			absurd := func() int64 { return random.Int64()>>random.IntN(63) - int64(b) }
			if b&4 > 0 {
				h.Remaining = Some(absurd())
			}
			if b&8 > 0 {
				h.Reset = Some(time.Duration(absurd()))
			}
			if b&16 > 0 {
				h.Limit, h.Window = Some(absurd()), Some(time.Duration(absurd()))
			}
			if b&64 > 0 {
				h.Share = Some(math.Float64frombits(random.Uint64()))
			}
			if b&128 > 0 { // said twice, so that it is believed
				h.Share = Some(float64(absurd() >> 62 * absurd()))
			}
			after := time.Duration(0)
			if b&32 > 0 {
				after = time.Duration(random.IntN(1000)) * time.Second
			}
			p.call(Verdict(b%4), h, after)
			p.now += time.Duration(random.IntN(int(b)+1)-int(b)/8) * time.Second // back at times
			// A reset, for a day at most; a start of a policy of days, a window of an hour,
			// or what the server asked for, each with its spread; and as far as the clock
			// went back.
			most := 24*time.Hour + 5*time.Minute
			if w := p.a.Wait(at(p.now), Request{Since: at(p.now)}); w > most {
				t.Fatalf("at %v it waits %v, want at most %v", p.now, w, most)
			}
			paced := p.a.on || p.a.level.on
			if rate := p.a.nextRate; math.IsNaN(rate) || math.IsInf(rate, 0) || (rate > 0) != paced {
				t.Fatalf("the rate is %v, paced %t", rate, paced)
			}
			if p.now > 1e6*time.Hour {
				return
			}
		}
	})
}

// TestOneProbeFirst: after a pause that the server asked for one request goes
// alone, and the others wait for its answer; but not for ever. An answer that says nothing of the
// limit lets only one more go.
func TestOneProbeFirst(t *testing.T) {
	for _, c := range []struct {
		name        string
		answers     bool
		verdict     Verdict
		after       time.Duration
		least, most time.Duration // until the next may start, from when the probe left
	}{
		{"served", true, Served, 0, time.Second, 3 * time.Second},
		{"refused again", true, Throttled, 20 * time.Second, 21 * time.Second, 26 * time.Second},
		{"cancelled", true, Ignored, 0, time.Second, 3 * time.Second},
		{"failed", true, Failed, 0, time.Second, 3 * time.Second},
		{"no answer", false, 0, 0, 5 * time.Second, 5 * time.Second},
	} {
		p := &play{t: t, a: new(Adaptive)}
		for range 50 { // so that the rate is well above one in 5 s
			p.served()
		}
		p.call(Throttled, Hints{}, 10*time.Second)
		r, waited := p.request()
		if waited < 10*time.Second || waited > 13*time.Second {
			t.Fatalf("%s: after a refusal with 10s it waits %v", c.name, waited)
		}
		probed := p.now
		p.now += time.Second
		if c.answers {
			p.a.Observe(at(p.now), Outcome{Request: r, Sent: at(probed), Report: Report{Verdict: c.verdict, After: c.after}})
		}
		p.request()
		if got := p.now - probed; got < c.least || got > c.most {
			t.Errorf("%s: the next starts %v after the probe, want %v to %v", c.name, got, c.least, c.most)
		}
		if _, waited := p.request(); (waited >= 5*time.Second) != (c.verdict != Served) {
			t.Errorf("%s: the one after it waits %v more", c.name, waited)
		}
	}
}
