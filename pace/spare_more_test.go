package pace

import (
	"slices"
	"testing"
	"time"
)

// after is what spare knows after so many ends of either kind, one after another.
func after(n int, took time.Duration, r Report, from spare) spare {
	for range n {
		from.learn(took, 1, &r)
	}
	return from
}

// Both kinds of time-outs teach how much time is needed: those of callers that gave up
// and those that their function reports. An answer or a refusal after the deadline is
// none.
func TestSpareTimeOuts(t *testing.T) {
	calm := after(16, 100*ms, Report{Verdict: Served}, spare{})
	for v, want := range map[Verdict]bool{Ignored: true, Failed: true, Served: false, Throttled: false} {
		if got := after(20, 50*ms, Report{Verdict: v, TimedOut: true}, calm).need > 0; got != want {
			t.Errorf("%v, timed out: something is needed: %v, want %v", v, got, want)
		}
	}
}

// Turns are spent in vain once two calls that had waited have timed out, nothing has
// been answered since the first, and that is four times as long ago as they took.
func TestSpareInVain(t *testing.T) {
	const none = 0
	for _, c := range []struct {
		name      string
		verdicts  []Verdict
		waited    time.Duration
		now, need time.Duration
	}{
		{"one time-out", []Verdict{Ignored}, second, 9 * second, none},
		{"two time-outs", []Verdict{Ignored, Failed}, second, 4 * second, 4 * second},
		{"two time-outs, not long ago", []Verdict{Ignored, Ignored}, second, 4*second - 1, none},
		{"two that had not waited", []Verdict{Ignored, Ignored}, second/7 - 1, 9 * second, none},
		{"two refusals", []Verdict{Throttled, Throttled}, second, 9 * second, none},
		{"an answer in between", []Verdict{Ignored, Served, Ignored}, second, 9 * second, none},
	} {
		var s spare
		for _, v := range c.verdicts {
			s.missed(at(0), c.waited, second, &Report{Verdict: v, TimedOut: v != Served})
		}
		if got := s.least(at(c.now)); got != c.need {
			t.Errorf("%s: %v is needed after %v, want %v", c.name, got, c.now, c.need)
		}
	}
}

// What answers take on average follows them, within some tens of answers.
func TestSpareMean(t *testing.T) {
	for _, c := range []struct{ first, then, low, high time.Duration }{
		{100 * ms, 100 * ms, 100 * ms, 100 * ms},
		{100 * ms, 10 * ms, 10 * ms, 14 * ms},
		{10 * ms, 100 * ms, 95 * ms, 100 * ms},
	} {
		s := after(1, c.first, Report{Verdict: Served}, spare{})
		if got := time.Duration(s.mean * 1e9); got != c.first {
			t.Errorf("after one answer within %v: %v on average", c.first, got)
		}
		s = after(60, c.then, Report{Verdict: Served}, s)
		if got := time.Duration(s.mean*1e9 + 0.5); got < c.low || got > c.high {
			t.Errorf("60 answers within %v after one within %v: %v on average, want %v to %v", c.then, c.first, got, c.low, c.high)
		}
	}
}

// An answer that took as long as is needed, or longer, is no reason to need less; nor
// do those that are lost make calls need more than answers take.
func TestSpareAtMost(t *testing.T) {
	slow := spare{ends: 16, mean: 0.1, dev: 0.01, need: 0.11}
	if got := after(1, 110*ms, Report{Verdict: Served}, slow).need; got != slow.need {
		t.Errorf("an answer within %v of %v: %v", 110*ms, slow.need, got)
	}
	for _, c := range []struct {
		name      string
		took      [2]time.Duration // answers, in turns
		low, high float64          // seconds needed
	}{
		{"regular answers", [2]time.Duration{100 * ms, 100 * ms}, 0.1, 0.17},
		{"answers that differ", [2]time.Duration{50 * ms, 150 * ms}, 0.25, 0.34},
	} {
		var s spare
		most := 0.0
		for i := range 4000 {
			if i%10 == 0 { // lost
				s.learn(time.Second, 1, &timeOut)
			} else {
				s.learn(c.took[i%2], 1, &Report{Verdict: Served})
			}
			if i > 1000 {
				most = max(most, s.need)
			}
		}
		if most < c.low || most > c.high {
			t.Errorf("%s, of which one in 10 is lost: %.3f s are needed, want %v to %v", c.name, most, c.low, c.high)
		}
	}
}

// Only those before the one that started in their place are given up: one that came
// after it may still have its turn. A ticket that was given up may enter again.
func TestGivenUpAreThoseBefore(t *testing.T) {
	g, now := taught(t, 1, 16, 100*ms, many(20, 90*ms)...)
	busy := enter(t, g, now, "busy")
	wantNames(t, g, now, "busy")
	old := hurried(t, g, now, "old", 200*ms)
	enter(t, g, now, "patient")
	hurried(t, g, now, "young", 200*ms)
	now += 180 * ms
	g.Done(at(now), busy, Report{})
	wantNames(t, g, now, "patient")
	if got := given(g); !slices.Equal(got, []string{"old"}) {
		t.Errorf("given up: %v, want old", got)
	}
	if _, ok := g.Enter(at(now), old); !ok || g.Waiting() != 2 {
		t.Errorf("Enter: %v, %d wait; want old and young", ok, g.Waiting())
	}
}

// The retry of a call that is given up is paid back to the retry budget.
func TestGivenUpPaysBack(t *testing.T) {
	g, now := taught(t, 1, 16, 100*ms, many(20, 90*ms)...)
	g.Budget = Budget{Max: 1}
	hurried(t, g, now, "old", 300*ms)
	old, _ := g.Next(at(now))
	enter(t, g, now, "busy")
	enter(t, g, now, "patient")
	now += 10 * ms
	before := g.purse
	if !g.Done(at(now), old, Report{Verdict: Failed, After: 100 * ms}) {
		t.Fatal("no retry")
	}
	wantNames(t, g, now, "busy")
	now += 250 * ms
	wantNames(t, g, now)
	g.MaxInFlight = 2
	wantNames(t, g, now, "patient")
	if got := given(g); !slices.Equal(got, []string{"old"}) {
		t.Fatalf("given up: %v, want old", got)
	}
	if g.purse != before {
		t.Errorf("the retry budget is %+v, was %+v before the retry", g.purse, before)
	}
}

// A call whose wait would leave it too little time is refused at once, on entry and for a
// retry, unless it begins in the first eighth of its time; one without an End is not.
func TestTooLate(t *testing.T) {
	for _, c := range []struct {
		name       string
		timeOuts   int
		wait, long time.Duration // until its turn, and for its caller; zero: no End
		late       bool
	}{
		{"what is needed is left", 20, 900 * ms, 1000 * ms, false},
		{"less is left", 20, 960 * ms, 1000 * ms, true},
		{"nothing has timed out", 0, 960 * ms, 1000 * ms, false},
		{"a quarter of an answer is left", 1, 960 * ms, 1000 * ms, false},
		{"less than that is", 1, 980 * ms, 1000 * ms, true},
		{"its caller gave it little", 20, 5 * ms, 45 * ms, false},
		{"no deadline", 20, 900 * ms, 0, false},
	} {
		g, now := taught(t, 0, 16, 100*ms, many(c.timeOuts, 50*ms)...)
		law := &spaced{gap: c.wait}
		g.Control = law
		law.next = at(now + c.wait)
		k := &Ticket{}
		if c.long > 0 {
			k.End = at(now + c.long)
		}
		if _, ok := g.Enter(at(now), k); ok == c.late || k.TooLate != c.late {
			t.Errorf("%s: entered: %v, too late: %v", c.name, ok, k.TooLate)
		}
		if c.long == 0 || c.wait < 100*ms {
			continue // of a retry more of its time is over
		}
		law.next = at(now)
		r := &Ticket{Owner: "tried", End: at(now + c.long + 100*ms)}
		g = &Gate{Control: law, spare: g.spare}
		if _, ok := g.Enter(at(now), r); !ok {
			t.Fatalf("%s: refused at once", c.name)
		}
		wantNames(t, g, now, "tried")
		law.next = at(now + 100*ms + c.wait)
		if again := g.Done(at(now+100*ms), r, Report{Verdict: Throttled}); again == c.late || r.TooLate != c.late {
			t.Errorf("%s: retried: %v, too late: %v", c.name, again, r.TooLate)
		}
	}
}
