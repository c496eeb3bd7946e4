package limit

import (
	"math"
	"math/big"
	"testing"
	"time"
)

// FuzzTake asks anything of anything: what must hold for every state, even one
// that nobody ever wrote.
func FuzzTake(f *testing.F) {
	now := t0.UnixMicro()
	extremes := []int64{math.MinInt64, math.MinInt64 + 1, -1, 0, 1, 3, 1 << 58, math.MaxInt64 - 1, math.MaxInt64}
	for i, x := range extremes {
		for j, y := range extremes {
			for kind := range uint8(unknownKind) {
				f.Add(kind, x, y, int64(time.Second), now+x, y, x, now, x, y, i%2 == 0)
				f.Add(kind, int64(10), int64(5), x, x, y, y, now, int64(1), int64(0), j%2 == 0)
				f.Add(kind, int64(10), x, int64(time.Hour), y, x, y, y, y, x, false)
			}
		}
	}
	f.Fuzz(func(t *testing.T, kind uint8, count, burst, period, full, used, before, now, n, low int64, debt bool) {
		l := Limit{Kind: Kind(kind), Count: count, Burst: burst, Period: time.Duration(period)}
		if l.Kind.keptApart() {
			return // no State holds it
		}
		a := Ask{Limit: l, N: n, Min: low, Debt: debt}
		checkTake(t, State{T: full, N: used, P: before}, now, a)
	})
}

func checkTake(t *testing.T, s State, now int64, a Ask) {
	next, d := Take(s, time.UnixMicro(now), a)
	fail := func(what string) {
		t.Helper()
		t.Fatalf("Take(%+v, %d, %+v) = %+v, %+v: %s", s, now, a, next, d, what)
	}
	if d.Remaining < 0 || d.Remaining > d.Max || d.Max != a.Limit.Max() {
		fail("Remaining is not within zero and Most")
	}
	if d.ResetAfter < 0 || d.OK != (d.RetryAfter == 0) || d.RetryAfter < 0 || !d.OK && d.N != 0 {
		fail("the answer contradicts itself")
	}
	if max(now, -now) > 1<<60 || now == math.MinInt64 {
		return // beyond the calendar it is enough not to break
	}
	_, peek := Take(s, time.UnixMicro(now), Ask{Limit: a.Limit})
	checkCharge(fail, a, peek, d)
	if d.N == 0 {
		if again, d2 := Take(next, time.UnixMicro(now), a); again != next || d2 != d {
			fail("asked again, nothing having changed, the answer is another")
		}
	}
	if d.N != 0 && a.Limit.counts() && next.live(now) != (d.ResetAfter > 0) {
		fail("ResetAfter is not until T")
	}
	if fresh, d2 := Take(State{}, time.UnixMicro(now), a); s.T <= now && (d2 != d || fresh != next && next != s) {
		fail("T has passed, yet it is not as a key never seen")
	}
	checkRetry(fail, next, now, a, d)
	_, early := Take(s, time.UnixMicro(now-now%977-977), Ask{Limit: a.Limit})
	if early.Remaining > peek.Remaining {
		fail("an earlier time grants more")
	}
}

// checkCharge compares d with a peek at the same time.
func checkCharge(fail func(string), a Ask, peek, d Decision) {
	switch {
	case a.Limit.Unlimited():
		if !d.OK || d.N != a.N || d.Remaining != math.MaxInt64 {
			fail("unlimited, yet not")
		}
	case d.N > 0 && !a.Debt && (d.N > peek.Remaining || d.N > a.N || d.N < min(a.N, max(a.Min, 1))):
		fail("more or less was granted than there was")
	case d.N > 0 && d.Remaining != max(peek.Remaining-d.N, 0):
		fail("Remaining is not what was left after the charge")
	case d.N < 0 && (d.N < a.N || d.Remaining < peek.Remaining || d.Remaining-peek.Remaining > -d.N):
		fail("giving back took away")
	case d.N == 0 && d.Remaining != peek.Remaining:
		fail("Remaining is not what a peek says")
	case !d.OK && a.N > 0 && a.N <= peek.Remaining:
		fail("refused what there was")
	}
}

// checkRetry asks just before and at the time that a refusal promised.
func checkRetry(fail func(string), next State, now int64, a Ask, d Decision) {
	if d.OK || d.RetryAfter == Never {
		return
	}
	wait := int64(d.RetryAfter / us)
	if time.Duration(wait)*us != d.RetryAfter {
		fail("RetryAfter is not a whole number of microseconds")
	}
	if s, d2 := Take(next, time.UnixMicro(now+wait-1), a); d2.OK || s != next {
		fail("passed earlier than RetryAfter")
	}
	if _, d2 := Take(next, time.UnixMicro(now+wait), a); !d2.OK {
		fail("refused after RetryAfter")
	}
}

// FuzzBucket lets many come at any time, half of them overtaken by others by up
// to a second: no span of time of any length admits more than
// Burst + Count × length / Period.
func FuzzBucket(f *testing.F) {
	f.Add(int64(10), int64(3), int64(1_000_000), []byte("each byte is a step or a question, and some of both"))
	f.Add(int64(600_000_000), int64(1), int64(1_000_000), []byte{0, 1, 255, 255, 3, 3, 3, 254, 253, 7, 7, 7})
	f.Add(int64(1), int64(1), int64(1), []byte{1, 200, 1, 1, 1, 201, 1, 1, 1, 1, 202, 1, 1})
	f.Fuzz(func(t *testing.T, count, burst, period int64, script []byte) {
		if count <= 0 || period <= 0 || period > 1e15 || len(script) > 200 {
			return
		}
		l := Limit{Count: count, Burst: burst, Period: time.Duration(period) * us}
		var events []event
		walk(l, script, func(_ State, now int64, d Decision) {
			events = append(events, event{now, d.N})
		})
		checkSpans(t, l, events)
	})
}

type event struct{ at, n int64 }

// walk answers a script that begins at t0 and goes now forth, now back.
func walk(l Limit, script []byte, taken func(State, int64, Decision)) {
	var s State
	now, latest := t0.UnixMicro(), t0.UnixMicro()
	step := max(l.micros()/8, 1)
	for i, b := range script {
		switch {
		case b == 255: // as far back as may be
			now = latest - skew
		case b >= 250: // back a little
			now = max(now-int64(b-249)*step/4, latest-skew)
		case b >= 200:
			now += int64(b-199) * step / 16
		case b >= 190: // with the others again
			now = max(now, latest)
		default:
			latest = max(latest, now)
			ask := Ask{Limit: l, N: 1 + int64(b%8)*int64(b%8)*l.Max()/64}
			if i%3 == 0 {
				ask.Min = 1
			}
			var d Decision
			if s, d = Take(s, time.UnixMicro(now), ask); d.N > 0 {
				taken(s, now, d)
			}
		}
	}
}

func checkSpans(t *testing.T, l Limit, events []event) {
	period, count, burst := big.NewInt(l.micros()), big.NewInt(l.Count), big.NewInt(l.Max())
	for i := range events {
		sum := new(big.Int)
		for j := i; j < len(events); j++ {
			sum.Add(sum, big.NewInt(events[j].n))
			over := new(big.Int).Sub(sum, burst)
			over.Mul(over, period)
			length := big.NewInt(events[j].at - events[i].at)
			if over.Cmp(length.Mul(length, count)) > 0 {
				t.Fatalf("%+v admitted %v between event %d and %d of %v", l, sum, i, j, events)
			}
		}
	}
}

// FuzzWindow is the same for fixed windows: what is taken counts in a window
// that has not ended, no window counts more than Count, and none comes back.
func FuzzWindow(f *testing.F) {
	f.Add(int64(10), int64(1_000_000), []byte("each byte is a step or a question, and some of both"))
	f.Add(int64(3), int64(60_000_000), []byte{7, 215, 7, 255, 1, 1, 1, 199, 1, 1, 1, 1})
	f.Add(int64(1), int64(1), []byte{1, 200, 1, 1, 1, 201, 1, 1, 250, 1, 1, 202, 1, 1})
	f.Fuzz(func(t *testing.T, count, period int64, script []byte) {
		if count <= 0 || period <= 0 || period > 1e15 || len(script) > 200 {
			return
		}
		l := Limit{Kind: FixedWindow, Count: count, Period: time.Duration(period) * us}
		end, sum := int64(0), int64(0)
		walk(l, script, func(s State, now int64, d Decision) {
			if s.T%period != 0 || s.T <= now || s.T < end {
				t.Fatalf("%+v: at %d, taken in the window that ends %d, after one that ends %d", l, now, s.T, end)
			}
			if s.T > end {
				end, sum = s.T, 0
			}
			if sum += d.N; sum > count || sum <= 0 {
				t.Fatalf("%+v: the window that ends %d admitted %d", l, end, sum)
			}
		})
	})
}
