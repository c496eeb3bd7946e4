package pace

import (
	queue "container/heap"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// crowd plays callers of one Adaptive, whose calls take a time each, at a server
// with one limit.
type crowd struct {
	t      *testing.T
	l      limit.Limit
	told   string
	gate   *Gate
	a      *Adaptive
	now    time.Time
	events events
	woken  time.Time                // when Next is asked again
	state  limit.State              // of the server
	takes  func() time.Duration     // the next call
	down   func(now time.Time) bool // refuses all, and says nothing
	served int
	first  time.Time // served, since it was set to zero
}

type events []event

type event struct {
	at time.Time
	do func()
}

func (e events) Len() int           { return len(e) }
func (e events) Less(i, j int) bool { return e[i].at.Before(e[j].at) }
func (e events) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)        { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

func newCrowd(t *testing.T, spec, told string, callers int) *crowd {
	t.Helper()
	l, err := limit.Parse(spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &crowd{
		t: t, l: l, told: told, a: new(Adaptive), now: time.Unix(1_700_000_123, 0),
		takes: func() time.Duration { return 100 * time.Millisecond }, down: func(time.Time) bool { return false },
	}
	c.gate = &Gate{Control: c.a}
	for range callers {
		c.gate.Enter(c.now, new(Ticket))
	}
	c.start()
	return c
}

func (c *crowd) after(d time.Duration, do func()) { queue.Push(&c.events, event{c.now.Add(d), do}) }

// run plays for that long.
func (c *crowd) run(long time.Duration) {
	end := c.now.Add(long)
	for len(c.events) > 0 && !c.events[0].at.After(end) {
		e := queue.Pop(&c.events).(event)
		c.now = e.at
		e.do()
	}
	c.now = end
}

// start starts all that may.
func (c *crowd) start() {
	for {
		call, again := c.gate.Next(c.now)
		if call == nil {
			if at := c.now.Add(min(again, 100*time.Hour)); again != Never && (!c.woken.After(c.now) || at.Before(c.woken)) {
				c.woken = at
				c.after(again, c.start)
			}
			return
		}
		long := c.takes()
		c.after(long/2, func() { c.arrive(call, long/2) })
	}
}

// arrive takes a call at the server, which answers within that time.
func (c *crowd) arrive(call *Ticket, back time.Duration) {
	var d limit.Decision
	c.state, d = limit.Take(c.state, c.now, limit.Ask{Limit: c.l, N: 1})
	answer := tells(c.l, d, c.told)
	if c.down(c.now) {
		answer = Report{Verdict: Throttled}
	}
	c.after(back, func() {
		if answer.Verdict == Served {
			if c.served++; c.first.IsZero() {
				c.first = c.now
			}
		}
		if !c.gate.Done(c.now, call, answer) {
			c.gate.Enter(c.now, new(Ticket))
		}
		c.start()
	})
}

// TestLongCallsInAWindow: a call that takes hours has been counted by the server in
// a window long over, and leaves what the others find in theirs.
func TestLongCallsInAWindow(t *testing.T) {
	c := newCrowd(t, "20/m fixed-window", "re", 3)
	c.run(10 * time.Minute)
	held := 0
	c.takes = func() time.Duration {
		if held == 20 {
			return 100 * time.Millisecond
		}
		held++
		c.gate.Enter(c.now, new(Ticket))
		return 4 * time.Hour
	}
	c.run(10 * time.Minute)
	before := c.served
	if c.run(time.Hour); c.served-before < 1100 {
		t.Errorf("beside %d calls of 4 h %d are served in an hour, want 1200", held, c.served-before)
	}
}

// TestWindowAfterHours: the refusals of hours in a window, which others use too,
// slow down neither what comes after an outage nor a restart.
func TestWindowAfterHours(t *testing.T) {
	for _, told := range []string{"re", "rep"} {
		c := newCrowd(t, "20/m fixed-window", told, 1)
		begin := c.now
		other := begin
		c.down = func(now time.Time) bool {
			for ; other.Before(now); other = other.Add(6 * time.Second) {
				c.state, _ = limit.Take(c.state, other, limit.Ask{Limit: c.l, N: 1})
			}
			since := now.Sub(begin)
			return since > 3*time.Hour && since < 3*time.Hour+10*time.Minute
		}
		c.run(3 * time.Hour)
		if c.served < 1800 {
			t.Errorf("told %q: %d served in three hours beside others, want some 2000", told, c.served)
		}
		next := new(Adaptive)
		next.Restore(c.now, c.a.Learnt(c.now))
		next.Start(c.now, Request{Since: c.now})
		if wait := next.Wait(c.now, Request{Since: c.now}); wait > time.Minute {
			t.Errorf("told %q: after a restart the second call waits %v", told, wait)
		}
		c.run(10 * time.Minute)
		c.first = time.Time{}
		back := c.now
		if c.run(2 * time.Hour); c.first.IsZero() || c.first.Sub(back) > 3*time.Minute {
			t.Errorf("told %q: back %v after an outage of 10 minutes", told, c.first.Sub(back))
		}
	}
}

// TestWindowResetOnce: a server that once forgets what it has counted is still one of
// fixed windows.
func TestWindowResetOnce(t *testing.T) {
	for _, spec := range []string{"20/m fixed-window", "600/h fixed-window"} {
		c := newCrowd(t, spec, "re", 5)
		c.run(97*time.Minute + 30*time.Second)
		c.state = limit.State{}
		if c.run(20 * time.Hour); !c.a.level.window {
			t.Errorf("%s: hours after it has begun at zero again the window is not recognised", spec)
		}
	}
}

// TestOneCutARefusal: a refusal under a level cuts by L, once.
func TestOneCutARefusal(t *testing.T) {
	c := newCrowd(t, "60/m", "r", 1)
	c.run(5 * time.Minute)
	a := c.a
	if !a.level.on || a.level.window || a.level.served < 20 {
		t.Fatalf("the level is on: %t, a window: %t, %v served since the last refusal", a.level.on, a.level.window, a.level.served)
	}
	a.accepted, a.trust = 1000, mostTrust
	s := c.now.Sub(a.epoch).Seconds()
	a.rowAt, a.resumedAt, a.idle = s-1000/a.level.theta, s-1000/a.level.theta, 0 // as fast as theta
	before := a.level.theta
	a.level.grownAt = s
	a.level.learn(a, s, s, &Outcome{Report: Report{Verdict: Throttled}})
	if cut := before / a.level.theta; cut < 1.05 || cut > 1.09 {
		t.Errorf("a refusal divides the rate by %.3f, want e^0.07", cut)
	}
}

// TestWindowIsNoGrowth: the time in a fixed window, where theta does not grow, does not
// count when the window is found to be none.
func TestWindowIsNoGrowth(t *testing.T) {
	c := newCrowd(t, "60/m", "r", 1)
	c.run(5 * time.Minute)
	a := c.a
	if !a.level.on || a.level.window {
		t.Fatalf("the level is on: %t, a window: %t", a.level.on, a.level.window)
	}
	s := c.now.Sub(a.epoch).Seconds()
	served := Outcome{Report: Report{Verdict: Served}}
	a.level.learn(a, s, s, &served)
	before := a.level.theta
	a.level.window = true
	a.level.learn(a, s+3600, s+3600, &served)
	a.level.window = false
	a.level.learn(a, s+3600.1, s+3600.1, &served)
	if grown := a.level.theta / before; grown > 1.01 {
		t.Errorf("an hour in a window multiplies the rate by %.3f, want nothing", grown)
	}
}

// TestWindowKnown: a window is known for one while much of it is used, though all of it
// is used up within three seconds, and however long answers take; where only refusals
// name its end, from the next one on. A bucket is never taken for one, nor two counters.
func TestWindowKnown(t *testing.T) {
	for _, test := range []struct {
		spec, told string
		callers    int
		takes      time.Duration
		after      time.Duration // the first of them
		window     bool
	}{
		{"300/m fixed-window", "re", 40, 50 * time.Millisecond, 2 * time.Second, true},
		{"300/m fixed-window", "rep", 40, 50 * time.Millisecond, 2 * time.Second, true},
		{"600/10m fixed-window", "re", 40, 9 * time.Second, time.Minute, true},
		{"300/m fixed-window", "ra", 40, 50 * time.Millisecond, 90 * time.Second, true},
		{"300/m fixed-window", "rap", 40, 50 * time.Millisecond, 90 * time.Second, true},
		{"300/m", "ra", 40, 50 * time.Millisecond, 2 * time.Second, false},
		{"300/m", "re", 40, 50 * time.Millisecond, 2 * time.Second, false},
		{"300/m", "rea", 40, 9 * time.Second, time.Minute, false},
		{"60/h", "ra", 10, 50 * time.Millisecond, time.Minute, false},
		{"60/h", "rap", 10, 50 * time.Millisecond, time.Minute, false},
		{"60/h", "re", 10, 50 * time.Millisecond, time.Minute, false},
		{"300/m sliding-window", "rep", 40, 50 * time.Millisecond, time.Minute, false},
	} {
		c := newCrowd(t, test.spec, test.told, test.callers)
		n := 0
		c.takes = func() time.Duration { // within a fifth of each other
			n++
			return test.takes + test.takes*time.Duration(n%5-2)/10
		}
		c.run(test.after)
		wrong := 0
		for range 100 {
			if c.run(test.after / 3); c.a.level.window != test.window {
				wrong++
			}
		}
		if wrong > 0 {
			t.Errorf("%s told %q: taken for a window: %t, %d times of 100", test.spec, test.told, !test.window, wrong)
		}
	}
}

// TestWindowAlone: a caller that has a window to itself spends it as calls come; beside
// others, and without Burst, it spreads what is left over the time left.
func TestWindowAlone(t *testing.T) {
	for _, test := range []struct {
		others, least, most int
	}{{0, 95, 100}, {1, 5, 60}} {
		c := newCrowd(t, "100/m fixed-window", "re", 5)
		takes := 0
		c.takes = func() time.Duration { // others use as many as this caller does
			for range test.others {
				takes++
				c.state, _ = limit.Take(c.state, c.now, limit.Ask{Limit: c.l, N: 1})
			}
			return 100 * time.Millisecond
		}
		c.run(10 * time.Minute) // until the 23rd second of a minute
		if !c.a.level.window {
			t.Fatalf("beside %d others the window is not known", test.others)
		}
		c.run(37 * time.Second)
		before := c.served
		if c.run(15 * time.Second); c.served-before < test.least || c.served-before > test.most {
			t.Errorf("beside %d others, %d are served in the first 15 s of a window, want %d to %d", test.others, c.served-before, test.least, test.most)
		}
	}
}

// TestOthersNoticed: others use the limit for as long as is remembered after what remains fell by
// more than the client took from one answer to the next, where each was to its only request.
func TestOthersNoticed(t *testing.T) {
	type answer struct {
		r, took float64
		flying  int
		sole    bool
	}
	sole := func(r, took float64) answer { return answer{r, took, 1, true} }
	beside := func(r, took float64) answer { return answer{r, took, 2, false} }
	for _, c := range []struct {
		name    string
		answers []answer
		others  bool
	}{
		{"what it took", []answer{sole(9, 1), sole(8, 1), sole(7, 1)}, false},
		{"one more", []answer{sole(9, 1), sole(8, 1), sole(6, 1)}, true},
		{"a dear request", []answer{sole(9, 1), sole(4, 5)}, false},
		{"more came back", []answer{sole(2, 1), sole(9, 1)}, false},
		{"after one beside others of its own", []answer{sole(9, 1), beside(7, 1), sole(5, 1)}, false},
		{"beside others of its own", []answer{sole(9, 1), beside(6, 1)}, false},
	} {
		var d divided
		for _, a := range c.answers {
			d.divide(0, 0, a.r, a.took, a.flying, a.sole)
		}
		if got := d.othersFor > 0; got != c.others {
			t.Errorf("%s: others noticed %t, want %t", c.name, got, c.others)
		}
		for range othersKept {
			d.divide(0, 0, 9, 1, 1, false)
		}
		if d.othersFor > 0 {
			t.Errorf("%s: still noticed %d answers later", c.name, othersKept)
		}
	}
}

// TestOthersNoticedBesideFailures: what failed may have been charged, and others are not to blame.
func TestOthersNoticedBesideFailures(t *testing.T) {
	p := &play{t: t, a: new(Adaptive)}
	told := func(remaining int64) { p.call(Served, Hints{Remaining: Some(remaining)}, 0) }
	told(99)
	told(98)
	p.call(Failed, Hints{}, 0)
	if told(96); p.a.level.othersFor > 0 {
		t.Error("others are noticed where a request of its own failed")
	}
	if told(94); p.a.level.othersFor <= 0 {
		t.Error("others are not noticed")
	}
}

// A bucket is small once enough answers saw no more: a large one looks the same for a while.
func TestSmallBucketKnown(t *testing.T) {
	for _, c := range []struct {
		most   float64 // that remained
		stated float64 // that remains of a full one; 0: not stated
		after  int     // answers, after which it is taken for small; 0: never
	}{{0, 0, 4}, {1, 0, 16}, {2, 0, 64}, {3, 0, 0}, {4, 0, 0}, {1, 1, 4}, {3, 3, 4}, {1, 365, 100}, {2, 365, 100}, {3, 365, 0}} {
		b, after := buckets{full: c.stated, most: c.most}, 0
		for n := 1; n <= 1000 && after == 0; n++ {
			b.top(c.most*float64(n%2), true)
			if b.small() {
				after = n
			}
		}
		if after != c.after {
			t.Errorf("%v at most, %v stated: small after %d answers, want %d", c.most, c.stated, after, c.after)
		}
		if b.top(c.most+4, true); b.small() {
			t.Errorf("%v at most, %v stated: small after more was seen", c.most, c.stated)
		}
	}
}

// A level that stands below what is stated is that of a full bucket, unless others use it.
func TestStatedBucketDisbelieved(t *testing.T) {
	for _, c := range []struct{ tops, others, want int }{{3, 0, 365}, {4, 0, 1}, {4, -3, 1}, {4, 1, 365}} {
		l := level{buckets: buckets{most: 1, full: 365, topsInRow: c.tops}, divided: divided{othersFor: c.others}}
		if got := l.fullLevel(); got != float64(c.want) {
			t.Errorf("most seen %d times in a row, others for %d answers: full at %v, want %d", c.tops, c.others, got, c.want)
		}
	}
}
