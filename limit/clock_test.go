package limit

import (
	"math"
	"testing"
	"time"
)

var kinds = []Limit{
	{Count: 10, Period: time.Minute},
	{Count: 10, Period: time.Minute, Burst: 3},
	{Count: 600_000_000, Period: time.Second, Burst: 600},
	{Count: 1, Period: us},
	{Kind: FixedWindow, Count: 10, Period: time.Minute},
	{Kind: FixedWindow, Count: 10, Period: ms},
	{Kind: FirstHitWindow, Count: 10, Period: time.Minute},
	{Kind: FirstHitWindow, Count: 10, Period: ms},
	{Kind: SlidingWindow, Count: 10, Period: time.Minute},
	{Kind: SlidingWindow, Count: 10, Period: ms},
	{Kind: CalendarWindow, Count: 10, Period: time.Minute},
	{Kind: CalendarWindow, Count: 10, Period: time.Hour, Zone: time.FixedZone("half", 1800)},
	{Kind: CalendarWindow, Count: 10, Period: day},
	{Kind: CalendarWindow, Count: 10, Period: Month},
}

// drained is the state after all of l was taken at now.
func drained(t *testing.T, l Limit, now time.Time) State {
	t.Helper()
	s, d := Take(State{}, now, Ask{Limit: l, N: l.Max()})
	if !d.OK || d.Remaining != 0 {
		t.Fatalf("Take(all of %+v) = %+v", l, d)
	}
	return s
}

// Callers that read the clock in one order are answered in another: those who
// come late with an earlier time find what the others left, and change nothing
// for them. Both instants lie around the edge of a window.
func TestTakeOvertaken(t *testing.T) {
	for _, l := range kinds {
		for _, back := range []time.Duration{us, ms, time.Second} {
			full := drained(t, l, t0)
			s, d := Take(full, t0.Add(-back), Ask{Limit: l, N: 1})
			if d.OK || s != full {
				t.Errorf("%+v: %v earlier: Take(%+v) = %+v, %+v; want a refusal that changes nothing", l, back, full, s, d)
			}
			one, _ := Take(State{}, t0, Ask{Limit: l, N: l.Max() - 1})
			if one == (State{}) {
				continue
			}
			if s, d = Take(one, t0.Add(-back), Ask{Limit: l, N: 1}); !d.OK {
				continue // a bucket not refilled so far
			}
			if _, d = Take(s, t0, Ask{Limit: l, N: 1}); d.OK {
				t.Errorf("%+v: one more passed after %v earlier: %+v", l, back, d)
			}
		}
	}
}

// A clock set back by years locks nobody out for years, nor sets anybody free.
func TestTakeClockSetBack(t *testing.T) {
	for _, l := range kinds {
		for _, back := range []time.Duration{3 * time.Minute, 24 * time.Hour, 200 * 365 * 24 * time.Hour} {
			s, now := drained(t, l, t0), t0.Add(-back)
			s, d := Take(s, now, Ask{Limit: l, N: 1})
			bound := 3*l.Period + time.Second
			if l.Kind == TokenBucket {
				bound = 3*time.Duration(l.Max())*l.Period/time.Duration(l.Count) + time.Second
			}
			if d.OK || d.RetryAfter > bound {
				t.Errorf("%+v: set back by %v: %+v; want a refusal for at most %v", l, back, d, bound)
			}
			if s2, early := Take(s, now.Add(d.RetryAfter-us), Ask{Limit: l, N: 1}); early.OK || s2 != s {
				t.Errorf("%+v: set back by %v: passed earlier than %v", l, back, d.RetryAfter)
			}
			if _, late := Take(s, now.Add(d.RetryAfter), Ask{Limit: l, N: 1}); !late.OK {
				t.Errorf("%+v: set back by %v: refused after %v: %+v", l, back, d.RetryAfter, late)
			}
		}
	}
}

// The same holds if what is refused is one of several questions.
func TestTakeAllClockSetBack(t *testing.T) {
	l := kinds[0]
	s := []State{drained(t, l, t0), {}}
	a := []Ask{{Limit: l, N: 1}, {Limit: l, N: 1}}
	d := make([]Decision, 2)
	now := t0.Add(-24 * time.Hour)
	if TakeAll(s, now, a, d) || s[1] != (State{}) {
		t.Fatalf("TakeAll = %+v, %+v; want a refusal", s, d)
	}
	if !TakeAll(s, now.Add(d[0].RetryAfter), a, d) {
		t.Errorf("TakeAll after the wait = %+v", d)
	}
}

// A state is a key never seen from T on, and not a microsecond earlier.
func TestStateExpires(t *testing.T) {
	for _, l := range kinds {
		s := drained(t, l, t0)
		for _, c := range []struct {
			late time.Duration
			gone bool
		}{{-us, false}, {0, true}, {us, true}, {time.Hour, true}} {
			now := time.UnixMicro(s.T).Add(c.late)
			_, got := Take(s, now, Ask{Limit: l})
			_, fresh := Take(State{}, now, Ask{Limit: l})
			if gone := got == fresh; gone != c.gone {
				t.Errorf("%+v: %v after T: a peek says %+v; want it to be as fresh: %v", l, c.late, got, c.gone)
			}
		}
	}
}

// In a fixed window, taking goes to the later window once one was taken in it:
// the reader of an earlier clock must not bring the earlier window back, nor
// must a clock set back by less than a window.
func TestWindowEdgeRace(t *testing.T) {
	l := Limit{Kind: FixedWindow, Count: 50, Period: time.Minute}
	for _, back := range []time.Duration{us, time.Second, 30 * time.Second} {
		s := drained(t, l, t0.Add(10*time.Second))
		s, d := Take(s, t0.Add(-back), Ask{Limit: l, N: -1}) // even giving back
		if !d.OK {
			t.Fatalf("giving back = %+v", d)
		}
		for i, want := range []bool{true, false} {
			if s, d = Take(s, t0.Add(time.Duration(i)), Ask{Limit: l, N: 1}); d.OK != want {
				t.Errorf("after %v earlier: taking %d after the edge: %+v, want OK %v", back, i, d, want)
			}
		}
	}
}

// What is charged by one who was overtaken forgives nothing.
func TestDebtOvertaken(t *testing.T) {
	l := Limit{Count: 10, Period: time.Second}
	owing, _ := Take(State{}, t0, Ask{Limit: l, N: 100, Debt: true})
	for _, n := range []int64{1, 100, 1 << 62} {
		if s, d := Take(owing, t0.Add(-ms), Ask{Limit: l, N: n, Debt: true}); s.T < owing.T {
			t.Errorf("Take(%+v, a millisecond earlier, n = %d, as debt) = %+v, %+v; want none forgiven", owing, n, s, d)
		}
	}
}

// Windows are aligned before 1970 as after it.
func TestWindowEnd(t *testing.T) {
	for _, c := range []struct{ now, period, want int64 }{
		{0, 10, 10},
		{9, 10, 10},
		{10, 10, 20},
		{-1, 10, 0},
		{-10, 10, 0},
		{-11, 10, -10},
		{7, 1, 8},
		{math.MinInt64, 10, math.MinInt64 + 8},
		{math.MaxInt64 - 1, 10, math.MaxInt64},
	} {
		if got := fixedEnd(c.now, c.period); got != c.want {
			t.Errorf("fixedEnd(%d, %d) = %d, want %d", c.now, c.period, got, c.want)
		}
	}
}
