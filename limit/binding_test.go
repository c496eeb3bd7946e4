package limit

import (
	"math"
	"testing"
	"time"
)

func TestDecides(t *testing.T) {
	ok := func(remaining, most int64) Decision { return Decision{OK: true, Remaining: remaining, Max: most} }
	no := func(wait time.Duration) Decision { return Decision{RetryAfter: wait, Max: 5} }
	for _, c := range []struct {
		name string
		d    []Decision
		want int
	}{
		{"none", nil, -1},
		{"one", []Decision{ok(5, 5)}, 0},
		{"the least of its most", []Decision{ok(50, 100), ok(9, 10), ok(400, 1000)}, 2},
		{"not the least number", []Decision{ok(9, 10), ok(50, 100)}, 1},
		{"equal shares", []Decision{ok(1, 2), ok(50, 100), ok(2, 4)}, 0},
		{"unlimited is never", []Decision{ok(math.MaxInt64, math.MaxInt64), ok(math.MaxInt64-1, math.MaxInt64), ok(1, 1)}, 1},
		{"a limit of nothing", []Decision{ok(0, 10), ok(0, 0), ok(5, 5)}, 0},
		{"a limit of nothing, given back to", []Decision{ok(1, 10), ok(0, 0)}, 1},
		{"a refusal before all", []Decision{ok(0, 10), no(1), ok(0, 0)}, 1},
		{"the longest wait", []Decision{no(time.Second), ok(0, 9), no(time.Minute), no(time.Second)}, 2},
		{"never is longest", []Decision{no(time.Hour), no(Never), no(Never)}, 1},
	} {
		if got := Binding(c.d); got != c.want {
			t.Errorf("%s: Decides(%+v) = %d, want %d", c.name, c.d, got, c.want)
		}
	}
}

// The one named is the one that must be waited for.
func TestDecidesOfTakeAll(t *testing.T) {
	a := []Ask{
		{Limit: Limit{Count: 10, Period: time.Second}, N: 10},
		{Limit: Limit{Kind: SlidingWindow, Count: 30, Period: time.Hour}, N: 10},
		{Limit: Limit{Kind: CalendarWindow, Count: 25, Period: day}, N: 10},
	}
	s, d, now := make([]State, 3), make([]Decision, 3), t0
	for i, c := range []struct {
		ok      bool
		decides int
	}{{true, 0}, {false, 0}, {true, 0}, {false, 2}} {
		ok := TakeAll(s, now, a, d)
		which := Binding(d)
		if ok != c.ok || which != c.decides {
			t.Fatalf("step %d: %t, decided by %d: %+v; want %t, %d", i, ok, which, d, c.ok, c.decides)
		}
		if !ok {
			now = now.Add(d[which].RetryAfter)
		}
	}
	if !TakeAll(s, now, a, d) {
		t.Errorf("after the wait of the one that decided: %+v", d)
	}
	if n := testing.AllocsPerRun(100, func() { Binding(d) }); n != 0 {
		t.Errorf("Decides allocates %v times", n)
	}
}

// However many asks there are, all are charged once or none is.
func TestTakeAllOfMany(t *testing.T) {
	l := Limit{Count: 10, Period: time.Minute}
	for _, n := range []int{2, 15, 16, 17, 40} {
		s, a, d := make([]State, n), make([]Ask, n), make([]Decision, n)
		for i := range a {
			a[i] = Ask{Limit: l, N: int64(i%3) + 1}
		}
		for _, refuses := range []int{-1, 0, n - 1} {
			if refuses >= 0 {
				a[refuses].N = 11
			}
			ok := TakeAll(s, t0, a, d)
			for i := range a {
				_, left := Take(s[i], t0, Ask{Limit: l})
				want := Decision{OK: i != refuses, Remaining: 10 - int64(i%3) - 1}
				if refuses < 0 {
					want.N = a[i].N
				}
				if ok != (refuses < 0) || d[i].OK != want.OK || d[i].N != want.N || d[i].Remaining != want.Remaining || left.Remaining != want.Remaining {
					t.Errorf("%d asks, %d of which is refused: %t, %+v of ask %d, and %d left; want %+v", n, refuses, ok, d[i], i, left.Remaining, want)
				}
			}
			if refuses >= 0 {
				a[refuses].N = int64(refuses%3) + 1
			}
		}
	}
}
