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
	f.Add(now+1, int64(0), uint8(0), int64(3), int64(1e9), uint8(0), int64(7), int64(1e9), int64(0))
	f.Add(now+1, int64(0), uint8(0), int64(3), int64(1e9), uint8(0), int64(7), int64(7e8), int64(0))
	f.Add(now+1e6, int64(2), uint8(0), int64(3), int64(1e9), uint8(1), int64(7), int64(1e12), int64(5))
	f.Add(int64(math.MaxInt64), int64(math.MaxInt64), uint8(1), int64(math.MaxInt64), int64(1), uint8(0), int64(1), int64(math.MaxInt64), int64(math.MaxInt64))
	f.Add(int64(math.MaxInt64), int64(math.MinInt64), uint8(0), int64(math.MaxInt64), int64(1), uint8(1), int64(math.MaxInt64), int64(math.MaxInt64), int64(-1))
	f.Add(int64(math.MaxInt64), int64(9), uint8(0), int64(3), int64(1e9), uint8(0), int64(3), int64(1e9), int64(0))
	f.Fuzz(func(t *testing.T, full, n int64, kind uint8, count, period int64, kind2 uint8, count2, period2, burst int64) {
		from := Limit{Kind: Kind(kind % 2), Count: count, Burst: burst, Period: time.Duration(period)}
		to := Limit{Kind: Kind(kind2 % 2), Count: count2, Burst: burst, Period: time.Duration(period2)}
		s := State{T: full, N: n}
		got := Change(s, t0, from, to)
		if !from.counts() || !to.counts() || !s.live(now) || from == to {
			if got != s {
				t.Fatalf("Change(%+v, %+v, %+v) = %+v, want it as it is", s, from, to, got)
			}
			return
		}
		had, has := usedUnder(s, now, from), usedUnder(got, now, to)
		if most := new(big.Rat).SetInt64(to.Most()); had.Cmp(most.Add(most, most)) > 0 {
			had = most
		}
		if most := new(big.Rat).SetInt64(math.MaxInt64); had.Cmp(most) > 0 {
			had = most // nobody can use more
		}
		if has.Cmp(had) < 0 {
			t.Fatalf("Change(%+v, %+v, %+v) = %+v: used %v, then %v", s, from, to, got, had.FloatString(9), has.FloatString(9))
		}
		// Rounded up by less than one part, or one event of a window.
		if had.Add(had, roundedUp(to)); has.Cmp(had) >= 0 && has.Sign() > 0 {
			t.Fatalf("Change(%+v, %+v, %+v) = %+v: used less than %v, then %v", s, from, to, got, had.FloatString(9), has.FloatString(9))
		}
	})
}

// usedUnder is what a state says was used, in events.
func usedUnder(s State, now int64, l Limit) *big.Rat {
	if l.Kind == FixedWindow {
		return new(big.Rat).SetInt64(min(max(s.N, 0), double(l.Count)))
	}
	b := bucketOf(l)
	d := b.debt(b.clamp(s, now), now)
	used := new(big.Rat).SetFrac64(d.rem, b.count)
	used.Add(used, new(big.Rat).SetInt64(d.us))
	return used.Mul(used, new(big.Rat).SetFrac64(b.count, b.period))
}

func roundedUp(to Limit) *big.Rat {
	if to.Kind == FixedWindow {
		return big.NewRat(1, 1)
	}
	return new(big.Rat).SetFrac64(1, to.micros())
}
