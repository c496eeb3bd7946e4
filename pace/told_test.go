package pace

import (
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// lone plays one caller with calls one after the other until n are served, under
// l, whose server tells what told names: r(emaining), e(nd of the window), a(fter)
// and p(olicy). It returns how many were refused, and in how long it was done.
func lone(t *testing.T, spec, told string, n int) (refused int, took, ideal time.Duration) {
	t.Helper()
	return loneFrom(t, 0, spec, told, n)
}

// loneFrom is lone, begun so late in a window.
func loneFrom(t *testing.T, late time.Duration, spec, told string, n int) (refused int, took, ideal time.Duration) {
	t.Helper()
	l, err := limit.Parse(spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	const trip = 20 * time.Millisecond
	var state limit.State
	start := time.Unix(1_700_000_123, 0).Add(late)
	now, g := start, &Gate{Control: new(Adaptive)}
	for served := 0; served < n; served++ {
		call := new(Ticket)
		g.Enter(now, call)
		for retry := true; retry; {
			next, again := g.Next(now)
			if next == nil {
				now = now.Add(again)
				continue
			}
			now = now.Add(trip)
			var d limit.Decision
			state, d = limit.Take(state, now, limit.Ask{Limit: l, N: 1})
			now = now.Add(trip)
			if !d.OK {
				refused++
			}
			retry = g.Done(now, next, tells(l, d, told))
		}
		if refused > 10*n {
			t.Fatalf("%s told %q: %d refused, %d served", spec, told, refused, served)
		}
	}
	return refused, now.Sub(start), time.Duration(n) * l.Period / time.Duration(l.Count)
}

func tells(l limit.Limit, d limit.Decision, told string) Report {
	r := Report{Verdict: Served}
	if !d.OK {
		r.Verdict = Throttled
	}
	if strings.Contains(told, "r") {
		r.Hints.Remaining = Some(d.Remaining)
	}
	if strings.Contains(told, "e") {
		r.Hints.Reset = Some(d.ResetAfter)
	}
	if strings.Contains(told, "a") && !d.OK {
		r.After = d.RetryAfter
	}
	if strings.Contains(told, "p") {
		r.Hints.Limit, r.Hints.Window = Some(l.Count), Some(l.Period)
	}
	return r
}

// TestTwoCountersAreNoWindow: the reset of a window of two counters is as far as
// two windows away, and stands still while the window lasts, but is not its end.
func TestTwoCountersAreNoWindow(t *testing.T) {
	for _, spec := range []string{"5/10m sliding-window", "15/10m sliding-window", "30/10m sliding-window", "60/m sliding-window"} {
		if _, took, ideal := lone(t, spec, "repa", 120); took > ideal*13/10 {
			t.Errorf("%s: 120 calls take %v, want at most 1.3 times %v", spec, took, ideal)
		}
	}
}

// TestRemainingDoesNoHarm: a caller that is told what remains is refused hardly
// more often than one that is told nothing.
func TestRemainingDoesNoHarm(t *testing.T) {
	for _, spec := range []string{"10/h", "1/m", "2/10m", "5/10m sliding-window", "2/10m fixed-window", "20/m", "20/m fixed-window"} {
		blind, _, _ := lone(t, spec, "", 60)
		if informed, _, _ := lone(t, spec, "r", 60); informed > blind+8 {
			t.Errorf("%s: %d refused that is told what remains, %d that is told nothing", spec, informed, blind)
		}
	}
}

// TestPolicyOfFew: of few requests in a stated policy, what remains says less than
// the policy itself. Means of 20 starts, as under two counters it matters when that is.
func TestPolicyOfFew(t *testing.T) {
	for spec, most := range map[string]float64{"2/10m": 1.15, "2/10m fixed-window": 1.15, "5/10m sliding-window": 1.3, "6/h": 1.15} {
		for _, told := range []string{"p", "rp", "rep", "repa"} {
			const starts = 20
			refused, over := 0.0, 0.0
			for i := range starts {
				n, took, ideal := loneFrom(t, time.Duration(29*i)*time.Second, spec, told, 60)
				refused, over = refused+float64(n)/starts, over+took.Seconds()/ideal.Seconds()/starts
			}
			if refused > 5 || over > most {
				t.Errorf("%s told %q: %.1f of 60 calls refused, in %.2f times the ideal, want at most 5 and %v", spec, told, refused, over, most)
			}
		}
	}
}

// TestNothingLeft: where the last of a policy of few is served and nothing is left,
// no refusal is needed to say so.
func TestNothingLeft(t *testing.T) {
	for _, spec := range []string{"1/h", "5/m", "10/m fixed-window"} {
		c := newCrowd(t, spec, "rep", 1)
		for c.served < int(c.l.Count) {
			c.run(c.takes())
		}
		if wait, least := c.a.Wait(c.now, Request{Since: c.now}), c.l.Period/time.Duration(c.l.Count)*8/10; wait < least {
			t.Errorf("%s: nothing is left, and the next waits %v, want at least %v", spec, wait, least)
		}
	}
}

// TestShortRetryAfter: where answers take longer than the pause that the server
// asks for, nobody goes alone to see whether it is over.
func TestShortRetryAfter(t *testing.T) {
	for _, c := range []struct {
		latency, after time.Duration
		alone          bool
	}{
		{5 * time.Second, time.Second, false},
		{500 * time.Millisecond, time.Second, false},
		{100 * time.Millisecond, time.Second, true},
	} {
		p := &play{t: t, a: new(Adaptive)}
		for range 50 {
			r, _ := p.request()
			sent := p.now
			p.now += c.latency
			p.a.Observe(at(p.now), Outcome{Request: r, Sent: at(sent), Report: Report{Verdict: Served}})
		}
		p.a.rtt = c.latency.Seconds()
		p.a.base = 10
		r, _ := p.request()
		sent := p.now
		p.now += c.latency
		p.a.Observe(at(p.now), Outcome{Request: r, Sent: at(sent), Report: Report{Verdict: Throttled, After: c.after}})
		p.a.base = 10 // a second, whatever was measured
		p.a.settle(at(p.now).Sub(p.a.epoch).Seconds())
		p.request()
		first := p.now
		p.request()
		if gap := p.now - first; (gap >= 4*time.Second) != c.alone {
			t.Errorf("latency %v, Retry-After %v: the second starts %v after the first, want alone: %t", c.latency, c.after, gap, c.alone)
		}
	}
}

// TestRestCountsOnce: calls that use what a rest saved up come after it, and are no
// rest again, in which the rate would not grow.
func TestRestCountsOnce(t *testing.T) {
	p := &play{t: t, a: new(Adaptive)}
	p.call(Served, remaining(100), 0)
	p.call(Throttled, remaining(0), 0)
	for range 50 {
		p.call(Served, remaining(20), 0)
	}
	if !p.a.level.on {
		t.Fatal("the level does not pace")
	}
	p.call(Served, remaining(100), 0)
	p.now += time.Minute
	for range 30 {
		p.request()
		if s := (p.now + trip).Seconds(); p.a.level.grownAt > s || p.a.idle > s {
			t.Fatalf("at %.1f s the rate is grown until %.1f s, and it has rested for %.1f s", s, p.a.level.grownAt, p.a.idle)
		}
	}
}

// Those in flight are taken off what remains when an answer says what that is. One that does not say
// leaves it as it is: they were taken off as they started.
func TestAnswersThatDoNotTell(t *testing.T) {
	for _, told := range []bool{true, false} {
		l := level{windows: windows{window: true, rtt: 1}, meanGap: 0.01, r: 1000}
		o := Outcome{Report: Report{Verdict: Served}}
		if told {
			o.Hints.Remaining = Some(int64(1000))
		}
		want := 1000.0
		if told {
			want = 950
		}
		for range 3 {
			if told {
				l.r = 1000
			}
			l.apportion(50, &o)
		}
		if l.r != want {
			t.Errorf("told %v: %v remain, want %v", told, l.r, want)
		}
	}
}
