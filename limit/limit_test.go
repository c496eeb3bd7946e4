package limit

import (
	"math"
	"testing"
	"time"
)

const (
	ms  = time.Millisecond
	us  = time.Microsecond
	day = 24 * time.Hour
)

// t0 is on the edge of a minute, an hour and a day.
var t0 = time.Date(2026, 3, 4, 0, 0, 0, 0, time.UTC)

// want is what a table expects of a Decision.
type want struct {
	ok           bool
	n, remaining int64
	retry, reset time.Duration
}

func wantOf(d Decision) want {
	return want{d.OK, d.N, d.Remaining, d.RetryAfter, d.ResetAfter}
}

type row struct {
	at  time.Duration // since t0
	ask Ask           // its Limit is the table's
	want
}

func n(n int64) Ask    { return Ask{N: n} }
func debt(n int64) Ask { return Ask{N: n, Debt: true} }
func part(low, n int64) Ask {
	return Ask{N: n, Min: low}
}

// run asks one row after the other of one key.
func run(t *testing.T, l Limit, rows []row) {
	t.Helper()
	var s State
	for i, r := range rows {
		before, now := s, t0.Add(r.at)
		r.ask.Limit = l
		var d Decision
		s, d = Take(s, now, r.ask)
		if got := wantOf(d); got != r.want {
			t.Errorf("row %d: Take(%+v, t0+%v, %+v)\n got %+v\nwant %+v", i, before, r.at, r.ask, got, r.want)
		}
		if d.Max != l.Max() || !d.At.Equal(now) {
			t.Errorf("row %d: Most %d at %v, want %d at %v", i, d.Max, d.At, l.Max(), now)
		}
		if d.N != 0 && d.ResetAfter == 0 && s != (State{}) {
			t.Errorf("row %d: nothing is left to remember, yet the state is %+v", i, s)
		}
		if d.N == 0 && s != before && r.ask.N >= 0 {
			t.Errorf("row %d: nothing was charged, yet the state went from %+v to %+v", i, before, s)
		}
	}
}

func TestTakeBucket(t *testing.T) {
	run(t, Limit{Count: 10, Period: time.Second, Burst: 3}, []row{
		{0, n(0), want{true, 0, 3, 0, 0}},
		{0, n(1), want{true, 1, 2, 0, 100 * ms}},
		{0, n(2), want{true, 2, 0, 0, 300 * ms}},
		{0, n(0), want{true, 0, 0, 0, 300 * ms}},
		{0, n(1), want{false, 0, 0, 100 * ms, 300 * ms}},
		{0, n(3), want{false, 0, 0, 300 * ms, 300 * ms}},
		{0, n(4), want{false, 0, 0, Never, 300 * ms}},
		{100*ms - us, n(1), want{false, 0, 0, us, 200*ms + us}},
		{100 * ms, n(1), want{true, 1, 0, 0, 300 * ms}},
		{150 * ms, n(1), want{false, 0, 0, 50 * ms, 250 * ms}},
		{350 * ms, n(0), want{true, 0, 2, 0, 50 * ms}},
		{350 * ms, n(-1), want{true, -1, 3, 0, 0}},
		{350 * ms, n(3), want{true, 3, 0, 0, 300 * ms}},
		{350 * ms, n(-2), want{true, -2, 2, 0, 100 * ms}},
		{350 * ms, n(math.MinInt64), want{true, -1, 3, 0, 0}},
		{350 * ms, n(math.MaxInt64), want{false, 0, 3, Never, 0}},
		{time.Hour, n(3), want{true, 3, 0, 0, 300 * ms}}, // no more for a long rest
		{time.Hour, n(1), want{false, 0, 0, 100 * ms, 300 * ms}},
	})
}

func TestTakeBucketMin(t *testing.T) {
	run(t, Limit{Count: 10, Period: time.Second}, []row{
		{0, part(1, 4), want{true, 4, 6, 0, 400 * ms}},
		{0, part(7, 8), want{false, 0, 6, 100 * ms, 400 * ms}},
		{0, part(6, 8), want{true, 6, 0, 0, time.Second}},
		{0, part(1, 50), want{false, 0, 0, 100 * ms, time.Second}}, // N is above Most, Min is not
		{0, part(11, 50), want{false, 0, 0, Never, time.Second}},
		{100 * ms, part(1, 50), want{true, 1, 0, 0, time.Second}},
		{100 * ms, part(9, 1), want{false, 0, 0, 100 * ms, time.Second}}, // Min above N
		{100 * ms, part(-5, 2), want{false, 0, 0, 200 * ms, time.Second}},
		{400 * ms, part(9, 1), want{true, 1, 2, 0, 800 * ms}},
		{400 * ms, Ask{N: 4, Min: 1, Debt: true}, want{true, 4, 0, 0, 1200 * ms}}, // Debt charges all
	})
}

func TestTakeBucketDebt(t *testing.T) {
	run(t, Limit{Count: 10, Period: time.Second, Burst: 5}, []row{
		{0, debt(3), want{true, 3, 2, 0, 300 * ms}},
		{0, debt(4), want{true, 4, 0, 0, 700 * ms}},
		{0, n(0), want{false, 0, 0, 200 * ms, 700 * ms}}, // 2 are owed
		{0, n(1), want{false, 0, 0, 300 * ms, 700 * ms}},
		{0, n(6), want{false, 0, 0, Never, 700 * ms}},
		{200 * ms, n(0), want{true, 0, 0, 0, 500 * ms}},
		{200 * ms, debt(100), want{true, 5, 0, 0, time.Second}}, // one more Burst at most
		{200 * ms, debt(math.MaxInt64), want{true, 0, 0, 0, time.Second}},
		{200 * ms, n(-2), want{true, -2, 0, 0, 800 * ms}},
		{1000 * ms, n(5), want{true, 5, 0, 0, 500 * ms}},
	})
}

func TestTakeWindow(t *testing.T) {
	l := Limit{Kind: FixedWindow, Count: 3, Period: time.Minute, Burst: 99}
	run(t, l, []row{
		{0, n(0), want{true, 0, 3, 0, 0}},
		{10 * time.Second, n(2), want{true, 2, 1, 0, 50 * time.Second}},
		{10 * time.Second, n(2), want{false, 0, 1, 50 * time.Second, 50 * time.Second}},
		{10 * time.Second, n(4), want{false, 0, 1, Never, 50 * time.Second}},
		{10 * time.Second, part(1, 4), want{true, 1, 0, 0, 50 * time.Second}},
		{time.Minute - us, n(1), want{false, 0, 0, us, us}},
		{time.Minute, n(1), want{true, 1, 2, 0, time.Minute}},
		{time.Minute, n(-5), want{true, -1, 3, 0, 0}},
		{time.Minute, n(math.MinInt64), want{true, 0, 3, 0, 0}},
		{90 * time.Second, debt(5), want{true, 5, 0, 0, 30 * time.Second}},
		{90 * time.Second, n(0), want{false, 0, 0, 30 * time.Second, 30 * time.Second}},
		{90 * time.Second, part(2, 4), want{false, 0, 0, 30 * time.Second, 30 * time.Second}},
		{90 * time.Second, debt(math.MaxInt64), want{true, 1, 0, 0, 30 * time.Second}},
		{90 * time.Second, n(-4), want{true, -4, 1, 0, 30 * time.Second}}, // at most 3 were owed
		{2 * time.Minute, n(3), want{true, 3, 0, 0, time.Minute}},
	})
}

func TestTakeUnlimited(t *testing.T) {
	for _, l := range []Limit{{}, {Count: 5}, {Count: 5, Period: -1}, {Kind: FixedWindow, Count: -5, Period: math.MinInt64}} {
		s := State{T: 5, N: 6, P: 7}
		for _, n := range []int64{math.MinInt64, -1, 0, 1, math.MaxInt64} {
			got, d := Take(s, t0, Ask{Limit: l, N: n})
			want := Decision{OK: true, N: n, Max: math.MaxInt64, Remaining: math.MaxInt64, At: t0}
			if got != s || d != want {
				t.Errorf("Take(%+v, n = %d) = %+v, %+v; want %+v, %+v", l, n, got, d, s, want)
			}
		}
	}
}

func TestTakeNothing(t *testing.T) {
	for _, l := range []Limit{{Period: 1}, {Count: -1, Burst: 9, Period: time.Second}, {Kind: FixedWindow, Count: math.MinInt64, Period: time.Hour}} {
		for _, c := range []struct {
			ask  Ask
			want want
		}{
			{n(1), want{false, 0, 0, Never, 0}},
			{n(math.MaxInt64), want{false, 0, 0, Never, 0}},
			{part(1, 5), want{false, 0, 0, Never, 0}},
			{n(0), want{false, 0, 0, Never, 0}},
			{n(-1), want{true, 0, 0, 0, 0}},
			{debt(5), want{true, 5, 0, 0, 0}},
		} {
			s := State{T: t0.UnixMicro() + 5, N: 6}
			c.ask.Limit = l
			got, d := Take(s, t0, c.ask)
			if got != s || wantOf(d) != c.want {
				t.Errorf("Take(%+v)\n got %+v, %+v\nwant %+v, %+v", c.ask, got, wantOf(d), s, c.want)
			}
		}
	}
}

func TestMost(t *testing.T) {
	for _, c := range []struct {
		limit Limit
		want  int64
	}{
		{Limit{}, math.MaxInt64},
		{Limit{Count: 5, Period: 1}, 5},
		{Limit{Count: 5, Period: 1, Burst: 2}, 2},
		{Limit{Count: 5, Period: 1, Burst: 20}, 20},
		{Limit{Count: 5, Period: 1, Burst: -20}, 5},
		{Limit{Count: 5, Period: 1, Burst: 20, Kind: FixedWindow}, 5},
		{Limit{Count: 0, Period: 1, Burst: 20}, 0},
		{Limit{Count: -1, Period: 1, Burst: 20}, 0},
		{Limit{Count: math.MaxInt64, Period: math.MaxInt64}, math.MaxInt64},
		{Limit{Count: math.MaxInt64, Period: 1, Burst: math.MaxInt64}, math.MaxInt64},
		{Limit{Count: 1, Period: day, Burst: 3e6}, 3e6},
		{Limit{Count: 1, Period: day, Burst: math.MaxInt64}, longest / int64(day/us)},
	} {
		if got := c.limit.Max(); got != c.want {
			t.Errorf("%+v.Most() = %d, want %d", c.limit, got, c.want)
		}
	}
}

// A burst of thousands of years is a bound nonetheless.
func TestTakeHugeBurst(t *testing.T) {
	l := Limit{Count: 1, Period: day, Burst: math.MaxInt64}
	most := l.Max()
	run(t, l, []row{
		{0, n(math.MaxInt64), want{false, 0, most, Never, 0}},
		{0, n(most), want{true, most, 0, 0, Never}},
		{0, n(1), want{false, 0, 0, day, Never}},
		{day, n(1), want{true, 1, 0, 0, Never}},
		{day, n(1), want{false, 0, 0, day, Never}},
		{day, debt(math.MaxInt64), want{true, 3335999, 0, 0, Never}}, // to the end of time
		{day, n(1), want{false, 0, 0, Never, Never}},                 // 9,000 years
	})
}

func TestTakeHugeWindow(t *testing.T) {
	run(t, Limit{Kind: FixedWindow, Count: math.MaxInt64, Period: time.Minute}, []row{
		{0, n(math.MaxInt64), want{true, math.MaxInt64, 0, 0, time.Minute}},
		{0, n(1), want{false, 0, 0, time.Minute, time.Minute}},
		{0, n(-1), want{true, -1, 1, 0, time.Minute}},
		{0, debt(2), want{true, 1, 0, 0, time.Minute}},
	})
}

// 1 per 1.5 µs is counted as 1 per 2 µs: rounding never admits more.
func TestTakeTinyPeriod(t *testing.T) {
	run(t, Limit{Count: 1, Period: 1500}, []row{
		{0, n(1), want{true, 1, 0, 0, 2 * us}},
		{us, n(1), want{false, 0, 0, us, us}},
		{2 * us, n(1), want{true, 1, 0, 0, 2 * us}},
	})
	run(t, Limit{Kind: FixedWindow, Count: 2, Period: 1}, []row{
		{0, n(2), want{true, 2, 0, 0, us}},
		{999, n(1), want{false, 0, 0, us, us}}, // the time is rounded down
		{us, n(1), want{true, 1, 1, 0, us}},
	})
}

// Both kinds work before 1970 too, where the zero State's T lies ahead.
func TestTakeBeforeTheEpoch(t *testing.T) {
	for _, kind := range []Kind{TokenBucket, FixedWindow} {
		l := Limit{Kind: kind, Count: 1, Period: time.Second}
		for _, now := range []time.Time{{}, time.Unix(-1, 0), time.Unix(-1, 1000), time.Unix(0, 0)} {
			s, first := Take(State{}, now, Ask{Limit: l, N: 1})
			_, second := Take(s, now, Ask{Limit: l, N: 1})
			if !first.OK || second.OK {
				t.Errorf("%v at %v: first %+v, second %+v; want one to pass", kind, now, first, second)
			}
			if _, third := Take(s, now.Add(second.RetryAfter), Ask{Limit: l, N: 1}); !third.OK {
				t.Errorf("%v at %v: %+v after the wait", kind, now, third)
			}
		}
	}
}

func TestTakeAll(t *testing.T) {
	bucket := Limit{Count: 1, Period: time.Second, Burst: 2}
	window := Limit{Kind: FixedWindow, Count: 5, Period: time.Minute}
	both := func(n, m int64) []Ask { return []Ask{{Limit: bucket, N: n}, {Limit: window, N: m}} }
	s, d := make([]State, 2), make([]Decision, 2)
	for i, c := range []struct {
		asks []Ask
		ok   bool
		want [2]want
	}{
		{both(1, 2), true, [2]want{{true, 1, 1, 0, time.Second}, {true, 2, 3, 0, time.Minute}}},
		{both(1, 4), false, [2]want{{true, 0, 1, 0, time.Second}, {false, 0, 3, time.Minute, time.Minute}}},
		{both(2, 1), false, [2]want{{false, 0, 1, time.Second, time.Second}, {true, 0, 3, 0, time.Minute}}},
		{both(2, 6), false, [2]want{{false, 0, 1, time.Second, time.Second}, {false, 0, 3, Never, time.Minute}}},
		{both(-1, 6), false, [2]want{{true, 0, 1, 0, time.Second}, {false, 0, 3, Never, time.Minute}}},
		{both(1, 3), true, [2]want{{true, 1, 0, 0, 2 * time.Second}, {true, 3, 0, 0, time.Minute}}},
		{both(0, 0), true, [2]want{{true, 0, 0, 0, 2 * time.Second}, {true, 0, 0, 0, time.Minute}}},
		{both(-1, -1), true, [2]want{{true, -1, 1, 0, time.Second}, {true, -1, 1, 0, time.Minute}}},
		// A charge that need not fit passes, also where another is refused.
		{[]Ask{{Limit: bucket, N: 9, Debt: true}, {Limit: window, N: 1}}, true, [2]want{{true, 3, 0, 0, 4 * time.Second}, {true, 1, 0, 0, time.Minute}}},
		{[]Ask{{Limit: bucket, N: 9, Debt: true}, {Limit: window, N: 1}}, false, [2]want{{true, 0, 0, 0, 4 * time.Second}, {false, 0, 0, time.Minute, time.Minute}}},
	} {
		before := [2]State{s[0], s[1]}
		ok := TakeAll(s, t0, c.asks, d)
		if got := [2]want{wantOf(d[0]), wantOf(d[1])}; ok != c.ok || got != c.want {
			t.Errorf("step %d: TakeAll(%+v, %+v)\n got %v, %+v\nwant %v, %+v", i, before, c.asks, ok, got, c.ok, c.want)
		}
		if after := [2]State{s[0], s[1]}; !ok && after != before {
			t.Errorf("step %d: refused, yet the states went from %+v to %+v", i, before, after)
		}
	}
}

func TestTakeAllOfOneAndNone(t *testing.T) {
	if !TakeAll(nil, t0, nil, nil) {
		t.Error("TakeAll of nothing was refused")
	}
	a := []Ask{{Limit: Limit{Count: 1, Period: time.Second}, N: 1}}
	s, d := make([]State, 1), make([]Decision, 1)
	if ok := TakeAll(s, t0, a, d); !ok || d[0].N != 1 || s[0] == (State{}) {
		t.Errorf("first: %v, %+v, %+v; want it charged", ok, s, d)
	}
	before := s[0]
	if ok := TakeAll(s, t0, a, d); ok || d[0].RetryAfter != time.Second || s[0] != before {
		t.Errorf("second: %v, %+v, %+v; want it refused", ok, s, d)
	}
}
