package pace

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestPartOfBurst: what was served of a burst before the first refusal is the part of this
// client, unless the limit can't have been full, or calls did not come as fast as they could.
func TestPartOfBurst(t *testing.T) {
	policy := func(limit, burst int64, window time.Duration) Hints {
		return Hints{Limit: Some(limit), Window: Some(window), Burst: Some(burst)}
	}
	for _, c := range []struct {
		name   string
		hints  Hints
		served int
		every  time.Duration
		most   time.Duration // between requests after it
		least  time.Duration
	}{
		{"5 of 50 an hour", policy(50, 50, time.Hour), 5, time.Millisecond, 13 * time.Minute, 11 * time.Minute},
		{"20 of 400 that come back at 200 a minute", policy(200, 400, time.Minute), 20, time.Millisecond, 7 * time.Second, 6 * time.Second},
		{"the whole of it", policy(50, 50, time.Hour), 50, time.Millisecond, 80 * time.Second, 70 * time.Second},
		{"1 of 1,000: it was empty", policy(1000, 1000, time.Hour), 1, time.Millisecond, 4 * time.Second, 3 * time.Second},
		{"10 of 50, as they come", policy(50, 50, time.Hour), 10, 5 * time.Minute, 80 * time.Second, 70 * time.Second},
	} {
		p := &play{t: t, a: &Adaptive{}}
		for range c.served {
			p.now += c.every
			p.call(Served, c.hints, 0)
		}
		p.call(Throttled, c.hints, 0)
		if each := time.Duration(1e9 / p.a.rate(p.now.Seconds())); each < c.least || each > c.most {
			t.Errorf("%s: %v apart, want %v to %v", c.name, each, c.least, c.most)
		}
	}
}

// TestNothingRemains: an answer that says that nothing of a small policy remains shows the limit
// without a refusal. This client's part is what it was served, if its requests had to wait; else
// that is all that it asked for, and no part. A client that is alone has all of the policy, even if
// little of it remained when it came.
func TestNothingRemains(t *testing.T) {
	for _, c := range []struct {
		waited  time.Duration
		remain  []int64
		apart   time.Duration // 2 of 8 a minute were its own
		between time.Duration
	}{
		{time.Second, []int64{3, 0}, 30 * time.Second, 34 * time.Second},
		{0, []int64{3, 0}, 7 * time.Second, 9 * time.Second},
		{time.Second, []int64{1, 0}, 7 * time.Second, 9 * time.Second},
	} {
		var a Adaptive
		for i, remain := range c.remain {
			sent := at(time.Duration(i) * 200 * time.Millisecond)
			r := Request{Since: sent.Add(-c.waited)}
			a.Start(sent, r)
			h := Hints{Limit: Some(int64(8)), Window: Some(time.Minute), Remaining: Some(remain)}
			a.Observe(sent.Add(100*time.Millisecond), Outcome{Request: r, Sent: sent, Report: Report{Verdict: Served, Hints: h}})
		}
		each := time.Duration(1e9 / a.rate(0.3))
		if !a.on || each < c.apart || each > c.between {
			t.Errorf("paced %v, %v apart after %v remained and a wait of %v, want %v to %v", a.on, each, c.remain, c.waited, c.apart, c.between)
		}
	}
}

// TestPartOfBurstBeforeItBegan: a refusal of a request sent before the Adaptive began says as much
// of the limit as any other. Such a one names a scope, or is feedback about an earlier process.
func TestPartOfBurstBeforeItBegan(t *testing.T) {
	h := Hints{Limit: Some(int64(100)), Window: Some(time.Hour)}
	for _, ago := range []time.Duration{0, time.Minute, time.Hour, 61 * time.Minute, 20 * time.Hour} {
		for name, learn := range map[string]func(c Controller){
			"named": func(c Controller) {
				s := &Scope{Control: c}
				new(Gate).Learn(t0, Need{Scope: s}, t0.Add(-ago), Report{Verdict: Throttled, Hints: h})
			},
			"reported": func(c Controller) {
				(&Gate{Control: c}).Report(t0, t0.Add(-ago), Report{Verdict: Throttled, Hints: h})
			},
		} {
			a := new(Adaptive)
			if learn(a); !(a.Learnt(t0).Rate > 0.02) || a.nextRate > 100.0/3600 {
				t.Errorf("%s, sent %v before: paced at %v a second; want little less than 100 an hour", name, ago, a.Learnt(t0).Rate)
			}
		}
	}
}

// TestPartOfOneRequest: a client that was served one request of a policy before the first refusal
// may share it with many, or be alone at a burst of 1 that is not stated. It finds out within forty
// minutes, not in hours.
func TestPartOfOneRequest(t *testing.T) {
	p := &play{t: t, a: &Adaptive{}}
	h := Hints{Limit: Some(int64(20)), Window: Some(time.Minute)}
	p.call(Served, h, 0)
	p.call(Throttled, h, 0)
	for p.a.rate(p.now.Seconds()) < 0.9*20/60 {
		p.call(Served, h, 0)
	}
	t.Logf("as fast as the policy after %v", p.now)
	if p.now < 10*time.Minute || p.now > 40*time.Minute {
		t.Errorf("as fast as the policy after %v, want 10 to 40 minutes", p.now)
	}
}

// TestTurns: clients that divide a stated policy take another turn after a refusal, half an
// interval later at most; one that has the policy for itself does not.
func TestTurns(t *testing.T) {
	p := &play{t: t, a: &Adaptive{}}
	h := Hints{Limit: Some(int64(60)), Window: Some(time.Minute)}
	for range 10 {
		p.call(Served, h, 0)
	}
	p.call(Throttled, h, 0)
	if !p.a.divides() {
		t.Fatal("it shares the limit, and takes it for its own")
	}
	var after []float64 // in intervals
	for range 8 {
		p.call(Served, h, 0)
		p.call(Throttled, h, 0)
		after = append(after, p.a.Wait(at(p.now), Request{Since: at(p.now)}).Seconds()*p.a.rate(p.now.Seconds()))
	}
	slices.Sort(after)
	if after[0] < 0.9 || after[1] > 1.2 || after[6] < 1.25 || after[7] > 1.6 {
		t.Errorf("turns after a refusal, in intervals: %.2f, want them spread over 0.9 to 1.6", after)
	}
}

// TestScaledPolicy: another policy changes the rate in proportion, and one that is taken back
// leaves all as it was, as where answers state several in turn.
func TestScaledPolicy(t *testing.T) {
	a, b := &play{t: t, a: &Adaptive{}}, &play{t: t, a: &Adaptive{}}
	h := Hints{Limit: Some(int64(60)), Window: Some(time.Minute)}
	other := Hints{Limit: Some(int64(6000)), Window: Some(time.Minute)}
	for i := range 40 {
		v := Served
		if i%13 == 9 {
			v = Throttled
		}
		a.call(v, h, 0)
		b.call(v, h, 0)
	}
	s, before := b.now.Seconds(), b.a.rate(b.now.Seconds())
	b.a.level.tell(b.a, s, &Outcome{Report: Report{Verdict: Served, Hints: other}})
	if r := b.a.rate(s); r < 80*before || r > 120*before {
		t.Errorf("a policy a hundred times as fast: the rate goes from %.3g to %.3g a second", before, r)
	}
	b.a.level.tell(b.a, s, &Outcome{Report: Report{Verdict: Served, Hints: h}})
	for i := range 40 {
		v := Served
		if i%13 == 9 {
			v = Throttled
		}
		if x, y := a.call(v, h, 0), b.call(v, h, 0); x < y-y/100-1 || x > y+y/100+1 {
			t.Fatalf("call %d waits %v where a policy was stated and taken back, and %v where it was not", i, y, x)
		}
	}
}

// TestScaledRow: an answer to what left before a row does not end it, whatever policy the
// refusals of the row state.
func TestScaledRow(t *testing.T) {
	a := &Adaptive{}
	policy := func(n int64) Hints { return Hints{Limit: Some(n), Window: Some(time.Minute)} }
	send := func(s time.Duration) Request {
		r := Request{Since: at(s), Cost: 1}
		a.Start(at(s), r)
		return r
	}
	answer := func(r Request, s time.Duration, v Verdict, h Hints) {
		a.Observe(at(s), Outcome{Request: r, Sent: r.Since, Report: Report{Verdict: v, Hints: h}})
	}
	answer(send(0), time.Second, Served, policy(6000))
	early := send(2 * time.Second)
	answer(send(3*time.Second), 4*time.Second, Throttled, policy(6000))
	answer(send(5*time.Second), 6*time.Second, Throttled, policy(6))
	answer(early, 7*time.Second, Served, policy(6))
	if a.refused != 2 {
		t.Errorf("a row of %d refusals, want 2: what left before it ended it", a.refused)
	}
}

// TestTurnsAreBounded: whatever requests are said to cost, the next turn is no further away
// than one start may hold up the next.
func TestTurnsAreBounded(t *testing.T) {
	a, now := new(Adaptive), at(0)
	h := Hints{Limit: Some(int64(60)), Window: Some(time.Minute)}
	call := func(v Verdict, cost int64) {
		now = now.Add(max(a.Wait(now, Request{Since: now}), 0))
		r := Request{Since: now, Cost: cost, Luck: Luck(now.UnixNano())}
		a.Start(now, r)
		a.Observe(now.Add(time.Millisecond), Outcome{Report: Report{Verdict: v, Hints: h}, Request: r, Sent: now})
		now = now.Add(time.Millisecond)
	}
	for range 10 {
		call(Served, 1)
	}
	call(Throttled, 1)
	if !a.divides() {
		t.Fatal("it shares the limit, and takes it for its own")
	}
	for range 8 {
		call(Served, 1<<62)
		call(Throttled, 1)
		if w := a.Wait(now, Request{Since: now}); w > 3*time.Hour {
			t.Fatalf("after calls of 2^62 the next waits %v, want at most 2 h for the last and 1 h for its turn", w)
		}
	}
}

// T of a stated policy has no longest time; once the policy is forgotten it has.
func TestForgottenPolicyLeavesNoLongT(t *testing.T) {
	var a Adaptive
	now := time.Unix(1_700_000_000, 0)
	policy := Hints{Limit: Some[int64](2), Window: Some(200 * 365 * 24 * time.Hour)}
	answer := func(v Verdict, h Hints) {
		a.Start(now, Request{Since: now})
		now = now.Add(time.Second)
		a.Observe(now, Outcome{Report: Report{Verdict: v, Hints: h}, Sent: now.Add(-time.Second)})
	}
	answer(Served, policy)
	answer(Throttled, policy)
	if a.period <= longestT {
		t.Fatalf("T of a stated policy is %v s, want more than %v", a.period, longestT)
	}
	now = now.Add(25 * time.Hour)
	answer(Served, Hints{})
	if a.level.policy != 0 || a.period > longestT {
		t.Errorf("a day after the last hint the policy is %v a second and T %v s, want none and at most %v", a.level.policy, a.period, longestT)
	}
}

// TestFailedIsNoOtherClient: a request that failed may be charged, whether its answer says what
// remains or not. The next answers show less for it, which is no sign of another client.
func TestFailedIsNoOtherClient(t *testing.T) {
	for _, v := range []Verdict{Failed, Ignored} {
		p := &play{t: t, a: &Adaptive{}}
		left := int64(1000)
		say := func(v Verdict, told bool) {
			left--
			h := Hints{}
			if told {
				h.Remaining = Some(left)
			}
			p.call(v, h, 0)
		}
		for range 20 {
			say(Served, true)
		}
		for _, told := range []bool{true, false} {
			say(v, told)
			for range 8 { // one in nine fails, as a mean of the last few is taken
				say(Served, true)
			}
			if !p.a.level.alone() {
				t.Errorf("after verdict %v, told %v: it takes a failed request for another client's", v, told)
			}
		}
	}
}

// TestOthersAreNoticed: where more is gone since something came back than was charged to its own
// requests, a client is not alone, however many of the last answers were its own.
func TestOthersAreNoticed(t *testing.T) {
	var d divided
	r := 1000.0
	for range 100 { // 3 others
		r -= 4
		d.divide(0, 0, r, 1, 20, false)
	}
	for range 100 { // which are slow now
		r--
		d.divide(0, 0, r, 1, 20, false)
	}
	if d.peers >= singlePeer || d.alone() {
		t.Errorf("peers %v, alone %v; want fewer than %v, and not alone", d.peers, d.alone(), singlePeer)
	}
	var one divided
	for r = 1000; r > 500; r-- {
		one.divide(0, 0, r, 1, 20, false)
	}
	if !one.alone() {
		t.Errorf("peers %v, others %d: a client alone takes itself for several", one.peers, one.othersFor)
	}
}

// TestOvertakenIsNoRefill: an answer that was overtaken says that more remains than later ones did.
// That is no refill, and what is gone since then was taken by the client's own requests.
func TestOvertakenIsNoRefill(t *testing.T) {
	for seed := range uint64(20) {
		var d divided
		random := rand.New(rand.NewPCG(seed, 1))
		r := 2000.0
		for flight := 2; r > 400; flight += flight/2 + 1 { // each of them sent at once, and answered in any order
			for i, k := range random.Perm(flight) {
				d.divide(0, 0, r-float64(k), 1, flight-i, false)
			}
			r -= float64(flight)
		}
		if d.othersFor > 0 {
			t.Errorf("seed %d: a client alone takes itself for several", seed)
		}
	}
}

// TestAnswersOfTheWindowBefore: an answer that comes after the first one of a new window, and tells
// what remained in the old, does not show that others took what is not there.
func TestAnswersOfTheWindowBefore(t *testing.T) {
	var d divided
	for window := 0.0; window < 4; window++ {
		for k := 0.0; k < 50; k++ {
			d.divide(window+k/100, window+k/100-0.01, 99-k, 1, 3, false)
		}
		d.divide(window+1, window+0.99, 99, 1, 3, false)     // of the next one
		d.divide(window+1, window+0.98, 49, 1, 2, false)     // of this one, overtaken
		d.divide(window+1.001, window+0.99, 98, 1, 1, false) // of the next one
	}
	if !d.longAlone() {
		t.Errorf("%v gone in %v answers, others %d: a client alone takes itself for several", d.fell, d.answers, d.othersFor)
	}
}

// TestOpensOfWindows: what remains leaps up at the end of a window, and rises by less in a bucket.
func TestOpensOfWindows(t *testing.T) {
	var w, b level
	for range 4 {
		w.most, w.shown = 99, 40
		w.open(1, 99)
	}
	for r := 10.0; r < 99; r += 4 {
		b.most, b.shown = 99, r
		b.open(1, r+4)
	}
	b.shown = 10
	b.open(1, 99) // after a rest
	if w.opens < opensLeast || b.opens >= opensLeast {
		t.Errorf("opens of a window %d, of a bucket %d; want at least %d, and fewer", w.opens, b.opens, opensLeast)
	}
}
