package limit

import (
	"testing"
	"time"
)

// longestLockout is how long a key may be refused, after whatever the clock did, until one
// event of it passes.
func longestLockout(l Limit) time.Duration {
	switch l.Kind {
	case TokenBucket:
		return 2*time.Duration(l.Max())*l.Period/time.Duration(l.Count) + time.Second
	case SlidingWindow:
		return 3*l.Period + time.Second
	case SlidingLog:
		return l.Period + time.Second
	case SlidingSlots:
		return l.Period + 2*l.Period/10 + time.Second
	case CalendarWindow:
		return 2 * 24 * time.Hour
	}
	return 2*l.Period + time.Second
}

// FuzzClockSetBack lets the clock jump, by up to years, under limits of all kinds: an earlier
// time never finds more than the one before it, and a key that is refused passes in bounded time, by
// the clock as it is now.
func FuzzClockSetBack(f *testing.F) {
	for kind := range unknownKind {
		f.Add(uint8(kind), uint16(5), uint16(600), []byte{0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 3, 0, 250, 0, 0})
		f.Add(uint8(kind), uint16(1), uint16(1), []byte{0, 9, 0, 131, 0, 0, 66, 0, 0, 255, 0})
		f.Add(uint8(kind), uint16(100), uint16(36_000), []byte{4, 4, 4, 4, 3, 4, 3, 4, 3, 251, 4, 4})
	}
	f.Fuzz(func(t *testing.T, kind uint8, count, tenths uint16, script []byte) {
		l := Limit{Kind: Kind(kind) % unknownKind, Count: int64(count)%1000 + 1, Period: time.Duration(tenths%36_000+1) * 100 * time.Millisecond}
		if l.Kind == CalendarWindow {
			l.Period = day
		}
		k, now, before := keeper{Limit: l}, t0, t0
		take := func(now time.Time, n int64) Decision { return k.take(now, Ask{Limit: l, N: n}) }
		for _, b := range script[:min(len(script), 200)] {
			step := l.Period * time.Duration(b>>2) / 16 // up to four Periods
			switch left := take(now, 0).Remaining; b & 3 {
			case 0:
				take(now, 1)
			case 1:
				now = now.Add(step)
			case 2:
				take(now, left)
			case 3:
				if now = now.Add(-step); b>>2 > 60 {
					now = now.AddDate(-int(b>>2), 0, 0)
				}
				if d := take(now, 0); d.Remaining > left {
					t.Fatalf("%+v: %d are left %v after %v, when the clock showed %v: %d", l, d.Remaining, now, before, before, left)
				}
			}
			before = now
		}
		d := take(now, 1)
		if d.OK {
			return
		}
		if most := longestLockout(l); d.RetryAfter > most {
			t.Fatalf("%+v: refused for %v, want at most %v", l, d.RetryAfter, most)
		}
		if late := take(now.Add(d.RetryAfter), 1); !late.OK {
			t.Fatalf("%+v: refused for %v, and after that: %+v", l, d.RetryAfter, late)
		}
	})
}
