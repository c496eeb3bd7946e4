package admit

import (
	"math"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
)

func TestForesee(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		limit limit.Limit
		d     limit.Decision
		n     int64
		want  time.Duration
	}{
		{perSecond(10), limit.Decision{Max: 1, ResetAfter: 100 * ms}, 1, 100 * ms},
		{perSecond(10), limit.Decision{Max: 1, ResetAfter: 40 * ms}, 3, 240 * ms},
		{limit.Limit{Count: 10, Period: s}, limit.Decision{Max: 10, ResetAfter: 900 * ms}, 1, 0},
		{limit.Limit{Count: 10, Period: s}, limit.Decision{Max: 10, ResetAfter: 900 * ms}, 2, 100 * ms},
		{limit.Limit{}, limit.Decision{Max: math.MaxInt64}, math.MaxInt64, 0},
		{limit.Limit{Period: s}, limit.Decision{}, 1, limit.Never},
		{limit.Limit{Count: 1, Period: math.MaxInt64}, limit.Decision{Max: 1, ResetAfter: 1}, 2, limit.Never},
		{limit.Limit{Count: 1, Period: math.MaxInt64}, limit.Decision{Max: 1}, 3, limit.Never},
		{limit.Limit{Count: 1, Period: math.MaxInt64}, limit.Decision{Max: 1}, 4, limit.Never},
		{limit.Limit{Kind: limit.FixedWindow, Count: 10, Period: s}, limit.Decision{Remaining: 3, ResetAfter: 200 * ms}, 3, 0},
		{limit.Limit{Kind: limit.FixedWindow, Count: 10, Period: s}, limit.Decision{Remaining: 3, ResetAfter: 200 * ms}, 13, 200 * ms},
		{limit.Limit{Kind: limit.FixedWindow, Count: 10, Period: s}, limit.Decision{Remaining: 3, ResetAfter: 200 * ms}, 14, 1200 * ms},
		{limit.Limit{Kind: limit.FixedWindow, Count: 10, Period: s}, limit.Decision{Remaining: 3, ResetAfter: 200 * ms, RetryAfter: 200 * ms}, 3, 0},
		{limit.Limit{Kind: limit.SlidingLog, Count: 10, Period: s}, limit.Decision{RetryAfter: 70 * ms}, 100, 70 * ms},
	} {
		if got := foresee(c.limit, c.d, c.n); got != c.want {
			t.Errorf("foresee(%+v, %+v, %d) = %v, want %v", c.limit, c.d, c.n, got, c.want)
		}
	}
}

// FuzzForesee lets those in line pass one by one, as early as they may, and
// compares.
func FuzzForesee(f *testing.F) {
	f.Add(false, uint16(3), uint16(1), uint32(1_000_000), uint8(1), []byte{1, 1, 1, 1})
	f.Add(false, uint16(7), uint16(20), uint32(999_999), uint8(19), []byte{5, 1, 20, 3})
	f.Add(true, uint16(5), uint16(0), uint32(60_000_000), uint8(5), []byte{1, 1, 1, 1, 1, 1, 1})
	f.Add(true, uint16(5), uint16(0), uint32(60_000_000), uint8(3), []byte{4, 2, 5, 1, 3})
	f.Fuzz(func(t *testing.T, window bool, count, burst uint16, micros uint32, used uint8, line []byte) {
		l := limit.Limit{Count: int64(count) + 1, Burst: int64(burst), Period: time.Duration(micros+1) * time.Microsecond}
		if window {
			l.Kind = limit.FixedWindow
		}
		now := time.Unix(1_700_000_000, 12345)
		s, first := limit.Take(limit.State{}, now, limit.Ask{Limit: l, N: min(int64(used), l.Max())})
		at, n, exact := now, int64(0), !window || first.ResetAfter > 0
		for _, b := range line {
			weight := min(int64(b%20)+1, l.Max())
			n, exact = n+weight, exact && (!window || weight == 1)
			after, d := limit.Take(s, at, limit.Ask{Limit: l, N: weight})
			if !d.OK {
				at = at.Add(d.RetryAfter)
				after, d = limit.Take(s, at, limit.Ask{Limit: l, N: weight})
			}
			if s = after; !d.OK {
				t.Fatalf("Take(%+v, %d) at %v = %+v, want it to pass after its RetryAfter", l, weight, at, d)
			}
			got, want := foresee(l, first, n), at.Sub(now)
			// Each of them may have waited a microsecond too long.
			if got > want+time.Microsecond || exact && got < want-time.Duration(len(line)+1)*time.Microsecond {
				t.Fatalf("foresee(%+v, %+v, %d) = %v, want %v", l, first, n, got, want)
			}
		}
	})
}
