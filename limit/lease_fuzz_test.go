package limit_test

import (
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// Whatever is asked and told, and however clocks go: no more is used than was
// granted, nothing too long after it was asked for, nothing overflows, and a
// refusal says when to come again.
func FuzzLease(f *testing.F) {
	f.Add(int64(1000), int64(0), int64(time.Second), int64(100*ms), []byte{1, 10, 0, 2, 20, 1, 255, 3, 2, 128, 64, 7, 9})
	f.Add(int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), []byte{255, 255, 255, 254, 1, 0, 3, 77, 1, 2})
	f.Add(int64(1), int64(5), int64(1), int64(1), []byte{5, 200, 3, 7, 17, 1, 33, 9, 128})
	f.Fuzz(func(t *testing.T, count, burst, period, life int64, steps []byte) {
		lim := limit.Limit{Kind: limit.Kind(count % 8), Count: count, Burst: burst, Period: time.Duration(period)}
		if lim.Kind == limit.SlidingLog || lim.Kind == limit.SlidingSlots {
			lim.Kind = limit.TokenBucket
		}
		var l limit.Lease
		var s limit.State
		used, granted := new(big.Int), new(big.Int)
		good := time.Duration(life)
		if good <= 0 {
			good = limit.DefaultLife
		}
		now := time.Unix(1_800_000_000, 0)
		for len(steps) >= 3 {
			how, size, gap := steps[0], steps[1], steps[2]
			steps = steps[3:]
			now = now.Add(time.Duration(int64(gap)-16) * 7 * ms)
			a := limit.Ask{Limit: lim, N: int64(size%16)<<(size/4) + 1}
			if !a.Leases() {
				continue
			}
			if how%3 == 0 { // others use some of it, without changing it
				used.Add(used, big.NewInt(useLent(t, &l, now, a, int64(how))))
			}
			counts := l.Want(a, time.Duration(life))
			if how%11 == 0 {
				l.Unwant(counts)
			}
			if look := l.Look(now, a); look.Remaining < 0 || look.ResetAfter < 0 || look.OK == (look.RetryAfter > 0) {
				t.Fatalf("%+v looks like %+v", a, look)
			}
			d, known := l.Take(now, a)
			switch {
			case known && d.OK && how%5 == 0:
				l.Back(a.N, l.Granted())
				continue
			case !known:
				put := l.Ask(now, a, time.Duration(life))
				if put.N < a.N || put.N > a.N && put.Min != a.N {
					t.Fatalf("asks %+v instead of %+v", put, a)
				}
				var told limit.Decision
				s, told = limit.Take(s, now.Add(time.Duration(how)*ms), put)
				granted.Add(granted, big.NewInt(told.N))
				if how%7 == 0 {
					l.Lost()
					continue
				}
				took := 2 * time.Duration(how) * ms
				d = l.Answer(now.Add(took), now, a, put, told, time.Duration(life), float64(how)/256)
				if late := took >= good; d.OK && late || told.OK && !d.OK && !late && !limit.Late(now.Add(took), now, good) {
					t.Fatalf("%v after it was asked for, of %v, it is %+v", took, good, d)
				}
			}
			if d.OK {
				used.Add(used, big.NewInt(d.N))
			}
			if d.OK && d.N != a.N || !d.OK && (d.N != 0 || d.RetryAfter <= 0) || d.Remaining < 0 || d.ResetAfter < 0 {
				t.Fatalf("%+v is answered %+v", a, d)
			}
			if used.Cmp(granted) > 0 {
				t.Fatalf("%v were used, %v granted", used, granted)
			}
		}
	})
}

// useLent has a asked three times of what l lends, and returns how much was used.
func useLent(t *testing.T, l *limit.Lease, now time.Time, a limit.Ask, refused int64) int64 {
	lent := l.Lend(1 << 40)
	left := lent
	for range 3 {
		d, known := l.Quick(now, a, left)
		left -= d.N
		if left < 0 || d.Remaining < 0 || d.OK && !known || known && d.OK == (d.RetryAfter > 0) {
			t.Fatalf("%+v of %d lent is answered %+v", a, left, d)
		}
	}
	l.Return(left, lent-left, refused)
	return lent - left
}
