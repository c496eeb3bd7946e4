package limit

import (
	"math"
	"slices"
	"testing"
	"time"
)

func TestLog(t *testing.T) {
	const s = time.Second
	of := func(count int64, period time.Duration, rows ...row) {
		t.Helper()
		var log Log
		for i, r := range rows {
			r.ask.Limit = Limit{Kind: SlidingLog, Count: count, Period: period}
			d := log.Take(t0.Add(r.at), r.ask)
			if got := wantOf(d); got != r.want {
				t.Errorf("%d per %v, row %d: Take(t0+%v, %+v)\n got %+v\nwant %+v", count, period, i, r.at, r.ask, got, r.want)
			}
			if d.Max != count || !d.At.Equal(t0.Add(r.at)) {
				t.Errorf("row %d: Most %d at %v, want %d at %v", i, d.Max, d.At, count, t0.Add(r.at))
			}
		}
	}
	of(
		3, 10*s,
		row{0, n(0), want{true, 0, 3, 0, 0}},
		row{0, n(1), want{true, 1, 2, 0, 10 * s}},
		row{4 * s, n(2), want{true, 2, 0, 0, 10 * s}},
		row{5 * s, n(0), want{true, 0, 0, 0, 9 * s}},
		row{5 * s, n(1), want{false, 0, 0, 5 * s, 9 * s}},
		row{5 * s, n(2), want{false, 0, 0, 9 * s, 9 * s}},
		row{5 * s, n(3), want{false, 0, 0, 9 * s, 9 * s}},
		row{5 * s, n(4), want{false, 0, 0, Never, 9 * s}},
		row{10*s - us, n(1), want{false, 0, 0, us, 4*s + us}},
		row{10 * s, part(1, 3), want{true, 1, 0, 0, 10 * s}},
		row{14*s - us, part(2, 3), want{false, 0, 0, us, 6*s + us}},
		row{14 * s, part(3, 3), want{false, 0, 2, 6 * s, 6 * s}},
		row{14 * s, n(-5), want{true, -1, 3, 0, 0}},
		row{20 * s, n(3), want{true, 3, 0, 0, 10 * s}},
		row{time.Hour, n(0), want{true, 0, 3, 0, 0}},
	)
	of( // what is owed is paid as it leaves the window, and bounded
		3, s,
		row{0, debt(2), want{true, 2, 1, 0, s}},
		row{ms, debt(math.MaxInt64), want{true, 4, 0, 0, s}},
		row{ms, debt(1), want{true, 0, 0, 0, s}},
		row{ms, n(0), want{false, 0, 0, s, s}},
		row{s, n(0), want{false, 0, 0, ms, ms}},
		row{s + ms, n(3), want{true, 3, 0, 0, s}},
	)
	of(
		0, s,
		row{0, n(0), want{false, 0, 0, Never, 0}},
		row{0, n(1), want{false, 0, 0, Never, 0}},
		row{0, debt(1), want{true, 1, 0, 0, 0}},
	)
	of(math.MaxInt64, 0, row{0, n(7), want{true, 7, math.MaxInt64, 0, 0}})
}

// Where a fixed window lets twice its count pass around an edge, the log does
// not, and lets the next pass as soon as it may.
func TestLogHasNoEdge(t *testing.T) {
	l := Limit{Count: 5, Period: time.Minute}
	var log Log
	for i, at := range []time.Duration{-5, -4, -3, -2, -1, 0, 1, 2} {
		if d := log.Take(t0.Add(at*time.Second), Ask{Limit: l, N: 1}); d.OK != (i < 5) {
			t.Errorf("request %d, %v s after the edge: %+v", i, int64(at), d)
		}
	}
	for i := range 5 {
		at := t0.Add(time.Duration(55+i) * time.Second)
		if d := log.Take(at, Ask{Limit: l, N: 1}); !d.OK || d.Remaining != 0 {
			t.Errorf("%v: %+v; want the one that just left the window", at.Sub(t0), d)
		}
	}
}

func TestLogClock(t *testing.T) {
	l := Limit{Count: 10, Period: time.Minute}
	for _, back := range []time.Duration{us, time.Second, 2 * time.Minute, day, 200 * 365 * day} {
		var log Log
		for i := range 10 {
			log.Take(t0.Add(time.Duration(i)*time.Second), Ask{Limit: l, N: 1})
		}
		last := t0.Add(9 * time.Second)
		now := last.Add(-back)
		d := log.Take(now, Ask{Limit: l, N: 10})
		if bound := time.Minute + time.Second; d.OK || d.Remaining != 0 || d.RetryAfter > bound {
			t.Errorf("set back by %v: %+v; want a refusal for at most %v", back, d, bound)
		}
		if early := log.Take(now.Add(d.RetryAfter-us), Ask{Limit: l, N: 10}); early.OK {
			t.Errorf("set back by %v: passed earlier than after %v", back, d.RetryAfter)
		}
		if late := log.Take(now.Add(d.RetryAfter), Ask{Limit: l, N: 10}); !late.OK {
			t.Errorf("set back by %v: refused after %v: %+v", back, d.RetryAfter, late)
		}
	}
}

// One who was overtaken must not find what only the later one saw leave.
func TestLogOvertaken(t *testing.T) {
	l := Limit{Count: 2, Period: time.Second}
	var log Log
	log.Take(t0, Ask{Limit: l, N: 1})
	log.Take(t0.Add(time.Second), Ask{Limit: l, N: 1})
	for i, c := range []struct {
		at time.Duration
		ok bool
	}{{900 * ms, true}, {950 * ms, false}, {time.Second, false}, {2*time.Second - us, false}, {2 * time.Second, true}} {
		if d := log.Take(t0.Add(c.at), Ask{Limit: l, N: 1}); d.OK != c.ok {
			t.Errorf("request %d at %v: %+v, want OK %t", i, c.at, d, c.ok)
		}
	}
}

func TestLogIsBounded(t *testing.T) {
	var log Log
	l := Limit{Kind: SlidingLog, Count: math.MaxInt64, Period: time.Hour}
	if d := log.Take(t0, Ask{Limit: l, N: MaxLog + 1}); d.OK || d.Max != MaxLog || d.RetryAfter != Never || l.Max() != MaxLog {
		t.Errorf("%+v: %+v, want a refusal of more than %d", l, d, MaxLog)
	}
	l.Count = 100
	for i := range 10_000 {
		log.Take(t0.Add(time.Duration(i)*37*time.Second), Ask{Limit: l, N: 1})
		log.Take(t0.Add(time.Duration(i)*37*time.Second), Ask{Limit: l, N: 1000, Debt: i%50 == 0})
	}
	if len(log.ring) > 256 {
		t.Errorf("a log of %d keeps %d entries", l.Count, len(log.ring))
	}
	ask := Ask{Limit: l, N: 1}
	now := t0.Add(10_000 * 37 * time.Second)
	if n := testing.AllocsPerRun(1000, func() { now = now.Add(40 * time.Second); log.Take(now, ask) }); n != 0 {
		t.Errorf("Take allocates %v times", n)
	}
}

// One instant is one entry, however many are taken at it.
func TestLogMergesAnInstant(t *testing.T) {
	var log Log
	for range 1000 {
		log.Take(t0, Ask{Limit: Limit{Count: 1000, Period: time.Hour}, N: 1})
	}
	if log.total() != 1000 || len(log.ring) != 8 {
		t.Errorf("%d taken at one instant make a ring of %d, want 1000 and the least, 8", log.total(), len(log.ring))
	}
}

// A long life beside the naive one: the ring goes round and grows.
func TestLogLongLife(t *testing.T) {
	var log Log
	var naive naiveLog
	now, x := t0.UnixMicro(), uint64(1)
	for i := range 5000 {
		x = x*6364136223846793005 + 1442695040888963407 // as Knuth's MMIX
		count := int64(5 + i/100)
		now += int64(x>>60) * 100_000 / count
		a := Ask{Limit: Limit{Count: count, Period: time.Second}, N: int64(x >> 40 % 4)}
		checkLog(t, &log, &naive, now, a, i)
	}
}

// What was taken counts under another limit too.
func TestLogChange(t *testing.T) {
	var log Log
	take := func(at time.Duration, count int64, period time.Duration, n int64) Decision {
		return log.Take(t0.Add(at), Ask{Limit: Limit{Count: count, Period: period}, N: n})
	}
	take(0, 10, time.Minute, 8)
	if d := take(time.Second, 4, time.Minute, 0); d.OK || d.Remaining != 0 || d.RetryAfter != 59*time.Second {
		t.Errorf("lowered to 4: %+v; want 4 owed for 59 s", d)
	}
	if d := take(time.Second, 4, time.Minute, 1); d.OK {
		t.Errorf("lowered to 4: %+v; want a refusal", d)
	}
	if d := log.Take(t0.Add(time.Second), Ask{Limit: Limit{Count: 3, Period: time.Minute}, N: 5, Debt: true}); !d.OK || log.total() != 8 {
		t.Errorf("lowered to 3: %+v, %d taken; want no more charged than twice the count", d, log.total())
	}
	if d := take(2*time.Second, 10, 2*time.Second, 10); !d.OK {
		t.Errorf("shortened to 2 s: %+v; want all to have left", d)
	}
}

// A pure Take cannot keep a log or slots: it says so, instead of refusing for
// ever. A limit of nothing needs no log.
func TestTakePanicsForALog(t *testing.T) {
	for _, kind := range []Kind{SlidingLog, SlidingSlots} {
		l := Limit{Kind: kind, Count: 10, Period: time.Minute}
		for name, ask := range map[string]func(){
			"Take":    func() { Take(State{}, t0, Ask{Limit: l, N: 1}) },
			"a peek":  func() { Take(State{}, t0, Ask{Limit: l}) },
			"TakeAll": func() { TakeAll(make([]State, 1), t0, []Ask{{Limit: l, N: 1}}, make([]Decision, 1)) },
		} {
			func() {
				defer func() {
					want := "limit: Take of a " + kind.String() + ": it needs more than a State; use limit.Log or limit.Slots, or a Store"
					if got := recover(); got != want {
						t.Errorf("%s panics with %v, want %s", name, got, want)
					}
				}()
				ask()
			}()
		}
		l.Count = 0
		if _, d := Take(State{}, t0, Ask{Limit: l, N: 1}); d.OK || d.RetryAfter != Never {
			t.Errorf("%v: %+v, want a refusal", l, d)
		}
	}
	l := Limit{Kind: SlidingLog, Count: 10, Period: time.Minute}
	old := State{T: t0.Add(time.Second).UnixMicro(), N: 1}
	if s := Change(old, t0, Limit{Count: 1, Period: time.Second}, l); s != old {
		t.Errorf("Change into %+v = %+v, want %+v", l, s, old)
	}
}

// naiveLog is what Log must do, without cleverness.
type naiveLog struct {
	events []event
	moved  bool // an event, by the clock going back
}

func (l *naiveLog) time(now int64) int64 {
	t := now
	for i, e := range l.events {
		l.events[i].at = min(e.at, now+skew)
		l.moved = l.moved || e.at > now+skew
		t = max(t, l.events[i].at)
	}
	return t
}

func (l *naiveLog) used(t, period int64) (used int64) {
	for _, e := range l.events {
		if e.at+period > t {
			used += e.n
		}
	}
	return used
}

// take answers with the amount granted and what then remains.
func (l *naiveLog) take(now, count, period, n, low int64, owe bool) (granted int64, ok bool, remaining int64) {
	t := l.time(now)
	used := l.used(t, period)
	left := max(count-used, 0)
	switch {
	case n == 0:
		return 0, used <= count, left
	case owe || n <= left:
		granted = n
	case low > 0 && min(low, n) <= left:
		granted = left
	default:
		return 0, false, left
	}
	charged := min(granted, max(2*count-used, 0))
	l.events = slices.DeleteFunc(l.events, func(e event) bool { return e.at+period <= t })
	l.events = append(l.events, event{t, charged})
	return charged, true, max(count-used-charged, 0)
}

// FuzzLog plays a script, forth and back in time, to a Log and to the naive
// one, and sees that no window admits more than Count.
func FuzzLog(f *testing.F) {
	f.Add(int64(10), int64(1_000_000), []byte("each byte is a step or a question, and some of both"))
	f.Add(int64(3), int64(60_000_000), []byte{7, 215, 7, 255, 1, 1, 1, 199, 1, 1, 1, 1})
	f.Add(int64(1), int64(1), []byte{1, 200, 1, 1, 1, 201, 1, 1, 250, 1, 1, 202, 1, 1})
	f.Add(int64(100), int64(5_000), []byte{181, 1, 252, 1, 201, 9, 254, 100, 220, 30, 31, 185, 33, 249, 3, 3})
	f.Fuzz(func(t *testing.T, count, period int64, script []byte) {
		if count <= 0 || count > MaxLog || period <= 0 || period > 1e15 || len(script) > 300 {
			return
		}
		var log Log
		var naive naiveLog
		now, owed := t0.UnixMicro(), false
		var all []event
		for i, b := range script {
			switch {
			case b >= 253: // far back
				now -= int64(b-252) * (period + skew/2)
			case b >= 245: // back a little
				now -= int64(b-244) * max(period/32, 1)
			case b >= 190:
				now += int64(b-189) * max(period/16, 1)
			default:
				a := Ask{Limit: Limit{Count: count, Period: time.Duration(period) * us}, N: int64(b%8) * int64(b%8) * count / 48}
				a.N, a.Min, a.Debt = max(a.N, int64(b%3)), int64(b/8%4), b >= 180
				owed = owed || a.Debt
				if checkLog(t, &log, &naive, now, a, i) {
					all = append(all, naive.events[len(naive.events)-1])
				}
			}
		}
		for i, e := range all {
			sum := int64(0)
			for _, f := range all[i:] {
				if f.at < e.at+period {
					sum += f.n
				}
			}
			if sum > count && !owed && !naive.moved {
				t.Fatalf("%d per %d us: %d in the window from %d: %v", count, period, sum, e.at, all)
			}
		}
	})
}

// checkLog asks both and reports whether something was granted.
func checkLog(t *testing.T, log *Log, naive *naiveLog, now int64, a Ask, i int) bool {
	t.Helper()
	count, period := a.Limit.Count, a.Limit.micros()
	d := log.Take(time.UnixMicro(now), a)
	granted, ok, remaining := naive.take(now, count, period, a.N, a.Min, a.Debt)
	fail := func(what string) {
		t.Helper()
		t.Fatalf("step %d: Take(%d, %+v) = %+v, %s; naive grants %d, %t, remaining %d; %v", i, now, a, d, what, granted, ok, remaining, naive.events)
	}
	if d.N != granted || d.OK != ok || d.Remaining != remaining || ok != (d.RetryAfter == 0) {
		fail("which is not what the naive log says")
	}
	if used := naive.used(naive.time(now), period); used > 0 != (d.ResetAfter > 0) {
		fail("ResetAfter is wrong")
	}
	if reset := int64(d.ResetAfter / us); reset > 0 && (naive.used(now+reset, period) != 0 || naive.used(now+reset-1, period) == 0) {
		fail("ResetAfter is not when all have left")
	}
	if int64(len(log.ring)) > max(8, 4*count) {
		fail("too many are remembered")
	}
	if wait := int64(d.RetryAfter / us); !d.OK && d.RetryAfter != Never {
		clone := Log{slices.Clone(log.ring), log.first, log.size, log.base}
		if early := clone.Take(time.UnixMicro(now+wait-1), a); early.OK {
			fail("passes earlier than RetryAfter")
		}
		if late := clone.Take(time.UnixMicro(now+wait), a); !late.OK {
			fail("is refused after RetryAfter")
		}
	} else if d.OK == (d.RetryAfter == Never) {
		fail("OK and yet Never")
	}
	return granted > 0
}
