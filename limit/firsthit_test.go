package limit

import (
	"testing"
	"time"
)

func TestTakeFirstHitWindow(t *testing.T) {
	l := Limit{Kind: FirstHitWindow, Count: 3, Period: time.Minute, Burst: 99}
	run(t, l, []row{
		{0, n(0), want{true, 0, 3, 0, 0}},
		{59 * time.Second, n(1), want{true, 1, 2, 0, time.Minute}}, // begins a window
		{61 * time.Second, n(2), want{true, 2, 0, 0, 58 * time.Second}},
		{61 * time.Second, n(1), want{false, 0, 0, 58 * time.Second, 58 * time.Second}},
		{61 * time.Second, n(4), want{false, 0, 0, Never, 58 * time.Second}},
		{119*time.Second - us, n(1), want{false, 0, 0, us, us}},
		{119 * time.Second, n(0), want{true, 0, 3, 0, 0}}, // a peek begins none
		{200 * time.Second, part(1, 4), want{true, 3, 0, 0, time.Minute}},
		{200 * time.Second, n(-2), want{true, -2, 2, 0, time.Minute}},
		{210 * time.Second, n(-9), want{true, -1, 3, 0, 0}}, // all given back: none is open
		{220 * time.Second, debt(5), want{true, 5, 0, 0, time.Minute}},
		{220 * time.Second, n(0), want{false, 0, 0, time.Minute, time.Minute}},
		{280 * time.Second, n(3), want{true, 3, 0, 0, time.Minute}},
	})
}

func checkFirstHit(t testing.TB, count, period int64, script []byte) int {
	p := player{
		TB:    t,
		limit: Limit{Kind: FirstHitWindow, Count: count, Period: time.Duration(period) * us},
		take:  takeState(), now: t0.UnixMicro(), back: 3 * (period + skew),
	}
	p.naive = &naiveWindow{
		count:  count,
		ends:   func(now int64) int64 { return now + period },
		latest: func(now int64) int64 { return now + period + skew },
	}
	p.play(script)
	return p.steps
}

func FuzzFirstHitWindow(f *testing.F) { fuzzScripts(f, checkFirstHit) }

func TestSoakFirstHitWindow(t *testing.T) { soak(t, checkFirstHit) }

func checkFixed(t testing.TB, count, period int64, script []byte) int {
	p := player{
		TB:    t,
		limit: Limit{Kind: FixedWindow, Count: count, Period: time.Duration(period) * us},
		take:  takeState(), now: t0.UnixMicro(), back: 3 * (period + skew),
	}
	next := func(now int64) int64 { return (now/period + 1) * period }
	p.naive = &naiveWindow{
		count: count, ends: next,
		latest: func(now int64) int64 { return next(now + max(period, skew)) },
	}
	p.play(script)
	return p.steps
}

func FuzzFixedWindow(f *testing.F) { fuzzScripts(f, checkFixed) }

func TestSoakFixedWindow(t *testing.T) { soak(t, checkFixed) }
