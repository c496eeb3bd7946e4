package pace

import (
	"math/rand/v2"
	"testing"
	"time"
)

// stated is a client's log under a policy of quota in so many seconds.
func stated(quota, length float64) *kept {
	k := new(kept)
	k.follow(quota, length, 0)
	return k
}

// answer logs one call of that cost, answered at once.
func (k *kept) answer(s, after float64, cost int64, v Verdict) {
	o := Outcome{Request: Request{Cost: cost}, Report: Report{Verdict: v}}
	k.start(s, charged(cost))
	k.ended(s, &o)
	k.observe(s, s, 0, after, false, &o)
}

// TestKeptHolds: a policy is kept to from the second refusal on that it explains, or
// the first where the server says the same, until refusals say otherwise.
func TestKeptHolds(t *testing.T) {
	k := stated(3, 10)
	for s := range 3 {
		k.answer(float64(s), 0, 1, Served)
	}
	if !k.spent(3, 0) || k.free() != 10 || k.holds {
		t.Fatalf("3 of 3 used: spent %t until %v, holds %t; want spent until 10, not held to yet", k.spent(3, 0), k.free(), k.holds)
	}
	k.answer(3, 0, 1, Throttled)
	k.answer(6, 0, 1, Throttled)
	if !k.holds || k.free() != 10 {
		t.Fatalf("after two refusals it holds %t, free at %v; want it to hold until 10", k.holds, k.free())
	}
	k.answer(10, 0, 1, Served)
	if k.free() != 11 {
		t.Errorf("after one more it is free at %v, want 11", k.free())
	}
	for s := 30; s < 36; s += 2 { // nothing used: others share it, or the server is away
		k.answer(float64(s), 0, 1, Throttled)
	}
	if k.holds {
		t.Error("it holds after refusals of a client that used nothing")
	}

	told := stated(3, 10)
	for s := range 3 {
		told.answer(float64(s), 0, 1, Served)
	}
	told.answer(3, 7, 1, Throttled)
	if !told.holds {
		t.Error("it does not hold after a refusal until the very instant that it expects")
	}
}

// TestKeptIsNoBucket: what is served beyond the quota shows that there is more.
func TestKeptIsNoBucket(t *testing.T) {
	k := stated(5, 60)
	for s := range 20 {
		k.answer(float64(s), 0, 1, Served)
	}
	k.answer(20, 0, 1, Throttled)
	k.answer(21, 0, 1, Throttled)
	if k.spent(22, 0) || k.holds {
		t.Errorf("20 of 5 were served: spent %t, holds %t; want neither", k.spent(22, 0), k.holds)
	}
}

// TestKeptFollowsTheWindow: where the server says that it is sooner over, the window
// ends then, and what was used is of the one before.
func TestKeptFollowsTheWindow(t *testing.T) {
	k := stated(2, 60)
	k.answer(50, 0, 1, Served)
	k.answer(51, 0, 1, Served)
	k.answer(52, 8, 1, Throttled)
	if k.free() != 0 {
		t.Errorf("the window ends at 60, and the next may start at %v", k.free())
	}
}

// TestKeptLonger: where the server counts for longer than the window is long, as in
// slots, that is learnt, up to a quarter.
func TestKeptLonger(t *testing.T) {
	k := stated(2, 100)
	k.answer(0, 0, 1, Served)
	k.answer(0, 0, 1, Served)
	for s := 101.0; s < 300; s++ {
		k.answer(s, 0, 1, Throttled)
	}
	if k.countedFor < 105 || k.countedFor > 125 {
		t.Errorf("a start counts for %v s, want 105 to 125", k.countedFor)
	}
}

// TestKeptCosts: what a request is said to cost, and did, is what it takes of the
// quota.
func TestKeptCosts(t *testing.T) {
	k := stated(100, 60)
	k.answer(0, 0, 90, Served)
	if k.free() != 0 {
		t.Errorf("90 of 100 used, and free at %v", k.free())
	}
	k.start(1, 1)
	k.ended(1, &Outcome{Request: Request{Cost: 1}, Report: Report{Verdict: Served, Cost: 11}})
	if got := k.used(2, 60); got != 101 || !k.spent(2, 0) {
		t.Errorf("used %v, spent %t; want 101 and spent", got, k.spent(2, 0))
	}
	k.forget(1e18)
	if got := k.used(2, 60); got != 0 {
		t.Errorf("all taken back, and %v used", got)
	}
}

// TestKeptNeverMore: a client that starts only when the log is free starts no more
// than the quota in any time as long as the window, whatever was taken back and
// restated.
func TestKeptNeverMore(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		quota, length := 1+random.IntN(300), 1+60*random.Float64()
		k, now, starts := stated(float64(quota), length), 0.0, []float64(nil)
		for range 5 * quota {
			now = max(now+2*random.Float64()*random.Float64()*length/float64(quota), k.free())
			k.start(now, 1)
			switch random.IntN(40) {
			case 0: // never left
				k.forget(1)
				continue
			case 1: // stated in other units for one answer
				k.follow(float64(quota+1), length, 0)
				k.follow(float64(quota), length, 0)
			}
			starts = append(starts, now)
			if n := len(starts) - 1 - quota; n >= 0 && now-starts[n] < length*(1-1e-9) {
				t.Fatalf("seed %d: %d in %v, the quota is %d in %v", seed, quota+1, now-starts[n], quota, length)
			}
		}
		if took := starts[len(starts)-1]; took > 1.3*5*length {
			t.Errorf("seed %d: %d of %d in %v took %v, want at most 1.3 × %v", seed, len(starts), quota, length, took, 5*length)
		}
	}
}

// TestKeptNotForEver: a window that is stated as years is tried every two hours.
func TestKeptNotForEver(t *testing.T) {
	p := &play{t: t, a: new(Adaptive)}
	h := Hints{Limit: Some(int64(2)), Window: Some(10_000 * time.Hour)}
	p.call(Served, h, 0)
	p.call(Served, h, 0)
	for range 10 {
		p.call(Throttled, h, 0)
	}
	if !p.a.level.kept.holds {
		t.Fatal("it does not hold")
	}
	if w := p.a.Wait(at(p.now), Request{Since: at(p.now)}); w < time.Hour || w > 2*time.Hour {
		t.Errorf("after ten refusals the next may start in %v, want one to two hours", w)
	}
}

// TestKeptLooksAhead: an unpaced client that has used the quota sends one at a time
// to see whether there is more: until the first answer, for 5 s, or until the log
// says that it may go on, whichever comes first. Where too few answers fit in the
// window, it sends as it did before.
func TestKeptLooksAhead(t *testing.T) {
	for _, c := range []struct {
		window, latency time.Duration
		answered        time.Duration // since the last start; zero: it is not
		waits           time.Duration
	}{
		{time.Minute, 0, 0, patience * time.Second},
		{2 * time.Second, 0, 0, 2 * time.Second},
		{time.Minute, 0, time.Second, time.Second},
		{16 * time.Second, time.Second, 0, patience * time.Second},
		{15 * time.Second, time.Second, 0, 0},
	} {
		a := new(Adaptive)
		h := Hints{Limit: Some(int64(12)), Window: Some(c.window)}
		r := Request{Since: at(0), Cost: 1}
		for range 12 {
			a.Start(at(0), r)
			a.Observe(at(0), Outcome{Request: r, Sent: at(-c.latency), Report: Report{Verdict: Served, Hints: h}})
		}
		if w := a.Wait(at(0), r); w != 0 {
			t.Fatalf("%v: the first to go ahead waits %v", c.window, w)
		}
		a.Start(at(0), r)
		waited := a.Wait(at(0), r)
		if c.answered > 0 {
			a.Observe(at(c.answered), Outcome{Request: r, Sent: at(0), Report: Report{Verdict: Served, Hints: h}})
			waited = c.answered + max(a.Wait(at(c.answered), r), 0)
		}
		if waited != c.waits {
			t.Errorf("a window of %v, answered after %v: the next waits %v, want %v", c.window, c.answered, waited, c.waits)
		}
	}
}

// TestKeptToldEnds: what remains convinces while it shows what the client used, for a window,
// until something else refuses it, or the quota is too large for single starts.
func TestKeptToldEnds(t *testing.T) {
	told := func(k *kept, s float64, remaining int64) {
		o := Outcome{Report: Report{Verdict: Served, Hints: Hints{Remaining: Some(remaining)}}}
		k.start(s, 1)
		k.ended(s, &o)
		k.observe(s, s, 0, 0, true, &o)
	}
	convinced := func() *kept {
		k := stated(3, 10)
		for i := range 9 {
			told(k, float64(4*i), max(2-int64(i), 0))
		}
		if !k.holds {
			t.Fatal("three windows that show the use of this client alone do not convince")
		}
		return k
	}
	k := convinced()
	k.answer(60, 0, 1, Throttled)
	if k.holds {
		t.Error("a refusal of a client that used nothing for a window leaves the log in force")
	}
	k = convinced()
	k.follow(300, 10, 0)
	told(k, 36, 200)
	if k.holds {
		t.Error("a quota of 300, most of which others use, is kept to as one of 3 was")
	}
}
