package limit

import (
	"testing"
	"time"
)

func BenchmarkTake(b *testing.B) {
	for _, c := range []struct {
		name string
		Limit
		step time.Duration
	}{
		{"bucket/allowed", Limit{Count: 3000, Period: time.Second}, ms},
		{"bucket/denied", Limit{Count: 3, Period: time.Second}, 0},
		{"window/allowed", Limit{Kind: FixedWindow, Count: 3000, Period: time.Second}, ms},
		{"window/denied", Limit{Kind: FixedWindow, Count: 3, Period: time.Second}, 0},
		{"first-hit/allowed", Limit{Kind: FirstHitWindow, Count: 3000, Period: time.Second}, ms},
		{"sliding/allowed", Limit{Kind: SlidingWindow, Count: 3000, Period: time.Second}, ms},
		{"sliding/denied", Limit{Kind: SlidingWindow, Count: 3, Period: time.Second}, 0},
		{"calendar/allowed", Limit{Kind: CalendarWindow, Count: 1 << 40, Period: Month}, ms},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			s, now := State{}, t0
			for b.Loop() {
				s, _ = Take(s, now, Ask{Limit: c.Limit, N: 1})
				now = now.Add(c.step)
			}
		})
	}
}

func BenchmarkSlots(b *testing.B) {
	b.ReportAllocs()
	var s Slots
	for now := t0; b.Loop(); now = now.Add(ms) {
		s.Take(now, Ask{Limit: Limit{Count: 3000, Period: time.Second}, N: 1})
	}
}

func BenchmarkTakeAll(b *testing.B) {
	b.ReportAllocs()
	a := []Ask{{Limit: Limit{Count: 3000, Period: time.Second}, N: 1}, {Limit: Limit{Kind: FixedWindow, Count: 3000, Period: time.Second}, N: 1}}
	s, d := make([]State, 2), make([]Decision, 2)
	for now := t0; b.Loop(); now = now.Add(ms) {
		TakeAll(s, now, a, d)
	}
}

// Deciding allocates nothing, whatever the answer.
func TestTakeAllocatesNothing(t *testing.T) {
	for _, l := range kinds {
		s, now := State{}, t0
		if got := testing.AllocsPerRun(100, func() {
			s, _ = Take(s, now, Ask{Limit: l, N: 1})
			now = now.Add(time.Second)
		}); got != 0 {
			t.Errorf("Take(%+v) allocates %v times", l, got)
		}
	}
}
