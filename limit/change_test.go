package limit

import (
	"math"
	"math/big"
	"testing"
	"time"
)

func TestChange(t *testing.T) {
	ten := Limit{Count: 10, Period: time.Second}
	window := Limit{Kind: FixedWindow, Count: 10, Period: time.Minute}
	with := func(l Limit, count, burst int64, period time.Duration) Limit {
		l.Count, l.Burst, l.Period = count, burst, period
		return l
	}
	for _, c := range []struct {
		name          string
		from, to      Limit
		used          int64 // charged at t0, fitting or not
		wait          time.Duration
		before, after int64 // remaining
		reset         time.Duration
	}{
		{"nothing used", ten, with(ten, 5, 0, time.Second), 0, 0, 10, 5, 0},
		{"all refilled", ten, with(ten, 5, 0, time.Second), 4, 400 * ms, 10, 5, 0},
		{"the same", ten, ten, 4, 50 * ms, 6, 6, 350 * ms},
		{"higher rate", ten, with(ten, 20, 10, time.Second), 4, 0, 6, 6, 200 * ms},
		{"lower rate", ten, with(ten, 1, 10, time.Second), 4, 0, 6, 6, 4 * time.Second},
		{"other period", ten, with(ten, 10, 10, time.Hour), 4, 0, 6, 6, 4 * 6 * time.Minute},
		{"higher burst", ten, with(ten, 10, 100, time.Second), 4, 0, 6, 96, 400 * ms},
		{"lower burst", ten, with(ten, 10, 5, time.Second), 4, 0, 6, 1, 400 * ms},
		{"lower burst than used", ten, with(ten, 10, 3, time.Second), 4, 0, 6, 0, 400 * ms},
		{"at most one more burst is owed", ten, with(ten, 10, 2, time.Second), 9, 0, 1, 0, 400 * ms},
		{"what is owed stays owed", ten, with(ten, 10, 12, time.Second), 13, 0, 0, 0, 1300 * ms},
		{"part of an event", ten, with(ten, 1, 10, time.Hour), 4, 50 * ms, 6, 6, 3*time.Hour + 30*time.Minute},
		{"rounded up", ten, with(ten, 3, 10, time.Second), 1, us, 9, 9, 333330 * us},
		{"window, more", window, with(window, 20, 0, time.Minute), 4, 10 * time.Second, 6, 16, 50 * time.Second},
		{"window, less", window, with(window, 3, 0, time.Minute), 4, 10 * time.Second, 6, 0, 50 * time.Second},
		{"window, shorter", window, with(window, 10, 0, time.Second), 4, 10*time.Second + 400*ms, 6, 6, 600 * ms},
		{"window, longer", window, with(window, 10, 0, time.Hour), 4, 10 * time.Second, 6, 6, time.Hour - 10*time.Second},
		{"window, ended", window, with(window, 10, 0, time.Hour), 4, time.Minute, 10, 10, 0},
		{"bucket to window", ten, window, 4, 50 * ms, 6, 6, time.Minute - 50*ms},
		{"bucket to small window", ten, with(window, 1, 0, time.Minute), 4, 0, 6, 0, time.Minute},
		{"window to bucket", window, ten, 4, 10 * time.Second, 6, 6, 400 * ms},
		{"window to small bucket", window, with(ten, 10, 1, time.Second), 4, 0, 6, 0, 200 * ms},
		{"window that is owed to", window, with(ten, 10, 100, time.Second), 50, 0, 0, 80, 2 * time.Second},
		{"not known to be a window", ten, Limit{Kind: 9, Count: 10, Period: time.Minute}, 4, 0, 6, 6, 24 * time.Second},
		{"allows nothing", ten, with(ten, 0, 10, time.Second), 4, 0, 6, 0, 0},
		{"allows all", ten, Limit{}, 4, 0, 6, math.MaxInt64, 0},
	} {
		now := t0.Add(c.wait)
		s, _ := Take(State{}, t0, Ask{Limit: c.from, N: c.used, Debt: true})
		_, before := Take(s, now, Ask{Limit: c.from})
		got := Change(s, now, c.from, c.to)
		_, after := Take(got, now, Ask{Limit: c.to})
		if before.Remaining != c.before || after.Remaining != c.after || after.ResetAfter != c.reset {
			t.Errorf("%s: Change(%+v, %+v, %+v) = %+v\n got remaining %d, then %d, reset after %v\nwant remaining %d, then %d, reset after %v",
				c.name, s, c.from, c.to, got, before.Remaining, after.Remaining, after.ResetAfter, c.before, c.after, c.reset)
		}
	}
}

// To and fro as often as one likes wins nothing, and loses next to nothing.
func TestChangeToAndFro(t *testing.T) {
	a := Limit{Count: 10, Period: time.Hour, Burst: 5}
	b := Limit{Count: 11, Period: time.Hour, Burst: 5}
	s, admitted := State{}, 0
	for range 1000 {
		for _, l := range [][2]Limit{{b, a}, {a, b}} {
			var d Decision
			s = Change(s, t0, l[0], l[1])
			if s, d = Take(s, t0, Ask{Limit: l[1], N: 1}); d.OK {
				admitted++
			}
		}
	}
	if _, d := Take(s, t0, Ask{Limit: b, N: 1}); admitted != 5 || d.RetryAfter > time.Hour/11+2000*us {
		t.Errorf("%d admitted, the next after %v; want 5, and one after %v", admitted, d.RetryAfter, time.Hour/11)
	}
}

// A state from a future that cannot be is worth no more than one that can.
func TestChangeFromTheFuture(t *testing.T) {
	ten := Limit{Count: 10, Period: time.Second}
	big := Limit{Count: 10, Period: time.Second, Burst: 1000}
	s := Change(State{T: t0.AddDate(100, 0, 0).UnixMicro()}, t0, ten, big)
	if _, d := Take(s, t0, Ask{Limit: big}); d.Remaining != 970 { // two bursts, and a second
		t.Errorf("Change = %+v: %+v; want 970 remaining", s, d)
	}
}

// An outage, a limit of nothing or of everything, leaves what was used as it is.
func TestChangeThroughNothing(t *testing.T) {
	l := Limit{Count: 10, Period: time.Second}
	for _, between := range []Limit{{}, {Period: time.Second}, {Kind: FixedWindow, Period: 1}} {
		s := drained(t, l, t0)
		s = Change(s, t0, l, between)
		s = Change(s, t0.Add(500*ms), between, l)
		if _, d := Take(s, t0.Add(500*ms), Ask{Limit: l}); d.Remaining != 5 {
			t.Errorf("through %+v: %+v, want 5 remaining", between, d)
		}
	}
}

// A clock set back, or callers that overtake each other, do not make a change
// of the count forget the window that lies ahead.
func TestChangeKeepsTheWindowAhead(t *testing.T) {
	from := Limit{Kind: FixedWindow, Count: 10, Period: time.Minute}
	to := Limit{Kind: FixedWindow, Count: 12, Period: time.Minute}
	s := Change(drained(t, from, t0), t0.Add(-us), from, to)
	if _, d := Take(s, t0, Ask{Limit: to}); d.Remaining != 2 {
		t.Errorf("%+v, %+v; want 2 remaining", s, d)
	}
}

// FuzzChange: no change mints, whatever the state and the limits; and what is
// forgiven is what the new limit cannot hold.
func FuzzChange(f *testing.F) {
	now := t0.UnixMicro()
	for kind := range uint8(unknownKind) {
		for kind2 := range uint8(unknownKind) {
			f.Add(now+1, int64(0), int64(0), kind, int64(3), int64(1e9), kind2, int64(7), int64(1e9), int64(0))
			f.Add(now+1, int64(5), int64(9), kind, int64(3), int64(1e9), kind2, int64(7), int64(7e8), int64(0))
			f.Add(now+1e6, int64(2), int64(3), kind, int64(3), int64(1e9), kind2, int64(7), int64(1e12), int64(5))
			f.Add(now+15e5, int64(200), int64(200), kind, int64(100), int64(1e9), kind2, int64(70), int64(2e9), int64(0))
			f.Add(now+9e5, int64(200), int64(3), kind, int64(300), int64(1e9), kind2, int64(7), int64(1e4), int64(5))
		}
	}
	for kind := range uint8(2) {
		f.Add(int64(math.MaxInt64), int64(math.MaxInt64), int64(-1), kind, int64(math.MaxInt64), int64(1), uint8(0), int64(1), int64(math.MaxInt64), int64(math.MaxInt64))
		f.Add(int64(math.MaxInt64), int64(math.MinInt64), int64(1), kind, int64(math.MaxInt64), int64(1), uint8(1), int64(math.MaxInt64), int64(math.MaxInt64), int64(-1))
		f.Add(int64(math.MaxInt64), int64(9), int64(7), kind, int64(3), int64(1e9), uint8(0), int64(3), int64(1e9), int64(0))
	}
	f.Fuzz(func(t *testing.T, full, n, before int64, kind uint8, count, period int64, kind2 uint8, count2, period2, burst int64) {
		from := Limit{Kind: Kind(kind % unknownKind), Count: count, Burst: burst, Period: time.Duration(period)}
		to := Limit{Kind: Kind(kind2 % unknownKind), Count: count2, Burst: burst, Period: time.Duration(period2)}
		checkChange(t, State{T: full, N: n, P: before}, from, to)
	})
}

func checkChange(t *testing.T, s State, from, to Limit) {
	t.Helper()
	now := t0.UnixMicro()
	got := Change(s, t0, from, to)
	if !from.counts() || !to.counts() || !s.live(now) || from == to {
		if got != s {
			t.Fatalf("Change(%+v, %+v, %+v) = %+v, want it as it is", s, from, to, got)
		}
		return
	}
	fail := func(what string) {
		t.Helper()
		t.Fatalf("Change(%+v, %+v, %+v) = %+v: used %s, then %s: %s", s, from, to, got,
			usedUnder(s, now, from).FloatString(9), usedUnder(got, now, to).FloatString(9), what)
	}
	had, has := usedUnder(s, now, from), usedUnder(got, now, to)
	if most := new(big.Rat).SetInt64(double(to.Max())); had.Cmp(most) > 0 {
		had = most // nobody can owe more
	}
	if has.Cmp(had) < 0 {
		fail("less")
	}
	used := Used(s, t0, from)
	if !from.Kind.isBucket() && used > double(from.Max()) { // a bucket may be a second ahead
		fail("more is used than could be owed")
	}
	used = min(used, double(to.Max()))
	if Used(got, t0, to) < used {
		fail("less, as Used says it")
	}
	_, d := Take(got, t0, Ask{Limit: to})
	if d.Remaining > max(to.Max()-used, 0) {
		fail("more remains than the new limit less what was used")
	}
	// Rounded up by less than one part, or one event of a window.
	if had.Add(had, roundedUp(s, to)); has.Cmp(had) >= 0 && has.Sign() > 0 {
		fail("more")
	}
	if got.live(now) != (d.ResetAfter > 0) {
		fail("T and ResetAfter disagree")
	}
}

// usedUnder is what a state says was used, in events.
func usedUnder(s State, now int64, l Limit) *big.Rat {
	switch {
	case l.Kind.isWindow():
		return new(big.Rat).SetInt64(min(max(s.N, 0), double(l.Count)))
	case l.Kind == SlidingWindow:
		w := slidingAt(s, now, &l)
		used := big.NewRat(w.left, w.period)
		used.Mul(used, new(big.Rat).SetInt64(w.prev))
		used.Add(used, new(big.Rat).SetInt64(w.cur))
		if most := new(big.Rat).SetInt64(double(l.Count)); used.Cmp(most) > 0 {
			return most
		}
		return used
	}
	b := bucketOf(&l)
	d := b.debt(b.clamp(s, now), now)
	used := new(big.Rat).SetFrac64(d.rem, b.count)
	used.Add(used, new(big.Rat).SetInt64(d.us))
	return used.Mul(used, new(big.Rat).SetFrac64(b.count, b.period))
}

// roundedUp is what a change to a limit may round up to. The share of a window
// is told in microseconds.
func roundedUp(s State, to Limit) *big.Rat {
	switch {
	case to.Kind == SlidingWindow:
		share := new(big.Rat).SetFrac64(max(s.P, s.N, 0), to.micros())
		return share.Add(share, big.NewRat(1, 1))
	case to.Kind.isWindow():
		return big.NewRat(1, 1)
	}
	return new(big.Rat).SetFrac64(1, to.micros())
}

// A window is the one it was where only the count changes; of another Period
// the same share is left, so that to and fro loses nothing.
func TestChangeOfWindows(t *testing.T) {
	for _, c := range []struct {
		from, to    Limit
		at          time.Duration // since the use of 8, at t0
		left        int64
		reset, back time.Duration
	}{
		{Limit{Kind: FirstHitWindow, Count: 10, Period: time.Minute}, Limit{Kind: FirstHitWindow, Count: 12, Period: time.Minute}, 15 * time.Second, 4, 45 * time.Second, 45 * time.Second},
		{Limit{Kind: FirstHitWindow, Count: 10, Period: time.Minute}, Limit{Kind: FirstHitWindow, Count: 12, Period: time.Hour}, 15 * time.Second, 4, 45 * time.Minute, 45 * time.Second},
		{Limit{Kind: FirstHitWindow, Count: 10, Period: time.Hour}, Limit{Kind: FirstHitWindow, Count: 12, Period: time.Minute}, 15 * time.Minute, 4, 45 * time.Second, 45 * time.Minute},
		{Limit{Kind: SlidingWindow, Count: 10, Period: time.Minute}, Limit{Kind: SlidingWindow, Count: 12, Period: time.Minute}, 90 * time.Second, 8, 30 * time.Second, 30 * time.Second},
		{Limit{Kind: SlidingWindow, Count: 10, Period: time.Minute}, Limit{Kind: SlidingWindow, Count: 12, Period: time.Hour}, 90 * time.Second, 8, 30 * time.Minute, 30 * time.Second},
		{Limit{Kind: SlidingWindow, Count: 10, Period: time.Minute}, Limit{Kind: SlidingWindow, Count: 12, Period: time.Hour}, 15 * time.Second, 4, 105 * time.Minute, 105 * time.Second},
		{Limit{Kind: CalendarWindow, Count: 10, Period: Month}, Limit{Kind: CalendarWindow, Count: 12, Period: 30 * day}, day, 4, 27 * day, 27 * day},
		{Limit{Kind: CalendarWindow, Count: 10, Period: Month}, Limit{Kind: CalendarWindow, Count: 12, Period: Week}, day, 4, 4 * day, 27 * day},
		{Limit{Kind: CalendarWindow, Count: 10, Period: day}, Limit{Kind: CalendarWindow, Count: 12, Period: day, Zone: time.FixedZone("x", 3600)}, time.Hour, 4, 22 * time.Hour, 23 * time.Hour},
		{Limit{Kind: CalendarWindow, Count: 10, Period: day}, Limit{Kind: SlidingWindow, Count: 12, Period: time.Hour}, time.Minute, 4, 119 * time.Minute, day - time.Minute},
		{Limit{Kind: SlidingWindow, Count: 10, Period: time.Hour}, Limit{Kind: FirstHitWindow, Count: 12, Period: time.Minute}, 75 * time.Minute, 6, time.Minute, 105 * time.Minute},
		{Limit{Count: 10, Period: time.Minute}, Limit{Kind: SlidingWindow, Count: 12, Period: time.Minute}, 9 * time.Second, 5, 111 * time.Second, 42 * time.Second},
	} {
		now := t0.Add(c.at)
		s, _ := Take(State{}, t0, Ask{Limit: c.from, N: 8})
		there := Change(s, now, c.from, c.to)
		_, d := Take(there, now, Ask{Limit: c.to})
		if d.Remaining != c.left || d.ResetAfter != c.reset {
			t.Errorf("%v to %v after %v: %d left, reset after %v; want %d, %v", c.from, c.to, c.at, d.Remaining, d.ResetAfter, c.left, c.reset)
		}
		_, d = Take(Change(there, now, c.to, c.from), now, Ask{Limit: c.from})
		if d.ResetAfter != c.back {
			t.Errorf("%v to %v and back after %v: reset after %v; want %v", c.from, c.to, c.at, d.ResetAfter, c.back)
		}
	}
}

// keeper is any kind with what it keeps.
type keeper struct {
	Limit
	state State
	log   Log
	slots Slots
}

func (k *keeper) take(now time.Time, a Ask) (d Decision) {
	a.Limit = k.Limit
	switch k.Kind {
	case SlidingLog:
		return k.log.Take(now, a)
	case SlidingSlots:
		return k.slots.Take(now, a)
	}
	k.state, d = Take(k.state, now, a)
	return d
}

func (k *keeper) used(now time.Time) int64 {
	switch k.Kind {
	case SlidingLog:
		return k.log.Used(now, k.Limit)
	case SlidingSlots:
		return k.slots.Used(now, k.Limit)
	}
	return Used(k.state, now, k.Limit)
}

// Between any two kinds what was used can be carried over by charging it, also
// where it is kept in a Log or Slots.
func TestUsedCarriesOver(t *testing.T) {
	for from := range Kind(unknownKind) {
		for to := range Kind(unknownKind) {
			for _, c := range []struct{ used, left int64 }{{0, 12}, {7, 5}, {12, 0}, {17, 0}} {
				old := keeper{Limit: Limit{Kind: from, Count: 10, Period: time.Hour}}
				new := keeper{Limit: Limit{Kind: to, Count: 12, Period: time.Minute}}
				old.take(t0, Ask{N: c.used, Debt: true})
				if got := old.used(t0); got != c.used {
					t.Errorf("%v: %d used, want %d", old.Limit, got, c.used)
				}
				new.take(t0, Ask{N: old.used(t0), Debt: true})
				if d := new.take(t0, Ask{}); d.Remaining != c.left || d.OK != (c.used <= 12) || new.used(t0) != c.used {
					t.Errorf("%v to %v: %d used, then %d: %+v; want %d left", old.Limit, new.Limit, c.used, new.used(t0), d, c.left)
				}
				if used := old.used(t0.Add(3 * time.Hour)); used != 0 {
					t.Errorf("%v: %d used three hours later", old.Limit, used)
				}
			}
		}
	}
	for _, l := range []Limit{{}, {Period: time.Second}} {
		var log Log
		var slots Slots
		if Used(State{T: math.MaxInt64}, t0, l) != 0 || log.Used(t0, l) != 0 || slots.Used(t0, l) != 0 {
			t.Errorf("%v: something is used", l)
		}
	}
}

// Windows of other kinds end elsewhere, also if they are as long.
func TestChangeOfKindKeepsTheEdges(t *testing.T) {
	first, fixed := Limit{Kind: FirstHitWindow, Count: 10, Period: time.Minute}, Limit{Kind: FixedWindow, Count: 10, Period: time.Minute}
	begun := t0.Add(20 * time.Second)
	for _, c := range []struct {
		from, to Limit
		reset    time.Duration // 10 s later
	}{{first, fixed, 30 * time.Second}, {fixed, first, time.Minute}, {first, first, 50 * time.Second}, {fixed, fixed, 30 * time.Second}} {
		s, _ := Take(State{}, begun, Ask{Limit: c.from, N: 10})
		now := begun.Add(10 * time.Second)
		if _, d := Take(Change(s, now, c.from, c.to), now, Ask{Limit: c.to, N: 1}); d.OK || d.ResetAfter != c.reset || d.RetryAfter != c.reset {
			t.Errorf("%v to %v: %+v, want a refusal for %v", c.from, c.to, d, c.reset)
		}
	}
}
