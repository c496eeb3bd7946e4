package pace

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// tokens is a server that serves so many tokens a second, in a bucket of ten
// seconds' worth, and tells the level or not.
type tokens struct {
	rate, level float64
	at          time.Time
	informed    bool
	served      float64
	calls, no   int
}

func (s *tokens) ask(now time.Time, cost int64) (r Report) {
	s.level = min(s.level+s.rate*now.Sub(s.at).Seconds(), 10*s.rate)
	s.at = now
	s.calls++
	r.Verdict = Throttled
	if s.level >= float64(cost) {
		s.level -= float64(cost)
		s.served += float64(cost)
		r.Verdict = Served
	} else {
		s.no++
	}
	if s.informed {
		r.Hints.Remaining = Some(int64(s.level))
		r.Hints.Limit = Some(int64(10 * s.rate))
	}
	return r
}

// spend has one caller use a server for so long, who wants all he can get, of
// costs between 1 and 2 × mean.
func spend(t *testing.T, a *Adaptive, s *tokens, mean int64, length time.Duration) {
	t.Helper()
	g := &Gate{Control: a, Seed: 1}
	luck := rand.New(rand.NewPCG(1, 2))
	now := at(0)
	s.at, s.level = now, 10*s.rate
	half := now.Add(length / 2)
	for begun := false; now.Sub(at(0)) < length; {
		if !begun && now.After(half) {
			begun, s.served, s.calls, s.no = true, 0, 0, 0
		}
		if g.Waiting() == 0 {
			g.Enter(now, &Ticket{Cost: 1 + luck.Int64N(2*mean)})
		}
		k, again := g.Next(now)
		if k == nil {
			now = now.Add(again)
			continue
		}
		r := s.ask(now, k.Cost)
		now = now.Add(10 * time.Millisecond)
		g.Done(now, k, r)
	}
}

// A limit in tokens is found whatever one call costs, as one in requests is.
func TestAdaptivePacesCosts(t *testing.T) {
	for _, informed := range []bool{false, true} {
		for _, mean := range []int64{10, 1000, 100_000} {
			a := new(Adaptive)
			s := &tokens{rate: 10 * float64(mean), informed: informed}
			spend(t, a, s, mean, 20*time.Minute)
			used := s.served / (s.rate * 600)
			refused := float64(s.no) / float64(s.calls)
			if used < 0.93 || used > 1.01 || refused > 0.03 {
				t.Errorf("informed %v, calls of %d tokens on average: used %.3f of the limit, %.4f refused; want above 0.93, below 0.03",
					informed, mean, used, refused)
			}
		}
	}
}

// Where every call costs the same, it does not matter how much.
func TestAdaptiveCostIsRelative(t *testing.T) {
	var starts [2][]time.Duration
	for i, cost := range []int64{1, 7000} {
		a := new(Adaptive)
		now := at(0)
		for try := range 2000 {
			r := Request{Since: now, Cost: cost, Luck: luckOf(1, uint64(try), 0)}
			if w := a.Wait(now, r); w > 0 && w != Never {
				now = now.Add(w)
			}
			a.Start(now, r)
			starts[i] = append(starts[i], now.Sub(at(0)))
			o := Outcome{Request: r, Sent: now, Report: Report{Verdict: Served, Cost: cost}}
			if try%50 == 49 {
				o.Verdict = Throttled
			}
			now = now.Add(20 * time.Millisecond)
			a.Observe(now, o)
		}
	}
	for i := range starts[0] {
		if starts[0][i] != starts[1][i] {
			t.Fatalf("start %d: at cost 1 after %v, at cost 7000 after %v", i, starts[0][i], starts[1][i])
		}
	}
}

// After a call of three times the cost the next one waits three times as long,
// and no longer than it has cost in the end.
func TestAdaptiveSpacesByCost(t *testing.T) {
	gap := func(estimated, cost int64) time.Duration {
		a := new(Adaptive)
		now := at(0)
		var r Request
		for try := range 200 {
			r = Request{Since: now, Cost: 100}
			a.Start(now, r)
			o := Outcome{Request: r, Sent: now, Report: Report{Verdict: Served, Cost: 100}}
			if try == 0 {
				o.Verdict = Throttled
			}
			a.Observe(now, o)
			now = now.Add(max(a.Wait(now, r), 0))
		}
		r.Cost, r.Since = estimated, now
		a.Start(now, r)
		a.Observe(now, Outcome{Request: r, Sent: now, Report: Report{Verdict: Served, Cost: cost}})
		return a.Wait(now, r)
	}
	plain := gap(100, 100).Seconds()
	for _, c := range []struct {
		estimated, cost int64
		want            float64
	}{{300, 300, 3}, {300, 100, 1}, {100, 300, 3}, {10, 10, 0.1}} {
		got := gap(c.estimated, c.cost).Seconds() / plain
		if got < 0.85*c.want || got > 1.15*c.want { // the mean moves a little too
			t.Errorf("after a call estimated %d that cost %d, of a mean of 100: waits %.2f intervals, want %.2f",
				c.estimated, c.cost, got, c.want)
		}
	}
}

// Calls that left before a cut, and turn out dearer than estimated after it, hold up
// nothing: the rate of then is over, and that of now would make hours of them.
func TestBillsOfBeforeACut(t *testing.T) {
	for _, informed := range []bool{false, true} {
		var a Adaptive
		now := at(0)
		r := Request{Cost: 100}
		end := func(sent time.Time, v Verdict, cost int64) {
			o := Outcome{Request: r, Sent: sent, Report: Report{Verdict: v, Cost: cost}}
			if informed {
				o.Hints = Hints{Remaining: Some(int64(500)), Limit: Some(int64(80_000))}
			}
			a.Observe(now, o)
		}
		for i := range 40 {
			r.Since = now
			a.Start(now, r)
			end(now, map[bool]Verdict{false: Served, true: Throttled}[i == 20], 0)
			now = now.Add(max(a.Wait(now, r), 100*time.Millisecond))
		}
		sent := now
		for range 30 {
			a.Start(now, r)
		}
		for range 6 {
			now = now.Add(time.Second)
			a.Start(now, r)
			end(now, Throttled, 0)
		}
		before := a.Wait(now, r)
		for range 30 {
			end(sent, Served, 300)
		}
		if got := a.Wait(now, r); got > before+time.Second {
			t.Errorf("informed %v: after the bills of 30 calls that left before a cut the next waits %v, %v before them; want no more", informed, got, before)
		}
	}
}

// One call that is said to cost an absurd amount does not stop all others.
func TestAnAbsurdCost(t *testing.T) {
	var a Adaptive
	now := at(0)
	call := func(cost int64, v Verdict) {
		r := Request{Since: now, Cost: cost}
		now = now.Add(max(a.Wait(now, r), 0))
		a.Start(now, r)
		a.Observe(now.Add(time.Millisecond), Outcome{Request: r, Sent: now, Report: Report{Verdict: v}})
		now = now.Add(time.Millisecond)
	}
	for i := range 40 {
		call(1, map[bool]Verdict{false: Served, true: Throttled}[i == 20])
	}
	before := a.Wait(now, Request{Since: now, Cost: 1})
	call(math.MaxInt64, Served)
	if got, most := a.Wait(now, Request{Since: now, Cost: 1}), 2*dearest*max(before, time.Second); got > most {
		t.Errorf("after a call of %d the next waits %v, want %v at most", math.MaxInt64, got, most)
	}
	for range 500 {
		call(1, Served)
	}
	if got := a.Wait(now, Request{Since: now, Cost: 1}); got > 2*max(before, time.Second) {
		t.Errorf("500 ordinary calls later they wait %v, want about %v again", got, before)
	}
}

// Whatever many calls at once are said to cost, before or after they are made, the
// next is held up for two hours at most, and those that follow find a pace again.
func TestAbsurdCostsAtOnce(t *testing.T) {
	for _, c := range []struct {
		name              string
		estimated, actual int64
	}{
		{"estimated", math.MaxInt64, 0},
		{"billed", 1, math.MaxInt64},
		{"both", 1 << 30, math.MaxInt64},
	} {
		var a Adaptive
		now := at(0)
		end := func(r Request, sent time.Time, actual int64, v Verdict) {
			a.Observe(now, Outcome{Request: r, Sent: sent, Report: Report{Verdict: v, Cost: actual}})
		}
		call := func(cost int64, v Verdict) {
			r := Request{Since: now, Cost: cost}
			now = now.Add(max(a.Wait(now, r), 0))
			a.Start(now, r)
			end(r, now, 0, v)
			now = now.Add(time.Millisecond)
		}
		for range 20 {
			call(1, Throttled) // down to the slowest rate
		}
		flight, sent := Request{Since: now, Cost: c.estimated}, now
		for range 30 {
			a.Start(now, flight)
		}
		for range 30 {
			end(flight, sent, c.actual, Served)
		}
		if got := a.Wait(now, Request{Since: now, Cost: 1}); got > 2*time.Hour {
			t.Errorf("%s: the next waits %v, want two hours at most", c.name, got)
		}
		began := now
		for range 300 {
			call(1, Served)
		}
		if took := now.Sub(began); took > 6*time.Hour {
			t.Errorf("%s: 300 ordinary calls took %v, want six hours at most", c.name, took)
		}
	}
}

// At the slowest rate, too, one call of an absurd cost holds up the next for two
// hours at most, and the way back from a row begins no slower than that rate.
func TestAbsurdCostsAtTheSlowestRate(t *testing.T) {
	a := known(slowest, 3)
	a.resumeRate = slowest
	a.costs.mean = 1
	a.Start(at(0), Request{Since: at(0), Cost: math.MaxInt64})
	if w := a.Wait(at(0), Request{Since: at(0), Cost: 1}); w > 2*time.Hour {
		t.Errorf("the next waits %v, want two hours at most", w)
	}
	if a.resumeRate < slowest {
		t.Errorf("the way back begins at one in %.0f s, want one an hour at least", 1/a.resumeRate)
	}
}
