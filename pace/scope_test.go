package pace_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/throttle-go/throttle/pace"
)

// enterKey puts n tickets of a key in line that need scopes.
func (l *laned) enterKey(key string, n int, needs ...pace.Need) (all []*pace.Ticket) {
	l.Helper()
	for range n {
		t := &pace.Ticket{Key: key, Needs: slices.Clone(needs)}
		if _, ok := l.gate.Enter(l.now, t); !ok {
			l.Fatalf("Enter of key %q refused", key)
		}
		all = append(all, t)
	}
	return all
}

func perKey(all []*pace.Ticket) string {
	n := map[string]int{}
	for _, t := range all {
		n[t.Key]++
	}
	return fmt.Sprint(n)
}

func TestKeysTakeTurns(t *testing.T) {
	l := newLaned(t)
	l.enterKey("many", 1000)
	l.enterKey("few", 10)
	l.enterKey("", 10)
	if got, want := perKey(l.next(30)), "map[:10 few:10 many:10]"; got != want {
		t.Errorf("of 30 starts of three keys: %s, want %s", got, want)
	}
	if got, want := perKey(l.next(20)), "map[many:20]"; got != want {
		t.Errorf("of 20 more, when only one is left: %s, want %s", got, want)
	}
}

// One who always has one call waiting does not go first each time.
func TestAKeyThatComesAgainKeepsItsTurn(t *testing.T) {
	l := newLaned(t)
	l.enterKey("many", 100)
	l.enterKey("single", 1)
	single := 0
	for range 40 {
		for _, k := range l.next(1) {
			if k.Key == "single" {
				single++
				l.enterKey("single", 1)
			}
		}
	}
	if single != 20 {
		t.Errorf("of 40 starts the one with one call at a time had %d, want 20", single)
	}
}

func TestKeysTakeTurnsWithinTheirLane(t *testing.T) {
	l := newLaned(t, 1, 3)
	for i := range 80 {
		for _, k := range []*pace.Ticket{{Lane: 0, Key: "x"}, {Lane: 1, Key: "a"}, {Lane: 1, Key: []string{"a", "b"}[i%2]}} {
			l.gate.Enter(l.now, k)
		}
	}
	if got, want := perKey(l.next(80)), "map[a:30 b:30 x:20]"; got != want {
		t.Errorf("of 80 starts, lanes 1 and 3, two keys in the second: %s, want %s", got, want)
	}
}

func TestKeysBeyondTheMostShareATurn(t *testing.T) {
	l := newLaned(t)
	for i := range 3000 {
		l.enterKey(fmt.Sprint("k", i), 1)
	}
	l.enterKey("k0", 3000)
	// 1000 keys of their own and one turn of the 2000 others.
	own := 0
	for _, k := range l.next(2000) {
		if k.Key == "k0" {
			own++
		}
	}
	if own < 400 {
		t.Errorf("of 2000 starts k0 had %d, want its turn of two, as the others are done after one but for those that share", own)
	}
	l.next(4000)
	if got := l.gate.Waiting(); got != 0 {
		t.Errorf("after all: %d wait, want 0", got)
	}
}

// Keys that are done make room for others, which get turns of their own again.
func TestKeysThatAreDoneMakeRoom(t *testing.T) {
	l := newLaned(t)
	for i := range 1000 {
		l.enterKey(fmt.Sprint("k", i), 1)
	}
	l.next(1000)
	l.enterKey("between", 2) // after which all of them have had their turn
	l.next(2)
	l.enterKey("many", 10)
	l.enterKey("few", 3)
	if got, want := perKey(l.next(6)), "map[few:3 many:3]"; got != want {
		t.Errorf("of 6 starts of two keys: %s, want %s", got, want)
	}
}

// A key whose calls wait for a scope is passed over, and does not save up turns, nor
// does its lane.
func TestWhatIsPassedOverSavesNoTurns(t *testing.T) {
	for _, lanes := range [][]float64{nil, {1, 1}} {
		l := newLaned(t, lanes...)
		slow := &pace.Scope{Name: "slow", MaxInFlight: 1}
		holds := l.enterKey("holds", 1, pace.Need{Scope: slow})[0]
		if got, _ := l.gate.Next(l.now); got != holds {
			t.Fatalf("Next = %v, want the one that holds the scope", got)
		}
		for range 20 {
			for _, k := range []*pace.Ticket{{Key: "waits", Needs: []pace.Need{{Scope: slow}}}, {Key: "goes", Lane: len(lanes) / 2}} {
				l.gate.Enter(l.now, k)
			}
		}
		if got, want := perKey(l.next(8)), "map[goes:8]"; got != want {
			t.Errorf("%v lanes: of 8 starts while the scope is full: %s, want %s", lanes, got, want)
		}
		l.gate.Done(l.now, holds, pace.Report{Verdict: pace.Served})
		got := perKey(l.next(9)) // of two that begin together the one that came first goes first
		if want := "map[goes:4 waits:5]"; got != want {
			t.Errorf("%v lanes: of 9 starts once it is not: %s, want %s", lanes, got, want)
		}
	}
}

// What waits for its own scope keeps nobody else.
func TestAScopeBlocksOnlyItsOwn(t *testing.T) {
	slow := &pace.Scope{Name: "slow", Control: &pace.Fixed{Rate: 0.1}}
	l := newLaned(t)
	l.gate.Control = nil
	first := l.enterKey("", 3, pace.Need{Scope: slow})
	l.enterKey("", 2)
	var went []*pace.Ticket
	for k, _ := l.gate.Next(l.now); k != nil; k, _ = l.gate.Next(l.now) {
		went = append(went, k)
	}
	if len(went) != 3 || went[0] != first[0] {
		t.Fatalf("at once went %d, want the first of the slow scope and both others", len(went))
	}
	if k := first[2]; k.Forecast != 20*time.Second || k.Blocker != slow {
		t.Errorf("the third of the slow scope: forecast %v for %v, want 20s for the slow scope", k.Forecast, k.Blocker)
	}
	if _, again := l.gate.Next(l.now); again != 10*time.Second {
		t.Errorf("Next asks again in %v, want 10s", again)
	}
	if slow.Waiting() != 2 || slow.InFlight() != 1 {
		t.Errorf("the slow scope: %d waiting, %d in flight; want 2 and 1", slow.Waiting(), slow.InFlight())
	}
	for _, k := range append(went, first...) {
		l.gate.Leave(l.now, k)
	}
	if slow.Waiting() != 0 || slow.InFlight() != 0 {
		t.Errorf("after all left: %d waiting, %d in flight", slow.Waiting(), slow.InFlight())
	}
}

// A call starts when all its scopes let it, and takes of none before.
func TestAllScopesOrNone(t *testing.T) {
	requests := &pace.Scope{Name: "requests", Control: &pace.Fixed{Rate: 1}}
	tokens := &pace.Scope{Name: "tokens", Control: &pace.Fixed{Rate: 100, Burst: 100}}
	l := newLaned(t)
	l.gate.Control = nil
	large := l.enterKey("", 2, pace.Need{Scope: requests}, pace.Need{Scope: tokens, Cost: 1000})
	l.next(1)
	if k := large[1]; k.Forecast < 9*time.Second || k.Blocker != tokens {
		t.Errorf("after 1000 tokens of 100/s: forecast %v for %v, want above 9 s for the tokens", k.Forecast, k.Blocker)
	}
	l.enterKey("", 1, pace.Need{Scope: requests}) // goes in between: requests are not held by who waits for tokens
	before := l.now
	if got := l.next(1); got[0] == large[1] || l.now.Sub(before) > 2*time.Second {
		t.Errorf("after %v went one with %d needs, want the one without tokens after a second", l.now.Sub(before), len(got[0].Needs))
	}
	l.next(1)
	if wait := l.now.Sub(before); wait < 9*time.Second || wait > 11*time.Second {
		t.Errorf("the second large one went after %v, want about 10 s", wait)
	}
}

// What a call really cost is settled afterwards.
func TestScopesSettle(t *testing.T) {
	for _, c := range []struct {
		cost int64
		want time.Duration
	}{{0, 10 * time.Second}, {1000, 10 * time.Second}, {100, time.Second}, {2000, 20 * time.Second}} {
		tokens := &pace.Scope{Control: &pace.Fixed{Rate: 100}}
		g := pace.Gate{}
		now := time.Unix(1000, 0)
		k := &pace.Ticket{Needs: []pace.Need{{Scope: tokens, Cost: 1000}}}
		g.Enter(now, k)
		g.Next(now)
		k.Needs[0].Said = pace.Some(pace.Report{Verdict: pace.Served, Cost: c.cost})
		g.Done(now, k, pace.Report{Verdict: pace.Served})
		g.Enter(now, k)
		if k.Forecast != c.want {
			t.Errorf("estimated 1000 of 100/s, cost %d: the next waits %v, want %v", c.cost, k.Forecast, c.want)
		}
	}
}

// A scope that had no part in a refusal does not pay for it.
func TestTheBlamelessLearnNothing(t *testing.T) {
	refused := pace.Report{Verdict: pace.Throttled}
	for _, c := range []struct {
		name       string
		own        bool // the gate has a Control
		blamed     int  // which need; -1: the answer names none
		want       string
		wantOnGate pace.Verdict
	}{
		{"the second named", true, 1, "[ignored throttled]", pace.Ignored},
		{"none named", true, -1, "[ignored ignored]", pace.Throttled},
		{"none named, no limit of the gate", false, -1, "[throttled throttled]", pace.Ignored},
	} {
		var heard [3]pace.Verdict
		g := pace.Gate{}
		if c.own {
			g.Control = hears{&heard[2]}
		}
		k := &pace.Ticket{Once: true, Needs: []pace.Need{
			{Scope: &pace.Scope{Control: hears{&heard[0]}}},
			{Scope: &pace.Scope{Control: hears{&heard[1]}}},
		}}
		now := time.Unix(1000, 0)
		g.Enter(now, k)
		g.Next(now)
		if c.blamed >= 0 {
			k.Needs[c.blamed].Said = pace.Some(refused)
		}
		g.Done(now, k, refused)
		if got := fmt.Sprint(heard[:2]); got != c.want || heard[2] != c.wantOnGate {
			t.Errorf("%s: scopes heard %s, the gate's limit %v; want %s and %v", c.name, got, heard[2], c.want, c.wantOnGate)
		}
	}
}

// hears notes the last verdict.
type hears struct{ verdict *pace.Verdict }

func (h hears) Wait(time.Time, pace.Request) time.Duration { return 0 }
func (h hears) Start(time.Time, pace.Request)              {}
func (h hears) Observe(_ time.Time, o pace.Outcome) time.Duration {
	*h.verdict = o.Verdict
	return 0
}

// Of refusals of calls that it did not pace a scope takes one, and one of those served until
// it has let another start.
func TestLearnTakesFewThatItDidNotPace(t *testing.T) {
	var heard pace.Verdict
	s := &pace.Scope{Control: hears{&heard}}
	now := time.Unix(1000, 0)
	var g pace.Gate
	for i := range 5 {
		now = now.Add(time.Second)
		if i == 3 {
			g.Enter(now, &pace.Ticket{Needs: []pace.Need{{Scope: s}}})
			g.Next(now)
			now = now.Add(time.Second)
		}
		for _, verdict := range []pace.Verdict{pace.Throttled, pace.Served} {
			want := pace.Ignored
			if i == 0 || i == 3 && verdict == pace.Served {
				want = verdict
			}
			g.Learn(now, pace.Need{Scope: s}, now, pace.Report{Verdict: verdict})
			if heard != want {
				t.Errorf("call %d that is %v is %v to the scope, want %v", i, verdict, heard, want)
			}
		}
	}
}

// What a scope let pass before it first refused is the least pace to begin with, also where the
// calls did not name it: not one call in all that time. As they were few, it may be more.
func TestLearnCountsWhatWasServedBefore(t *testing.T) {
	for name, h := range map[string]pace.Hints{
		"nothing":   {},
		"remaining": {Limit: pace.Some(int64(5000)), Remaining: pace.Some(int64(900)), Reset: pace.Some(time.Minute)},
	} {
		var g pace.Gate
		a := new(pace.Adaptive)
		s := &pace.Scope{Control: a}
		need, now := pace.Need{Scope: s}, time.Unix(1000, 0)
		for range 2000 {
			g.Learn(now, need, now.Add(-50*time.Millisecond), pace.Report{Verdict: pace.Served, Hints: h})
			now = now.Add(2 * time.Second)
		}
		g.Learn(now, need, now.Add(-50*time.Millisecond), pace.Report{Verdict: pace.Throttled, Hints: h})
		if rate := a.Learnt(now).Rate; rate < 0.4 || rate > 2 {
			t.Errorf("told %s, one every 2s was served for an hour, and one refused: paced at %.3g/s, want 0.4 to 2", name, rate)
		}
	}
}

// A retry comes under the scopes that the answer has told of.
func TestARetryTakesNewNeeds(t *testing.T) {
	bucket := &pace.Scope{Name: "bucket", Control: &pace.Fixed{Rate: 0.1}}
	g := pace.Gate{}
	now := time.Unix(1000, 0)
	k := &pace.Ticket{}
	g.Enter(now, k)
	g.Next(now)
	need := pace.Need{Scope: bucket}
	g.Learn(now, need, now, pace.Report{Verdict: pace.Throttled})
	k.Retry = []pace.Need{need}
	if !g.Done(now, k, pace.Report{Verdict: pace.Throttled}) {
		t.Fatal("a throttled call is not retried")
	}
	if k.Forecast != 10*time.Second || k.Blocker != bucket {
		t.Errorf("the retry waits %v for %v, want 10s for the bucket", k.Forecast, k.Blocker)
	}
	if got, again := g.Next(now); got != nil || again != 10*time.Second {
		t.Errorf("Next = %v, %v; want nobody for 10s", got, again)
	}
}

// A retry keeps its place in the line of its scope too.
func TestARetryIsFirstInItsScope(t *testing.T) {
	s := &pace.Scope{Control: &pace.Fixed{Rate: 1}}
	l := newLaned(t)
	l.gate.Control = nil
	k := &pace.Ticket{Needs: []pace.Need{{Scope: s}}, Deadline: l.now.Add(30 * time.Second)}
	l.gate.Enter(l.now, k)
	l.gate.Next(l.now)
	l.enterKey("", 100, pace.Need{Scope: s})
	if !l.gate.Done(l.now, k, pace.Report{Verdict: pace.Throttled}) || k.Forecast != time.Second {
		t.Errorf("the retry, before 100 others at 1/s: forecast %v, want it made in 1s", k.Forecast)
	}
}

// Who waits for a scope is not counted before those who do not need it.
func TestABlockedScopeIsNotForetoldToOthers(t *testing.T) {
	for _, lanes := range [][]float64{nil, {1, 1}} {
		s := &pace.Scope{Control: &pace.Fixed{Rate: 1e-4}}
		l := newLaned(t, lanes...)
		l.gate.Control = &pace.Fixed{Rate: 10}
		l.enterKey("", 1000, pace.Need{Scope: s})
		l.enterKey("x", 1000, pace.Need{Scope: s})
		l.gate.Next(l.now)
		k := &pace.Ticket{Lane: len(lanes) / 2, Deadline: l.now.Add(time.Second)}
		if forecast, ok := l.gate.Enter(l.now, k); !ok || forecast != 100*time.Millisecond {
			t.Errorf("lanes %v: forecast %v, accepted %v; want 100ms, as all others are blocked", lanes, forecast, ok)
		}
	}
}

// One that needs two scopes is not put off for ever by those that need one each.
func TestWhoNeedsTwoScopesIsNotStarved(t *testing.T) {
	a := &pace.Scope{Name: "a", Control: &pace.Fixed{Rate: 1}}
	b := &pace.Scope{Name: "b", Control: &pace.Fixed{Rate: 1}}
	l := newLaned(t)
	l.gate.Control = nil
	l.enterKey("", 2, pace.Need{Scope: a})
	l.next(1)
	l.now = l.now.Add(500 * time.Millisecond)
	l.enterKey("", 2, pace.Need{Scope: b})
	l.next(1)
	both := l.enterKey("", 1, pace.Need{Scope: a}, pace.Need{Scope: b})[0]
	others := 0
	for k := l.next(1)[0]; k != both; k = l.next(1)[0] {
		if others++; others > 10 {
			t.Fatalf("%d that came later went before it, want 2 or so", others)
		}
		l.enterKey("", 1, k.Needs...)
	}
}

// A refusal by a limit of which nothing is known is not answered by a retry at
// once, as nobody here paces it.
func TestARefusalElsewhereRests(t *testing.T) {
	g := pace.Gate{Control: new(pace.Adaptive)}
	now := time.Unix(1000, 0)
	k := new(pace.Ticket)
	g.Enter(now, k)
	g.Next(now)
	k.Elsewhere = true
	if !g.Done(now, k, pace.Report{Verdict: pace.Throttled}) || k.Elsewhere || k.Forecast != 100*time.Millisecond {
		t.Errorf("the retry is foreseen in %v, Elsewhere %v; want 100ms, and reset", k.Forecast, k.Elsewhere)
	}
}
