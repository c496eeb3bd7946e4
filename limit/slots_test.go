package limit

import (
	"math"
	"slices"
	"testing"
	"time"
)

func TestSlots(t *testing.T) {
	const s = time.Second
	l := Limit{Kind: SlidingSlots, Count: 3, Period: 10 * s, Slots: 5} // of 2 s
	var slots Slots
	for i, r := range []row{
		{0, n(0), want{true, 0, 3, 0, 0}},
		{s, n(1), want{true, 1, 2, 0, 11 * s}}, // leaves 10 s after the end of its slot
		{4 * s, n(2), want{true, 2, 0, 0, 12 * s}},
		{5 * s, n(0), want{true, 0, 0, 0, 11 * s}},
		{5 * s, n(1), want{false, 0, 0, 7 * s, 11 * s}},
		{5 * s, n(2), want{false, 0, 0, 11 * s, 11 * s}},
		{5 * s, n(4), want{false, 0, 0, Never, 11 * s}},
		{12*s - us, n(1), want{false, 0, 0, us, 4*s + us}},
		{12 * s, part(1, 3), want{true, 1, 0, 0, 12 * s}},
		{15 * s, n(-2), want{true, -2, 2, 0, s}}, // the newest first
		{15 * s, n(-2), want{true, -1, 3, 0, 0}},
		{time.Hour, debt(9), want{true, 6, 0, 0, 12 * s}},
		{time.Hour, n(0), want{false, 0, 0, 12 * s, 12 * s}},
		{time.Hour, n(-4), want{true, -4, 1, 0, 12 * s}}, // at most 3 were owed
		{2 * time.Hour, n(math.MinInt64), want{true, 0, 3, 0, 0}},
		{2 * time.Hour, debt(math.MaxInt64), want{true, 6, 0, 0, 12 * s}},
	} {
		r.ask.Limit = l
		d := slots.Take(t0.Add(r.at), r.ask)
		if got := wantOf(d); got != r.want || d.Max != 3 || !d.At.Equal(t0.Add(r.at)) {
			t.Errorf("row %d: Take(t0+%v, %+v)\n got %+v\nwant %+v", i, r.at, r.ask, got, r.want)
		}
	}
}

func TestSlotsOfALimit(t *testing.T) {
	for _, c := range []struct {
		slots    int32
		period   time.Duration
		width, n int64
	}{
		{0, 10 * us, 1, 10},
		{-4, time.Second, 100_000, 10},
		{3, 10 * us, 4, 3},
		{10, us, 1, 1},
		{10, 11 * us, 2, 6},
		{1, time.Hour, int64(time.Hour / us), 1},
		{math.MaxInt32, time.Second, 1000, MaxSlots},
		{1000, 1001 * us, 2, 501},
	} {
		l := Limit{Slots: c.slots, Period: c.period}
		if width, n := l.slots(); width != c.width || n != c.n {
			t.Errorf("%d slots of %v: %d of %d us, want %d of %d us", c.slots, c.period, n, width, c.n, c.width)
		}
	}
}

func TestSlotsAnyLimit(t *testing.T) {
	for _, now := range []int64{math.MinInt64, -1, 0, 1, t0.UnixMicro(), math.MaxInt64} {
		for _, count := range []int64{math.MinInt64, 0, 1, math.MaxInt64} {
			for _, period := range []time.Duration{-1, 0, 1, time.Hour, math.MaxInt64} {
				for _, slots := range []int32{math.MinInt32, 0, 1, math.MaxInt32} {
					var s Slots
					l := Limit{Count: count, Period: period, Slots: slots}
					d := s.Take(time.UnixMicro(now), Ask{Limit: l, N: 1})
					if ok := period <= 0 || count > 0; d.OK != ok || d.Max != l.Max() || d.ResetAfter < 0 || d.OK == (d.RetryAfter > 0) {
						t.Errorf("%v at %d: %+v", l, now, d)
					}
					if d := s.Take(time.UnixMicro(now), Ask{Limit: l, N: 1}); d.OK != (period <= 0 || count > 1) {
						t.Errorf("%v at %d: the second: %+v", l, now, d)
					}
				}
			}
		}
	}
}

// What was taken counts under another limit too, and none leaves early.
func TestSlotsChange(t *testing.T) {
	var s Slots
	l := Limit{Count: 10, Period: time.Minute}
	s.Take(t0, Ask{Limit: l, N: 8})
	for _, c := range []struct {
		l     Limit
		at    time.Duration
		left  int64
		reset time.Duration
	}{
		{Limit{Count: 20, Period: time.Minute}, time.Second, 12, 65 * time.Second},
		{Limit{Count: 10, Period: time.Hour}, time.Second, 2, 66*time.Minute - time.Second},
		{Limit{Count: 10, Period: time.Minute, Slots: 60}, time.Second, 2, 62 * time.Second},
		{Limit{Count: 5, Period: time.Minute, Slots: 60}, time.Second, 0, 62 * time.Second},
	} {
		if d := s.Take(t0.Add(c.at), Ask{Limit: c.l}); d.Remaining != c.left || d.ResetAfter != c.reset {
			t.Errorf("under %v: %+v, want %d left, reset after %v", c.l, d, c.left, c.reset)
		}
	}
}

// Under a shorter Period nothing counts that has left it, however long ago it was taken.
func TestSlotsShorterPeriod(t *testing.T) {
	hour, minute := Limit{Kind: SlidingSlots, Count: 10, Period: time.Hour}, Limit{Kind: SlidingSlots, Count: 10, Period: time.Minute}
	for after := 3 * time.Minute; after < 2*time.Hour; after += 7 * time.Second {
		var s Slots
		s.Take(t0, Ask{Limit: hour, N: 4})
		s.Take(t0.Add(10*time.Minute), Ask{Limit: hour, N: 4})
		at, want := t0.Add(10*time.Minute+after), int64(0)
		if used := s.Used(at, minute); used != want {
			t.Fatalf("%v after the last event, under %v: %d used, want %d", after, minute, used, want)
		}
	}
}

// What was given back leaves no mark on the time: a slot that is empty again is
// not one to answer as of.
func TestSlotsGivenBackThenBefore(t *testing.T) {
	var s Slots
	l := Limit{Count: 3, Period: 100 * us}
	s.Take(t0, Ask{Limit: l, N: 1})
	s.Take(t0.Add(900*ms), Ask{Limit: l, N: 2})
	s.Take(t0.Add(900*ms), Ask{Limit: l, N: -2})
	for i, want := range []want{{true, 1, 2, 0, 110 * us}, {true, 1, 1, 0, 110 * us}, {true, 1, 0, 0, 110 * us}, {false, 0, 0, 110 * us, 110 * us}} {
		if d := s.Take(t0.Add(10*ms), Ask{Limit: l, N: 1}); wantOf(d) != want {
			t.Errorf("take %d: %+v, want %+v", i, wantOf(d), want)
		}
	}
}

// naiveSlots remembers all that was taken.
type naiveSlots struct {
	count, width, n int64
	events          []event // at a slot
}

func (s *naiveSlots) slot(now int64) int64 {
	slot := now / s.width
	for _, e := range s.events {
		slot = max(slot, e.at)
	}
	return slot
}

func (s *naiveSlots) used(now int64) (used int64) {
	for _, e := range s.events {
		if e.at+s.n >= s.slot(now) {
			used += e.n
		}
	}
	return used
}

func (s *naiveSlots) left(now int64) int64 { return s.count - s.used(now) }
func (s *naiveSlots) empty(now int64) bool { return s.used(now) == 0 }

func (s *naiveSlots) clamp(now int64) {
	for i := range s.events {
		s.events[i].at = min(s.events[i].at, (now+skew)/s.width)
	}
}

func (s *naiveSlots) take(now, n int64) {
	slot := s.slot(now)
	if n > 0 {
		s.events = slices.DeleteFunc(s.events, func(e event) bool { return e.at+s.n < slot })
	}
	n = min(n, 2*s.count-s.used(now))
	for i := len(s.events) - 1; n < 0 && i >= 0 && s.events[i].at+s.n >= slot; i-- {
		part := min(s.events[i].n, -n)
		n += part
		s.events[i].n -= part
	}
	if n > 0 {
		s.events = append(s.events, event{slot, n})
	}
	s.events = slices.DeleteFunc(s.events, func(e event) bool { return e.n == 0 })
}

func checkSlots(t testing.TB, count, period int64, script []byte) int {
	l := Limit{Kind: SlidingSlots, Count: count, Slots: int32(count%70 - 1), Period: time.Duration(period) * us}
	var slots Slots
	ref := &naiveSlots{count: count}
	ref.width, ref.n = l.slots()
	p := player{TB: t, limit: l, take: slots.Take, naive: ref, now: t0.UnixMicro(), back: 2 * (period + skew)}
	p.play(script)
	if int64(len(slots.ring)) > MaxSlots+1 {
		t.Fatalf("%v: %d slots", l, len(slots.ring))
	}
	return p.steps
}

func FuzzSlots(f *testing.F) { fuzzScripts(f, checkSlots) }

func TestSoakSlots(t *testing.T) { soak(t, checkSlots) }

// FuzzSlotsBound: no window of any place has more than Count, and who is
// refused would find more than that in a Period and a slot.
func FuzzSlotsBound(f *testing.F) {
	fuzzScripts(f, func(t testing.TB, count, period int64, script []byte) int {
		l := Limit{Kind: SlidingSlots, Count: count, Slots: int32(1 + count%7), Period: time.Duration(period) * us}
		width, _ := l.slots()
		var slots Slots
		var taken []event
		within := func(now, length int64) (n int64) {
			for _, e := range taken {
				if e.at > now-length {
					n += e.n
				}
			}
			return n
		}
		now := t0.UnixMicro()
		for _, b := range script {
			if b >= 128 {
				now += int64(b-128) * max(period/64, 1)
				continue
			}
			n := 1 + int64(b)*count/256
			d := slots.Take(time.UnixMicro(now), Ask{Limit: l, N: n})
			switch {
			case d.OK:
				taken = append(taken, event{now, n})
				if sum := within(now, period); sum > count {
					t.Fatalf("%v: %d in the Period before %d: %v", l, sum, now, taken)
				}
			case within(now, period+2*width)+n <= count:
				t.Fatalf("%v: refused %d at %d: %v", l, n, now, taken)
			}
		}
		return len(script)
	})
}

func TestSlotsAllocateOnce(t *testing.T) {
	var s Slots
	now, l := t0, Limit{Count: 10, Period: time.Second, Slots: 100}
	s.Take(now, Ask{Limit: l, N: 1})
	if n := testing.AllocsPerRun(1000, func() { now = now.Add(37 * ms); s.Take(now, Ask{Limit: l, N: 1}) }); n != 0 {
		t.Errorf("Take allocates %v times", n)
	}
}

// What may be owed is bounded, and what allows nothing or all answers the same, for
// each kind, whether it keeps a State or not.
func TestKindsAgreeAtTheBounds(t *testing.T) {
	for kind := range Kind(unknownKind) {
		var s State
		var log Log
		var slots Slots
		take := func(count int64, a Ask) (d Decision, used int64) {
			a.Limit = Limit{Kind: kind, Count: count, Period: time.Hour}
			switch kind {
			case SlidingLog:
				d = log.Take(t0, a)
				return d, log.Used(t0, a.Limit)
			case SlidingSlots:
				d = slots.Take(t0, a)
				return d, slots.Used(t0, a.Limit)
			}
			s, d = Take(s, t0, a)
			return d, Used(s, t0, a.Limit)
		}
		for _, n := range []int64{3, 10, 30, math.MaxInt64} {
			if _, used := take(10, Ask{N: n, Debt: true}); used > 20 {
				t.Errorf("%v: %d of 10 are used after a debt of %d, want at most one more Count owed", kind, used, n)
			}
		}
		for _, count := range []int64{0, -1} {
			for _, n := range []int64{-1, 0, 1} {
				d, used := take(count, Ask{N: n})
				if d.OK != (n < 0) || d.N != 0 || d.Remaining != 0 || (d.RetryAfter == Never) != !d.OK || used != 0 {
					t.Errorf("%v of nothing: %d is answered %+v, %d used; want only refunds taken, and forgotten", kind, n, d, used)
				}
			}
		}
		free := Limit{Kind: kind, Count: 10}
		if n := log.Used(t0, free) + slots.Used(t0, free) + Used(s, t0, free); n != 0 {
			t.Errorf("%v: %d of all are used, want none", kind, n)
		}
	}
}
