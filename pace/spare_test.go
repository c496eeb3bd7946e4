package pace

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/throttle-go/throttle/load"
)

var timeOut = Report{TimedOut: true}

// taught is a gate of so many in flight that has seen the calls end: as many answers
// as given, after took, and then time-outs of calls that had so long. It returns when
// it has.
func taught(t *testing.T, most, answers int, took time.Duration, timeOuts ...time.Duration) (*Gate, time.Duration) {
	t.Helper()
	g := &Gate{MaxInFlight: most}
	return g, teach(t, g, 0, answers, took, timeOuts...)
}

func teach(t *testing.T, g *Gate, now time.Duration, answers int, took time.Duration, timeOuts ...time.Duration) time.Duration {
	t.Helper()
	one := func(d time.Duration, r Report) {
		k := enter(t, g, now, "taught")
		wantNames(t, g, now, "taught")
		now += d
		g.Done(at(now), k, r)
	}
	for range answers {
		one(took, Report{Verdict: Served})
	}
	for _, d := range timeOuts {
		one(d, timeOut)
	}
	return now
}

// hurried puts a ticket in line whose caller waits for so long.
func hurried(t *testing.T, g *Gate, after time.Duration, name string, long time.Duration) *Ticket {
	t.Helper()
	k := &Ticket{Owner: name, End: at(after + long)}
	if _, ok := g.Enter(at(after), k); !ok {
		t.Fatalf("Enter(%s) at %v refused", name, after)
	}
	return k
}

// given are the tickets that are given up now.
func given(g *Gate) (got []string) {
	for t := g.GivenUp(); t != nil; t = g.GivenUp() {
		got = append(got, t.Owner.(string))
	}
	return got
}

// many is so many times d.
func many(n int, d time.Duration) []time.Duration { return slices.Repeat([]time.Duration{d}, n) }

// Where answers take 100 ms and calls with 50 ms left have timed out, one with 50
// ms left is passed over for one that has more, and is given up once no more can
// start.
func TestPressedIsPassedOver(t *testing.T) {
	g, now := taught(t, 1, 16, 100*ms, many(20, 50*ms)...)
	busy := enter(t, g, now, "busy")
	wantNames(t, g, now, "busy")
	hurried(t, g, now, "old", 200*ms)
	hurried(t, g, now, "older", 210*ms)
	enter(t, g, now, "patient")
	now += 160 * ms
	hurried(t, g, now, "new", 200*ms)
	if got := given(g); got != nil {
		t.Errorf("given up while nothing could start: %v", got)
	}
	g.Done(at(now), busy, Report{Verdict: Served})
	wantNames(t, g, now, "patient")
	if got, want := given(g), []string{"old", "older"}; !slices.Equal(got, want) {
		t.Errorf("given up: %v, want %v", got, want)
	}
	if g.Waiting() != 1 || g.InFlight() != 1 {
		t.Errorf("%d wait, %d in flight; want new and patient", g.Waiting(), g.InFlight())
	}
}

// No capacity is left idle: where there is room for all, all start, and where none
// has more time than the others, they start in their turns.
func TestPressedStartsWithoutAnother(t *testing.T) {
	g, now := taught(t, 1, 16, 100*ms, many(20, 50*ms)...)
	busy := enter(t, g, now, "busy")
	wantNames(t, g, now, "busy")
	for _, name := range []string{"a", "b"} {
		hurried(t, g, now, name, 200*ms)
	}
	now += 180 * ms
	g.Done(at(now), busy, Report{Verdict: Served})
	wantNames(t, g, now, "a")
	if got := given(g); got != nil {
		t.Errorf("given up, though none has more time: %v", got)
	}
	enter(t, g, now, "patient")
	g.MaxInFlight = 3
	wantNames(t, g, now, "patient", "b")
	if got := given(g); got != nil {
		t.Errorf("given up, though there was room for all: %v", got)
	}
}

// Until 16 calls have ended, and while none has timed out, all are first come,
// first served; so are calls in the first eighth of their time, those without an
// End, and those that time out by themselves, with answers sooner.
func TestNotPressed(t *testing.T) {
	for _, c := range []struct {
		name     string
		answers  int
		took     time.Duration
		timeOuts []time.Duration
		waited   time.Duration
		left     time.Duration // zero: no End
	}{
		{"too few ends", 5, 100 * ms, many(10, 50*ms), 300 * ms, 10 * ms},
		{"no time-outs", 40, 100 * ms, nil, 300 * ms, 10 * ms},
		{"one slow answer", 1, 1600 * ms, nil, time.Second, 100 * ms},
		{"first eighth", 16, 100 * ms, many(20, 50*ms), ms, 8 * ms},
		{"no End", 16, 100 * ms, many(20, 50*ms), 300 * ms, 0},
		{"a lost answer", 100, 10 * ms, many(1, time.Second), 300 * ms, 5 * ms},
		{"callers who wait for next to nothing", 16, 10 * ms, many(100, ms), 300 * ms, 2 * ms},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, now := taught(t, 1, c.answers, c.took, c.timeOuts...)
			busy := enter(t, g, now, "busy")
			wantNames(t, g, now, "busy")
			if c.left == 0 {
				enter(t, g, now, "old")
			} else {
				hurried(t, g, now, "old", c.waited+c.left)
			}
			enter(t, g, now, "patient")
			now += c.waited
			g.Done(at(now), busy, Report{})
			wantNames(t, g, now, "old")
			if got := given(g); got != nil {
				t.Errorf("given up: %v, want none", got)
			}
		})
	}
}

// What was learnt of a slow server is unlearnt: after time-outs of calls that had a
// second, fifty quick answers are enough for a call with 50 ms left.
func TestSpareRecovers(t *testing.T) {
	g, now := taught(t, 1, 16, 10*ms, many(200, time.Second)...)
	if got := g.spare.known(); got < time.Second || got > 1100*ms {
		t.Errorf("after calls with a second timed out, %v are needed; want a second or a tenth more", got)
	}
	teach(t, g, now, 60, 10*ms)
	if got := g.spare.known(); got > 50*ms {
		t.Errorf("after 60 answers within 10 ms %v are needed, want 50 ms at most", got)
	}
	if teach(t, g, now, 600, 10*ms); g.spare.known() > 10*ms {
		t.Errorf("after 660 answers within 10 ms %v are needed, want 10 ms at most", g.spare.known())
	}
}

// Of calls whose answers take 100 ms to 200 ms, those that just have what is needed
// time out in one of twenty.
func TestSpareIsWhatIsNeeded(t *testing.T) {
	g := new(Gate)
	out := 0
	for i := range 4000 {
		took := 100*ms + time.Duration(luckOf(1, uint64(i), 0).Unit(0)*float64(100*ms))
		left := max(g.spare.known(), 100*ms)
		if took > left {
			out++
			g.spare.learn(left, 1, &timeOut)
			continue
		}
		g.spare.learn(took, 1, &Report{Verdict: Served})
	}
	if out < 120 || out > 300 {
		t.Errorf("%d of 4000 timed out, want about 200", out)
	}
}

// An answer within no time, by a coarse clock, teaches nothing; neither does what
// was cancelled or refused.
func TestSpareIgnores(t *testing.T) {
	g, _ := taught(t, 1, 16, 10*ms, many(8, 10*ms)...)
	before := g.spare
	for _, c := range []struct {
		took time.Duration
		r    Report
	}{{0, Report{Verdict: Served}}, {-ms, timeOut}, {0, timeOut}, {ms, Report{}}, {ms, Report{Verdict: Throttled}}, {ms, Report{Verdict: Failed}}} {
		if g.spare.learn(c.took, 1, &c.r); g.spare != before {
			t.Errorf("%+v after %v: %+v became %+v", c.r, c.took, before, g.spare)
		}
	}
}

// A time-out at a caller's own deadline lowers a concurrency limit where answers
// come sooner as a rule, and not where the caller waited for next to nothing.
func TestTimeOutTeachesTheLaw(t *testing.T) {
	for _, law := range []func() load.Law{
		func() load.Law { return new(load.AIMD) },
		func() load.Law { return new(load.Adaptive) },
		func() load.Law { return new(load.Vegas) },
	} {
		for _, c := range []struct {
			answers  int
			timeOuts time.Duration
			lower    bool
		}{{30, 100 * ms, true}, {30, ms, false}, {0, ms, false}} {
			g := &Gate{Concurrency: law()}
			now := teach(t, g, 0, c.answers, 10*ms)
			before := g.Limit()
			teach(t, g, now, 0, 0, many(40, c.timeOuts)...)
			name := fmt.Sprintf("%T: 40 time-outs after %v behind %d answers within 10 ms", g.Concurrency, c.timeOuts, c.answers)
			if got := g.Limit(); (got < before) != c.lower {
				t.Errorf("%s: limit %d, was %d; want lower: %v", name, got, before, c.lower)
			}
		}
	}
}

// Tickets that were given up take no place of those that MaxWaiting bounds.
func TestPressedTakesNoPlace(t *testing.T) {
	g, now := taught(t, 1, 16, 100*ms, many(20, 50*ms)...)
	g.MaxWaiting = 10
	busy := enter(t, g, now, "busy")
	wantNames(t, g, now, "busy")
	for range 9 {
		hurried(t, g, now, "old", 200*ms)
	}
	enter(t, g, now, "patient")
	now += 180 * ms
	g.Done(at(now), busy, Report{})
	wantNames(t, g, now, "patient")
	given(g)
	for range 10 {
		enter(t, g, now, "next")
	}
}

// The oldest of those in line for which a condition holds is found whatever else is
// in line.
func TestHeapOldest(t *testing.T) {
	for seed := range uint64(200) {
		var h heap
		chance := func(i int, n uint64) uint64 { return uint64(luckOf(seed, uint64(i), 0)) % n }
		n := int(chance(-1, 40))
		ok := func(t *Ticket) bool { return t.Cost == 0 }
		var want *Ticket
		for i := range n {
			k := &Ticket{arrival: chance(i, 1e6), Cost: int64(chance(-i-2, 4))}
			h.push(k)
			if ok(k) && (want == nil || k.arrival < want.arrival) {
				want = k
			}
		}
		if got := h.oldest(0, ok); got != want {
			t.Fatalf("seed %d, %d in line: oldest is %+v, want %+v", seed, n, got, want)
		}
	}
}

// While none in line has the time, and none comes, they are not looked at again: in
// a long line each start would take a millisecond.
func TestPressedLookOnce(t *testing.T) {
	g, now := taught(t, 1, 16, 100*ms, many(20, 50*ms)...)
	busy := enter(t, g, now, "busy")
	wantNames(t, g, now, "busy")
	for range 1000 {
		hurried(t, g, now, "old", 200*ms)
	}
	now += 180 * ms
	g.Done(at(now), busy, Report{})
	for range 10 {
		k, _ := g.Next(at(now))
		if k == nil || g.searched.pushes != g.lanes.pushes {
			t.Fatalf("Next = %v, looked %+v, want one that was looked past", k, g.searched)
		}
		g.Done(at(now), k, Report{})
	}
	enter(t, g, now, "patient")
	if wantNames(t, g, now, "patient"); len(given(g)) != 990 {
		t.Errorf("%d wait, want none of those with too little time", g.Waiting())
	}
}

// Once less is needed, they are looked at again: one may have the time by now.
func TestPressedLookAgain(t *testing.T) {
	g, now := taught(t, 1, 16, 100*ms, many(20, 90*ms)...)
	busy := enter(t, g, now, "busy")
	wantNames(t, g, now, "busy")
	for _, long := range []time.Duration{200 * ms, 205 * ms, 210 * ms, 245 * ms} {
		hurried(t, g, now, long.String(), long)
	}
	now += 180 * ms
	g.Done(at(now), busy, Report{})
	first, _ := g.Next(at(now)) // none has as much as is needed
	g.spare.need /= 2
	g.Done(at(now), first, Report{})
	wantNames(t, g, now, "245ms")
}

// A ticket is passed over only for another that may start: one that costs more than
// there is left may not.
func TestPressedIsNotPassedOverForADearOne(t *testing.T) {
	g, now := taught(t, 1, 16, 100*ms, many(20, 50*ms)...)
	credit := &Credit{}
	g.Control = credit
	hurried(t, g, now, "cheap", 200*ms)
	if _, ok := g.Enter(at(now), &Ticket{Owner: "dear", Cost: 3}); !ok {
		t.Fatal("Enter(dear) refused")
	}
	now += 160 * ms
	credit.Add(at(now), 1)
	wantNames(t, g, now, "cheap")
	if got := given(g); got != nil || g.Waiting() != 1 {
		t.Errorf("given up: %v, %d wait; want none and dear", got, g.Waiting())
	}
}
