package pace

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// bucket is a limit on the other side: rate a second, burst at once.
type bucket struct {
	rate, burst, left, at float64 // at: seconds of the last request
}

func (b *bucket) take(s float64) Verdict {
	b.left, b.at = min(b.burst, b.left+b.rate*(s-b.at)), s
	if b.left < 1 {
		return Throttled
	}
	b.left--
	return Served
}

// known is an Adaptive without hints that has learnt a rate, at t0.
func known(rate, trust float64) *Adaptive {
	a := &Adaptive{Blind: true}
	a.begin(at(0))
	a.on, a.base, a.trust, a.born = true, rate, trust, -longestT
	a.cut(0)
	a.settle(0)
	return a
}

// ask sends as many requests as it may until the end, each answered after
// latency by the server, and calls each with the time of every answer.
func ask(a *Adaptive, from, end, latency float64, server func(s float64) Verdict, each func(s float64, v Verdict)) {
	type sent struct {
		s float64
		v Verdict
		r Request
	}
	var out []sent
	answer := func(until float64) {
		for len(out) > 0 && out[0].s+latency <= until {
			o := out[0]
			out = out[1:]
			a.Observe(instant(o.s+latency), Outcome{Request: o.r, Sent: instant(o.s), Report: Report{Verdict: o.v}})
			each(o.s+latency, o.v)
		}
	}
	since := from
	for s, n := from, uint64(0); s < end; n++ {
		r := Request{Since: instant(since), Luck: luckOf(7, n, 0), Cost: 1}
		next := s + max(a.Wait(instant(s), r).Seconds(), 0)
		if len(out) > 0 && out[0].s+latency <= next {
			s = out[0].s + latency
			answer(s)
			continue
		}
		s = next
		a.Start(instant(s), r)
		out = append(out, sent{s + latency/2, server(s + latency/2), r})
		out[len(out)-1].s = s
		since = s
	}
	answer(math.Inf(1))
}

func instant(s float64) time.Time { return at(seconds(s)) }

// From empty to empty the limit is measured, whatever the burst and the latency,
// and from whatever it was believed to be.
func TestEstimateMeasuresTheLimit(t *testing.T) {
	for _, burst := range []float64{1, 10, 60} { // seconds of the rate
		for _, latency := range []float64{0.01, 0.1, 1} {
			for _, off := range []float64{10, 0.1} {
				name := fmt.Sprintf("burst of %v s, answers after %v s, believed to be %v times as fast", burst, latency, off)
				const rate = 5.0
				b := &bucket{rate: rate, burst: rate * burst}
				a := known(off*rate, leastTrust)
				rows, row, found := 0, a.rowAt, math.Inf(1)
				var sum, n float64
				ask(a, 0, 3600, latency, b.take, func(s float64, v Verdict) {
					if a.rowAt != row {
						rows, row = rows+1, a.rowAt
					}
					if math.Abs(a.base/rate-1) < 0.1 && math.IsInf(found, 1) {
						found = s
						if off > 1 && rows > 12 {
							t.Errorf("%s: found after %d rows of refusals, want a dozen at most", name, rows)
						}
					}
					if s > 1800 {
						sum, n = sum+a.base, n+1
					}
				})
				if most := map[bool]float64{true: 20, false: 720}[off > 1]; found > most {
					t.Errorf("%s: found after %.0f s, want %v at most", name, found, most)
				}
				if mean := sum / n; math.Abs(mean/rate-1) > 0.1 {
					t.Errorf("%s: base is %.2f on average, want %.0f ± 10 %%", name, mean, rate)
				}
				t.Logf("%s: found after %.0f s, then %.3f on average, %d rows in an hour", name, found, sum/n, rows)
			}
		}
	}
}

// step tells a that a request sent at s was answered at once.
func step(a *Adaptive, s float64, v Verdict) {
	a.flying++
	a.Observe(instant(s), Outcome{Request: Request{Cost: 1}, Sent: instant(s), Report: Report{Verdict: v}})
}

// served tells a of n that were served from one time to another.
func served(a *Adaptive, n int, from, to float64) {
	for i := range n {
		step(a, from+(to-from)*float64(i)/float64(n), Served)
	}
}

// What is served from one row to the next is the new rate, as far as the old
// one is not trusted.
func TestEstimateOfARow(t *testing.T) {
	for _, c := range []struct {
		name              string
		rate, trust       float64
		n                 int
		seconds           float64
		want, wantTrusted float64
	}{
		{"as believed", 10, 3, 100, 10, 10, 100},
		{"half, little trust", 10, 3, 50, 10, (50.0 + 3) / (10 + 0.3), 53},
		{"half, much trust", 10, 100, 50, 10, (50.0 + 100) / (10 + 10), 100},
		{"more than the rate of now", 10, 3, 200, 10, 10, 100},
		{"next to nothing halves the trust", 10, 40, 2, 10, (2.0 + 40) / (10 + 4), 20},
		{"to three at least", 10, 4, 2, 10, (2.0 + 4) / (10 + 0.4), 3},
	} {
		a := known(c.rate, c.trust)
		a.period = 1e9 // no growth
		served(a, c.n, 0, c.seconds)
		step(a, c.seconds, Throttled)
		if want := c.want * math.Exp(-usualCut); math.Abs(a.base/want-1) > 0.001 || math.Abs(a.trust-c.wantTrusted) > 0.001 {
			t.Errorf("%s: base %.4f, trust %.4g; want %.4f, %.4g", c.name, a.base, a.trust, want, c.wantTrusted)
		}
	}
}

// A row counts as time as far as the one before was as long, or three times the
// time of service: windows are used up time after time, an outage comes once.
func TestARowIsTimeIfRepeated(t *testing.T) {
	for _, c := range []struct{ dead, then, live, want float64 }{
		{60, 0, 1, 1 + 3},
		{60, 10, 1, 1 + 20},
		{60, 40, 1, 1 + 60},
		{60, 0, 0.01, 0.01 + 0.2}, // two intervals
		{2, 0, 1, 1 + 2},
		{60, 0, 600, 600 + 60},
	} {
		a := known(10, 3)
		a.period, a.lastRow, a.rowBefore, a.accepted = 1e9, c.dead, c.then, 5
		step(a, c.live, Throttled)
		if want := (5 + 3) / (c.want + 0.3) * math.Exp(-usualCut); math.Abs(a.base/min(want, 10*math.Exp(-usualCut))-1) > 0.001 {
			t.Errorf("a row of %v s, %v s the one before, %v s of service: base %.4f, want %.4f", c.dead, c.then, c.live, a.base, want)
		}
	}
}

// An outage is forgotten; a window that is used up each time comes to its average.
func TestOutageAndWindowFromRowToRow(t *testing.T) {
	const rate = 5.0
	b, a := &bucket{rate: rate, burst: 10}, known(rate, 50)
	back := math.Inf(1)
	ask(a, 0, 1800, 0.1, func(s float64) Verdict {
		if s > 600 && s < 660 {
			return Throttled
		}
		return b.take(s)
	}, func(s float64, v Verdict) {
		if s > 660 && a.refused == 0 && a.rate(s) > 0.8*rate {
			back = min(back, s-660)
		}
	})
	if back > 90 {
		t.Errorf("back %.0f s after an outage of 60 s, want 90 s at most", back)
	}

	window, left := 0.0, 0
	a = known(50, 3)
	var sum, n, served float64
	ask(a, 0, 7200, 0.1, func(s float64) Verdict {
		if w := math.Floor(s / 60); w > window || left == 0 && s < 1 {
			window, left = w, 100
		}
		if left--; left < 0 {
			return Throttled
		}
		return Served
	}, func(s float64, v Verdict) {
		if s > 3600 {
			sum, n = sum+a.base, n+1
			if v == Served {
				served++
			}
		}
	})
	if mean := sum / n * 60; mean < 55 || mean > 120 || served < 75*60 {
		t.Errorf("a window of 100 a minute: base %.0f a minute, %.0f served; want about 100", mean, served/60)
	}
}

// Further refusals space what is sent by 1/0.6 each, cut by half of L, and stop
// at a Probe; what is served brings the rate back by a factor of 3 each.
func TestARowBacksOffAndComesBack(t *testing.T) {
	a := known(10, 50)
	a.period = 1e9
	served(a, 100, 0, 10)
	step(a, 10, Throttled)
	a.period = 1e9
	base := a.base
	for i := range 20 {
		s := 11 + float64(i)
		want := max(a.base*math.Pow(0.6, float64(i)), 1.0/60)
		if got := a.rate(s); math.Abs(got/want-1) > 1e-9 {
			t.Errorf("after %d refusals the rate is %.4f, want %.4f", i+1, got, want)
		}
		step(a, s, Throttled)
	}
	if want := base * math.Exp(-20*usualCut/2); math.Abs(a.base/want-1) > 1e-9 {
		t.Errorf("20 further refusals make base %.4f of %.4f, want %.4f", a.base, base, want)
	}
	if a.trust != leastTrust {
		t.Errorf("after 20 further refusals the trust is %v, want %v", a.trust, leastTrust)
	}
	for i := range 8 {
		s := 40 + float64(i)
		step(a, s, Served)
		want := min(math.Pow(3, float64(i+1))/60, a.base)
		if got := a.rate(s); math.Abs(got/want-1) > 1e-6 {
			t.Errorf("%d served after the row: rate %.4f, want %.4f", i+1, got, want)
		}
	}
	// However long it lasts, a row alone makes none slower than one in 20 minutes,
	// so that an outage of a day is over that soon; one that is slower stays as it is.
	for _, c := range []struct{ rate, want float64 }{{1, slowestInRow}, {2 * slowestInRow, slowestInRow}, {slowest, slowest}} {
		a = known(c.rate, 3)
		step(a, 1, Throttled)
		base := a.base
		for i := range 1000 {
			step(a, 2+float64(i), Throttled)
		}
		if want := min(c.want, base); a.rate(1100) != want || a.base != want {
			t.Errorf("after 1000 refusals of %v a second the rate is %v and base %v, want %v", c.rate, a.rate(1100), a.base, want)
		}
	}
}

// Time in which the server forbade to send raises nothing.
func TestBlockedTimeDoesNotGrow(t *testing.T) {
	a := known(10, 3)
	served(a, 10, 0, 1)
	before := a.rate(1)
	a.flying++
	a.Observe(instant(1), Outcome{Sent: instant(1), Report: Report{Verdict: Served, After: 10 * time.Minute}})
	back := a.block
	if after := a.rate(back); back < 600 || math.Abs(after/before-1) > 0.01 {
		t.Errorf("the rate goes from %.3f to %.3f in %.0f s of rest", before, after, back)
	}
}

// T falls with the rate to the power of -0.2, is at most twice the age of the
// estimate, and at least as many requests as were served, 50 at most, below 0.35 a
// second fewer, however many chance refusals took the trust. In the long run it is a
// twelfth of what was served, 90 at most at the usual rate, fewer for slow clients.
func TestPeriod(t *testing.T) {
	for _, c := range []struct{ rate, age, total, want float64 }{
		{usualRate, 1e6, 3, 60},
		{32 * usualRate, 1e6, 3, 30},
		{usualRate / 32, 1e6, 1, 120},
		{usualRate, 10, 3, 20},
		{usualRate, 1, 1, 2},
		{usualRate, 0.1, 0, 1 / usualRate},
		{usualRate, 0.1, 5, 5 / usualRate},
		{usualRate, 0.1, 20, 20 / usualRate},
		{usualRate, 0.1, 400, span / usualRate},
		{4 * usualRate, 0.1, 400, span / 4 / usualRate},
		{usualRate / 32, 0.1, 100, span * math.Pow(usualRate/32/lowRate, shrinks) * 32 / usualRate},
		{usualRate, 0.1, 960, 80 / usualRate},
		{usualRate, 0.1, 5000, longSpan / usualRate},
		{4 * usualRate, 0.1, 5000, longSpan * math.Pow(4, longSpanPower) / 4 / usualRate},
		{usualRate / 32, 0.1, 240, 20 * 32 / usualRate},
		{usualRate / 32, 0.1, 5000, longSpan * math.Pow(32, 1-longSpanPower) / usualRate},
		{slowest, 1e6, 100, longestT},
	} {
		a := known(c.rate, leastTrust)
		a.born, a.rtt, a.evidence = 1e7-c.age, 0, c.total
		if a.cut(1e7); math.Abs(a.period/c.want-1) > 1e-6 {
			t.Errorf("rate %.4f, age %v s, %v served: T is %.3f s, want %.3f", c.rate, c.age, c.total, a.period, c.want)
		}
	}
}

// A Probe that finds rises sooner does so in the long run, too.
func TestPeriodOfAShortProbe(t *testing.T) {
	for _, rate := range []float64{usualRate / 32, usualRate, 100 * usualRate} {
		young, old := known(rate, leastTrust), known(rate, leastTrust)
		young.Probe, young.evidence, old.Probe, old.evidence = 5*time.Second, 100, 5*time.Second, 1e6
		young.cut(1e7)
		if old.cut(1e7); old.period > 1.01*young.period {
			t.Errorf("rate %.4f: T is %.2f s, want %.2f as of an estimate that is not old", rate, old.period, young.period)
		}
	}
}

// What never left gives back its turn, and the time in which nobody waited.
func TestGiveBackOfTheEstimate(t *testing.T) {
	a := known(1, 3)
	served(a, 3, 0, 3)
	before := *a
	r := Request{Since: at(time.Minute), Cost: 1}
	a.Start(at(time.Minute), r)
	if a.idle == before.idle {
		t.Error("a minute in which nobody waited counts as time")
	}
	a.Observe(at(time.Minute), Outcome{Request: r})
	if a.estimate != before.estimate || a.last != before.last || a.flying != before.flying {
		t.Errorf("given back, it is\n%+v, before it was\n%+v", a.estimate, before.estimate)
	}
}

// A lead of growth, as on leaving the level, is no time in which nothing was served.
func TestALeadIsNoTime(t *testing.T) {
	a := known(10, 3)
	a.resumedAt = -1000
	a.period = 1e9
	served(a, 100, 0, 10)
	if step(a, 10, Throttled); a.base < 9 {
		t.Errorf("base %.2f, want about 10: the lead was counted", a.base)
	}
}

// The level is left when refusals come again and again for minutes, whatever
// remains; an outage is no reason, nor is a crowd that starts.
func TestWhatRemainsMisleads(t *testing.T) {
	for _, c := range []struct {
		name    string
		refuse  func(i int) bool
		crowded bool
	}{
		{"every tenth", func(i int) bool { return i%10 == 0 }, true},
		{"every fortieth", func(i int) bool { return i%40 == 0 }, false},
		{"half", func(i int) bool { return i%2 == 0 }, true},
		{"half, for three minutes", func(i int) bool { return i%2 == 0 && i < 180 }, false},
		{"two of three", func(i int) bool { return i%3 > 0 }, true},
		{"an outage", func(i int) bool { return i >= 20 && i < 350 }, false},
	} {
		var l level
		var company company
		l.on = true
		for i := range 400 { // one a second
			v := Served
			if c.refuse(i) {
				v = Throttled
			}
			company.refusals(&l, float64(i), v)
			if l.row++; v == Served { // as learn counts them
				l.row = 0
			}
		}
		if company.crowded != c.crowded || company.misled != c.crowded {
			t.Errorf("%s refused: crowded %t, want %t", c.name, company.crowded, c.crowded)
		}
	}
}

// One that was restored and is refused before anything is served keeps to what it knows.
func TestRestoredIsTrusted(t *testing.T) {
	var a Adaptive
	a.Restore(at(0), Learnt{At: at(0), Rate: 10})
	if step(&a, 1, Throttled); a.base < 1 {
		t.Errorf("base %.4f after one refusal, want one a second at least", a.base)
	}
}
