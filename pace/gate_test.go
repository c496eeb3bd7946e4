package pace

import (
	"slices"
	"testing"
	"time"
)

var t0 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(d time.Duration) time.Time { return t0.Add(d) }

// spaced lets one start every gap, and counts what it is told.
type spaced struct {
	gap, rest time.Duration
	next      time.Time
	flying    int
	starts    int
	ends      [4]int
	unsent    int
}

func (s *spaced) Wait(now time.Time, r Request) time.Duration {
	return s.next.Sub(now) + time.Duration(max(r.Place-1, 0))*s.gap
}

func (s *spaced) Start(now time.Time, _ Request) {
	s.next = now.Add(s.gap)
	s.flying++
	s.starts++
}

func (s *spaced) Observe(_ time.Time, o Outcome) time.Duration {
	s.flying--
	s.ends[o.Verdict]++
	if o.Sent.IsZero() {
		s.unsent++
	}
	return s.rest
}

// names are the tickets that Next lets go now.
func names(g *Gate, now time.Time) (got []string) {
	for {
		t, _ := g.Next(now)
		if t == nil {
			return got
		}
		got = append(got, t.Owner.(string))
	}
}

func wantNames(t *testing.T, g *Gate, after time.Duration, want ...string) {
	t.Helper()
	if got := names(g, at(after)); !slices.Equal(got, want) {
		t.Errorf("at %v went %v, want %v", after, got, want)
	}
}

func enter(t *testing.T, g *Gate, after time.Duration, name string) *Ticket {
	t.Helper()
	k := &Ticket{Owner: name}
	if _, ok := g.Enter(at(after), k); !ok {
		t.Fatalf("Enter(%s) at %v refused", name, after)
	}
	return k
}

const second = time.Second

func TestGateIsFirstComeFirstServed(t *testing.T) {
	g := &Gate{Control: &spaced{gap: second}}
	for _, name := range []string{"a", "b", "c"} {
		enter(t, g, 0, name)
	}
	wantNames(t, g, 0, "a")
	wantNames(t, g, second-1)
	wantNames(t, g, second, "b")
	wantNames(t, g, 5*second, "c")
	if _, again := g.Next(at(5 * second)); again != Never {
		t.Errorf("Next of an empty gate asks again in %v, want Never", again)
	}
}

func TestGateSaysWhenToAskAgain(t *testing.T) {
	g := &Gate{Control: &spaced{gap: second, rest: 300 * time.Millisecond}}
	a := enter(t, g, 0, "a")
	enter(t, g, 0, "b")
	wantNames(t, g, 0, "a")
	g.Done(at(0), a, Report{Verdict: Throttled})
	for _, test := range []struct{ now, again time.Duration }{
		{0, 300 * time.Millisecond}, // the end of a's rest comes before b's turn
		{100 * time.Millisecond, 200 * time.Millisecond},
		{300 * time.Millisecond, 700 * time.Millisecond},
	} {
		if k, again := g.Next(at(test.now)); k != nil || again != test.again {
			t.Errorf("Next at %v = %v, %v; want nobody, %v", test.now, k, again, test.again)
		}
	}
}

func TestGateRetryGoesToTheFront(t *testing.T) {
	g := &Gate{Control: &spaced{gap: second}}
	a := enter(t, g, 0, "a")
	enter(t, g, 0, "b")
	wantNames(t, g, 0, "a")
	if !g.Done(at(second/2), a, Report{Verdict: Throttled}) {
		t.Fatal("a throttled call is not retried")
	}
	wantNames(t, g, second, "a")
	wantNames(t, g, 2*second, "b")
}

func TestGateRestBlocksNobody(t *testing.T) {
	g := &Gate{Control: &spaced{rest: 10 * second}}
	a := enter(t, g, 0, "a")
	wantNames(t, g, 0, "a")
	g.Done(at(0), a, Report{Verdict: Throttled})
	enter(t, g, second, "b")
	wantNames(t, g, second, "b")
	if k := enter(t, g, 10*second, "c"); k.Forecast != 0 {
		t.Errorf("forecast %v, want 0", k.Forecast)
	}
	wantNames(t, g, 10*second, "a", "c") // a keeps its place
}

func TestGateNeverRetriesEarlierThanTheServerSaid(t *testing.T) {
	g := &Gate{}
	a := enter(t, g, 0, "a")
	wantNames(t, g, 0, "a")
	g.Done(at(second), a, Report{Verdict: Throttled, After: 7 * second})
	wantNames(t, g, 8*second-1)
	wantNames(t, g, 8*second, "a")
}

func TestGateGivesUp(t *testing.T) {
	for _, test := range []struct {
		name    string
		gate    Gate
		verdict Verdict
		tries   int
	}{
		{"throttled, three tries", Gate{Tries: 3}, Throttled, 3},
		{"failed, by default three retries", Gate{}, Failed, 4},
		{"failed, one retry", Gate{Retries: 1}, Failed, 2},
		{"failed, no retry", Gate{Retries: -1}, Failed, 1},
		{"served", Gate{}, Served, 1},
		{"ignored", Gate{}, Ignored, 1},
		{"the controller gives up", Gate{Control: &spaced{rest: Never}}, Throttled, 1},
		{"after for ever", Gate{}, Throttled, 1},
		{"final", Gate{}, Throttled, 1},
	} {
		r := Report{Verdict: test.verdict, Final: test.name == "final"}
		if test.name == "after for ever" {
			r.After = Never
		}
		k := enter(t, &test.gate, 0, "a")
		for {
			wantNames(t, &test.gate, 0, "a")
			if !test.gate.Done(at(0), k, r) {
				break
			}
		}
		if k.Tries() != test.tries || test.gate.Waiting()+test.gate.InFlight() != 0 {
			t.Errorf("%s: %d tries, %d waiting, %d in flight; want %d, 0, 0",
				test.name, k.Tries(), test.gate.Waiting(), test.gate.InFlight(), test.tries)
		}
	}
}

func TestGateCountsThrottledAndFailedApart(t *testing.T) {
	g := &Gate{Tries: 2, Retries: 1}
	k := enter(t, g, 0, "a")
	for i, test := range []struct {
		verdict Verdict
		retry   bool
	}{{Failed, true}, {Throttled, true}, {Throttled, false}} {
		wantNames(t, g, 0, "a")
		if retry := g.Done(at(0), k, Report{Verdict: test.verdict}); retry != test.retry {
			t.Errorf("try %d %v: retry %t, want %t", i, test.verdict, retry, test.retry)
		}
	}
}

func TestGateRefusesWhatWouldBeLate(t *testing.T) {
	g := &Gate{Control: &spaced{gap: second}}
	enter(t, g, 0, "a")
	wantNames(t, g, 0, "a")
	enter(t, g, 0, "b")
	late := &Ticket{Deadline: at(2*second - 1)}
	if forecast, ok := g.Enter(at(0), late); ok || forecast != 2*second {
		t.Errorf("Enter = %v, %t; want 2s, false", forecast, ok)
	}
	if _, ok := g.Enter(at(0), &Ticket{Deadline: at(2 * second)}); !ok {
		t.Error("refused what comes just in time")
	}
	if g.Waiting() != 2 {
		t.Errorf("%d waiting, want 2: a refused ticket is forgotten", g.Waiting())
	}
}

func TestGateChecksTheDeadlineWhenACallEnds(t *testing.T) {
	for _, test := range []struct {
		name      string
		gap, rest time.Duration
		after     time.Duration
		retry     bool
		forecast  time.Duration
	}{
		{"rest too long", 0, 4 * second, 0, false, 4 * second},
		{"server's wait too long", 0, 0, 5 * second, false, 5 * second},
		{"turn comes too late", 6 * second, 0, 0, false, 6 * second},
		{"in time", 2 * second, 3 * second, 0, true, 3 * second},
	} {
		g := &Gate{Control: &spaced{gap: test.gap, rest: test.rest}}
		k := &Ticket{Owner: "a", Deadline: at(3 * second)}
		g.Enter(at(0), k)
		wantNames(t, g, 0, "a")
		retry := g.Done(at(0), k, Report{Verdict: Throttled, After: test.after})
		if retry != test.retry || k.Forecast != test.forecast {
			t.Errorf("%s: retry %t, forecast %v; want %t, %v", test.name, retry, k.Forecast, test.retry, test.forecast)
		}
	}
}

func TestGateIsBounded(t *testing.T) {
	g := &Gate{MaxWaiting: 2, Control: &spaced{gap: second}}
	enter(t, g, 0, "a")
	wantNames(t, g, 0, "a")
	enter(t, g, 0, "b")
	enter(t, g, 0, "c")
	if _, ok := g.Enter(at(0), &Ticket{}); ok {
		t.Error("a third waiter was let in, MaxWaiting is 2")
	}
}

func TestGateLeave(t *testing.T) {
	c := &spaced{gap: second, rest: 2 * second}
	g := &Gate{Control: c}
	flying, line := enter(t, g, 0, "flying"), enter(t, g, 0, "line")
	wantNames(t, g, 0, "flying")
	g.Leave(at(0), line)
	g.Leave(at(0), flying)
	if c.unsent != 1 || c.flying != 0 {
		t.Errorf("the controller saw %d unsent, has %d in flight; want 1, 0", c.unsent, c.flying)
	}
	rests := enter(t, g, second, "rests")
	wantNames(t, g, second, "rests")
	g.Done(at(second), rests, Report{Verdict: Throttled})
	g.Leave(at(second), rests)
	g.Leave(at(second), rests) // outside: nothing
	if g.Waiting()+g.InFlight() != 0 {
		t.Errorf("%d waiting, %d in flight; want none", g.Waiting(), g.InFlight())
	}
	enter(t, g, 9*second, "rests") // a ticket may be used again
	wantNames(t, g, 9*second, "rests")
}

func TestLuckIsReproducibleAndEven(t *testing.T) {
	l := luckOf(1, 2, 3)
	if l.Unit(0) != luckOf(1, 2, 3).Unit(0) || l.Unit(0) == l.Unit(1) || l == luckOf(1, 2, 4) || l == luckOf(2, 2, 3) {
		t.Error("a draw must depend on seed, arrival, try and number, and on nothing else")
	}
	var sum float64
	const n = 100_000
	for i := range n {
		u := luckOf(7, uint64(i), 0).Unit(i % 3)
		if u < 0 || u >= 1 {
			t.Fatalf("Unit = %v, want [0, 1)", u)
		}
		sum += u
	}
	if mean := sum / n; mean < 0.495 || mean > 0.505 {
		t.Errorf("mean of the draws %v, want 0.5", mean)
	}
}

func TestAllIsTheLongest(t *testing.T) {
	a, b := &spaced{gap: second, rest: 3}, &spaced{gap: 2 * second, rest: 5}
	all := All{a, b}
	all.Start(t0, Request{})
	if w := all.Wait(t0, Request{}); w != 2*second {
		t.Errorf("Wait = %v, want 2s", w)
	}
	if rest := all.Observe(t0, Outcome{Report: Report{Verdict: Served}}); rest != 5 || a.flying+b.flying != 0 {
		t.Errorf("Observe = %v, %d and %d in flight; want 5, 0, 0", rest, a.flying, b.flying)
	}
}
