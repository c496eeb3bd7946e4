package limit

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// fastLimits have denominators that are small, large, just too large, and one.
var fastLimits = []Limit{
	{Count: 100, Period: time.Second},
	{Count: 3, Period: time.Second},
	{Count: 7, Period: time.Millisecond, Burst: 20},
	{Count: 600_000_000, Period: time.Second},
	{Count: 600_000_000, Period: time.Second, Burst: 1},
	{Count: 65_536, Period: 65_535 * time.Microsecond},
	{Count: 65_537, Period: 65_535 * time.Microsecond},
	{Count: 1, Period: 24 * time.Hour},
	{Count: 1000, Period: time.Hour, Burst: 5},
	{Count: 1, Period: 400 * 24 * time.Hour, Burst: 2},
	{Count: math.MaxInt64, Period: time.Second},
	{Count: 1, Period: math.MaxInt64},
	{Kind: FixedWindow, Count: 5, Period: time.Second},
	{Kind: FixedWindow, Count: 65_535, Period: time.Minute},
	{Kind: FixedWindow, Count: 65_536, Period: time.Minute},
	{},
	{Period: time.Second},
	{Kind: SlidingWindow, Count: 5, Period: time.Second},
	{Kind: FirstHitWindow, Count: 5, Period: time.Second},
	{Kind: CalendarWindow, Count: 5, Period: time.Minute},
}

// agrees asks Fast and Take the same, and returns what Take keeps.
func agrees(t *testing.T, l Limit, s State, base, now int64) (next State, known bool) {
	t.Helper()
	f := FastOf(l)
	next, d := Take(s, time.UnixMicro(base+now), Ask{Limit: l, N: 1})
	w, packs := f.Pack(s, base)
	if !packs {
		return next, false
	}
	if back := f.Unpack(w, base); back != s && s.T > base {
		t.Fatalf("%+v: Unpack(Pack(%+v)) = %+v", l, s, back)
	}
	if got, known := f.Used(w, now); known {
		if want := Used(s, time.UnixMicro(base+now), l); got != want {
			t.Fatalf("%+v, %+v at %d+%d: Used = %d, want %d", l, s, base, now, got, want)
		}
	}
	for _, n := range []int64{1, 0, 2, -1, l.Max() / 3, l.Max(), l.Max() + 1} {
		takesAlike(t, &f, Ask{Limit: l, N: n}, s, base, now)
	}
	w2, ok, known := f.Allow(w, now)
	if !known {
		return next, false
	}
	if _, known := f.Take(w, now, 1, new(Decision)); !known {
		t.Fatalf("%+v, %+v at %d+%d: Allow knows, Take does not", l, s, base, now)
	}
	if ok != d.OK {
		t.Fatalf("%+v, %+v at %d+%d: Allow = %v, Take = %+v", l, s, base, now, ok, d)
	}
	if got := f.Unpack(w2, base); ok && got != next {
		t.Fatalf("%+v, %+v at %d+%d: Allow keeps %+v, Take %+v", l, s, base, now, got, next)
	}
	return next, true
}

// takesAlike asks Fast.Take and Take the same, and compares all that they say.
func takesAlike(t *testing.T, f *Fast, a Ask, s State, base, now int64) {
	t.Helper()
	w, _ := f.Pack(s, base)
	var got Decision
	w2, known := f.Take(w, now, a.N, &got)
	if !known {
		if got != (Decision{}) {
			t.Fatalf("%+v, %+v at %d+%d: Fast.Take says %+v, but not known", a, s, base, now, got)
		}
		return
	}
	next, want := Take(s, time.UnixMicro(base+now), a)
	if want.At = (time.Time{}); got != want {
		t.Fatalf("%+v, %+v at %d+%d: Fast.Take says %+v, Take %+v", a, s, base, now, got, want)
	}
	if charged := want.OK && a.N != 0; charged && f.Unpack(w2, base) != next || !charged && w2 != w {
		t.Fatalf("%+v, %+v at %d+%d: Fast.Take keeps %x of %x, Take %+v", a, s, base, now, w2, w, next)
	}
}

// TestFastAgrees walks through time as traffic does, often at the same instant
// and now and then back by a little.
func TestFastAgrees(t *testing.T) {
	const base = 1_700_000_000_000_000
	for i, l := range fastLimits {
		rng := rand.New(rand.NewPCG(1, uint64(i)))
		step := max(l.micros()/max(l.Count, 1), 1)
		s, now, known := State{}, int64(0), 0
		for range 50_000 {
			switch rng.IntN(8) {
			case 0:
				now += rng.Int64N(min(4*step, 1<<30))
			case 1:
				now += rng.Int64N(min(step/2+1, 1<<30))
			case 2:
				now = max(now-rng.Int64N(1000), 0)
			}
			if rng.IntN(100) == 0 {
				s, _ = Take(s, time.UnixMicro(base+now), Ask{Limit: l, N: rng.Int64N(min(l.Max(), 1<<40)/50 + 2), Debt: true})
			}
			var k bool
			if s, k = agrees(t, l, s, base, now); k {
				known++
			}
		}
		f := FastOf(l)
		if !f.Wide() && known < 1000 {
			t.Errorf("%+v: Fast knew %d of 50000, want more", l, known)
		}
	}
}

func FuzzFast(f *testing.F) {
	f.Add(uint8(0), int64(100), int64(5), int64(1e9), int64(10), int64(3), int64(7))
	f.Add(uint8(1), int64(100), int64(5), int64(1e9), int64(10), int64(3), int64(7))
	f.Add(uint8(0), int64(600_000_000), int64(1), int64(1e9), int64(1e12), int64(1_000_000), int64(1e12))
	f.Fuzz(func(t *testing.T, kind uint8, count, burst, period, ahead, n, now int64) {
		l := Limit{Kind: Kind(kind) % unknownKind, Count: count, Burst: burst, Period: time.Duration(period)}
		if l.Kind.keptApart() {
			return // no State holds it
		}
		const base = 1_700_000_000_000_000
		now = max(now, 0)
		if now > math.MaxInt64-2*base {
			return
		}
		s, _ := agrees(t, l, State{T: base + now + ahead>>8, N: n}, base, now)
		for range 5 {
			s, _ = agrees(t, l, s, base, now)
		}
	})
}

func BenchmarkFastAllow(b *testing.B) {
	f := FastOf(Limit{Count: 3, Period: time.Second})
	w := uint64(0)
	for now := int64(0); b.Loop(); now += 1000 {
		if next, ok, known := f.Allow(w, now); ok && known {
			w = next
		}
	}
}
