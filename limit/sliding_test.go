package limit

import (
	"math"
	"math/big"
	"testing"
	"time"
)

func TestTakeSlidingWindow(t *testing.T) {
	const s = time.Second
	run(t, Limit{Kind: SlidingWindow, Count: 10, Period: 10 * s, Burst: 99}, []row{
		{0, n(0), want{true, 0, 10, 0, 0}},
		{5 * s, n(8), want{true, 8, 2, 0, 15 * s}},
		{5 * s, n(3), want{false, 0, 2, 5*s + 625*ms, 15 * s}}, // 8 × left/10 s <= 7.5
		{5 * s, n(11), want{false, 0, 2, Never, 15 * s}},
		{10 * s, n(3), want{false, 0, 2, 625 * ms, 10 * s}},
		{10*s + 625*ms - us, n(3), want{false, 0, 2, us, 9*s + 375*ms + us}},
		{10*s + 625*ms, n(3), want{true, 3, 0, 0, 19*s + 375*ms}},
		{15 * s, n(0), want{true, 0, 3, 0, 15 * s}}, // 3 + 8/2
		{15 * s, n(-1), want{true, -1, 4, 0, 15 * s}},
		{15 * s, n(-6), want{true, -6, 8, 0, 5 * s}}, // 2 of this window, 4 of the one before
		{15 * s, n(-9), want{true, -4, 10, 0, 0}},
		{15 * s, debt(25), want{true, 20, 0, 0, 15 * s}},
		{15 * s, n(0), want{false, 0, 0, 9*s + 750*ms, 15 * s}}, // at most 10 are owed: 20 × left/10 s <= 10.5
		{24*s + 750*ms, n(0), want{true, 0, 0, 0, 5*s + 250*ms}},
		{24*s + 750*ms, debt(math.MaxInt64), want{true, 10, 0, 0, 15*s + 250*ms}},
		{100 * s, part(1, 50), want{true, 10, 0, 0, 20 * s}},
		{115 * s, part(1, 50), want{true, 5, 0, 0, 15 * s}},
		{200 * s, n(10), want{true, 10, 0, 0, 20 * s}},
		{210 * s, debt(math.MaxInt64), want{true, 10, 0, 0, 20 * s}}, // 10 of this window, 10 of the one before
		{210 * s, n(0), want{false, 0, 0, 9*s + 500*ms, 20 * s}},
		{220 * s, n(0), want{true, 0, 0, 0, 10 * s}},
	})
}

// Rounding must not keep the only one that may pass from passing: it does once
// the other, half of it left to cover, weighs no more than a half.
func TestSlidingWindowOfOne(t *testing.T) {
	l := Limit{Kind: SlidingWindow, Count: 1, Period: time.Minute}
	run(t, l, []row{
		{0, n(1), want{true, 1, 0, 0, 2 * time.Minute}},
		{time.Second, n(1), want{false, 0, 0, 89 * time.Second, 119 * time.Second}},
		{90 * time.Second, n(1), want{true, 1, 0, 0, 90 * time.Second}},
		{150 * time.Second, n(1), want{true, 1, 0, 0, 90 * time.Second}},
	})
}

func TestSlidingWindowHuge(t *testing.T) {
	run(t, Limit{Kind: SlidingWindow, Count: math.MaxInt64, Period: time.Minute}, []row{
		{0, n(math.MaxInt64), want{true, math.MaxInt64, 0, 0, 2 * time.Minute}},
		{0, n(1), want{false, 0, 0, time.Minute + us, 2 * time.Minute}},
		{time.Minute + us, n(1), want{true, 1, 153722867280, 0, 2*time.Minute - us}},
		{90 * time.Second, n(0), want{true, 0, math.MaxInt64 / 2, 0, 90 * time.Second}},
		{90 * time.Second, debt(math.MaxInt64), want{true, math.MaxInt64 / 2, 0, 0, 90 * time.Second}},
	})
}

// A window begins at its edge and not after it; one who was overtaken finds
// what the others left, as at the beginning of their window.
func TestSlidingWindowEdge(t *testing.T) {
	const s = time.Second
	run(t, Limit{Kind: SlidingWindow, Count: 10, Period: 10 * s}, []row{
		{0, n(4), want{true, 4, 6, 0, 20 * s}},
		{10 * s, n(1), want{true, 1, 5, 0, 20 * s}},
		{10*s - us, n(0), want{true, 0, 5, 0, 20*s + us}},
		{5 * s, n(0), want{true, 0, 5, 0, 25 * s}},
		{5 * s, n(6), want{false, 0, 5, 6*s + 250*ms, 25 * s}},
		{5 * s, n(5), want{true, 5, 0, 0, 25 * s}},
		{11*s + 250*ms - us, n(0), want{true, 0, 0, 0, 18*s + 750*ms + us}},
		{11*s + 250*ms, n(1), want{true, 1, 0, 0, 18*s + 750*ms}},
	})
}

// naiveSliding keeps what each window has used, exact shares as fractions.
type naiveSliding struct {
	count, period int64
	taken         map[int64]int64 // by window
}

// at is the window to count in at now, and how much of the Period still covers
// the one before.
func (w *naiveSliding) at(now int64) (window, left int64) {
	window = now / w.period
	left = (window+1)*w.period - now
	if newest, any := w.newest(); any && newest > window {
		return newest, w.period
	}
	return window, left
}

func (w *naiveSliding) newest() (window int64, any bool) {
	for i, n := range w.taken {
		if n > 0 && (!any || i > window) {
			window, any = i, true
		}
	}
	return window, any
}

func (w *naiveSliding) estimate(now int64) int64 {
	window, left := w.at(now)
	weight := big.NewRat(left, w.period)
	weight.Mul(weight, new(big.Rat).SetInt64(w.taken[window-1]))
	weight.Sub(weight, big.NewRat(1, 2)) // and up: a half is rounded down
	up := new(big.Int).Neg(weight.Num())
	up.Div(up, weight.Denom())
	return w.taken[window] - up.Int64()
}

func (w *naiveSliding) left(now int64) int64 { return w.count - w.estimate(now) }

func (w *naiveSliding) used(now int64) int64 {
	window, _ := w.at(now)
	return w.taken[window] + w.taken[window-1]
}

func (w *naiveSliding) empty(now int64) bool {
	window, _ := w.at(now)
	return w.taken[window] == 0 && w.taken[window-1] == 0
}

func (w *naiveSliding) clamp(now int64) {
	newest, any := w.newest()
	latest := (now + max(w.period, skew)) / w.period
	if any && newest > latest {
		w.taken = map[int64]int64{latest: w.taken[newest], latest - 1: w.taken[newest-1]}
	}
}

func (w *naiveSliding) take(now, n int64) {
	window, _ := w.at(now)
	cur, prev := w.taken[window], w.taken[window-1]
	if n < 0 {
		here := min(-n, cur)
		cur -= here
		prev -= min(-n-here, prev)
	} else {
		weight := w.estimate(now) - cur
		cur = max(cur, min(cur+n, 2*w.count-weight))
	}
	w.taken = map[int64]int64{window: cur, window - 1: prev}
}

func checkSliding(t testing.TB, count, period int64, script []byte) int {
	p := player{
		TB:    t,
		limit: Limit{Kind: SlidingWindow, Count: count, Period: time.Duration(period) * us},
		take:  takeState(), now: t0.UnixMicro(), back: 3 * (period + skew),
		naive: &naiveSliding{count: count, period: period},
	}
	p.play(script)
	return p.steps
}

func FuzzSliding(f *testing.F) { fuzzScripts(f, checkSliding) }

func TestSoakSliding(t *testing.T) { soak(t, checkSliding) }

// FuzzSlidingBound: no window of the epoch has more than Count, so no window of
// any place, which touches two of them, more than twice that.
func FuzzSlidingBound(f *testing.F) {
	fuzzScripts(f, func(t testing.TB, count, period int64, script []byte) int {
		l := Limit{Kind: SlidingWindow, Count: count, Period: time.Duration(period) * us}
		window, sum := int64(0), int64(0)
		walk(l, script, func(s State, now int64, d Decision) {
			if s.T > window {
				window, sum = s.T, 0
			}
			if sum += d.N; s.T != window || s.T%period != 0 || sum > count || sum != s.N {
				t.Fatalf("%v: %d admitted in the window before %d: %+v", l, sum, s.T, s)
			}
		})
		return len(script)
	})
}
