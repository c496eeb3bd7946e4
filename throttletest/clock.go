package throttletest

import (
	"fmt"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// TestStoreClock tests a store whose clock jumps: that it decides as package
// limit does at the time that the clock shows, grants nothing for a step back,
// and locks no key out for longer than three Periods and a second. States that
// expired while the clock was ahead may be gone when it comes back.
//
// step moves the clock of the store, forward on the whole: between steps the
// clock may run or stand still. The test makes some 400 calls.
func TestStoreClock(t *testing.T, store Store, step func(time.Duration)) {
	t.Helper()
	s := newSuite(store)
	for _, kind := range allKinds {
		t.Run("steps/"+kind.String(), func(t *testing.T) { s.jumps(t, kind, step) })
	}
	t.Run("lock-out", func(t *testing.T) { s.lockOut(t, step) })
}

// jumps asks between steps of the clock, by which it ends up ahead.
func (s suite) jumps(t *testing.T, kind limit.Kind, step func(time.Duration)) {
	for i, l := range []limit.Limit{
		{Kind: kind, Count: 10, Period: time.Minute},
		{Kind: kind, Count: 10, Period: 30 * day},
	} {
		w := newWitness(s, l)
		for _, jump := range []struct {
			by time.Duration
			n  int64
		}{
			{0, 7},
			{-300 * time.Millisecond, 2},
			{0, 9},
			{-3 * time.Second, 0},
			{0, 1},
			{0, 1},
			{-300 * time.Second, 1},
			{0, -2},
			{200 * time.Second, 3},
			{day, 8},
			{0, 8},
			{-time.Hour, 1},
			{0, 1},
			{time.Hour, 1},
			{time.Minute, 4},
			{day, 11},
			{45 * day, 10},
			{0, 1},
			{-45 * day, 1},
			{45 * day, 1},
			{time.Hour, 0},
		} {
			if jump.by != 0 {
				step(jump.by)
			}
			a := limit.Ask{Key: s.key(fmt.Sprint("jumps ", kind, i)), Limit: l, N: jump.n}
			if !w.agree(t, a) {
				t.Errorf("%v: after a step of %v", l, jump.by)
				break
			}
		}
	}
}

// lockOut steps back by a day: what is used up stays so, but not for a day.
func (s suite) lockOut(t *testing.T, step func(time.Duration)) {
	const period = time.Minute
	ask := func(k limit.Kind, n int64) limit.Decision {
		return s.take(t, limit.Ask{Key: s.key("lock-out " + k.String()), Limit: limit.Limit{Kind: k, Count: 5, Period: period}, N: n, Debt: n == 10})
	}
	for _, k := range allKinds {
		ask(k, 10)
	}
	step(-day)
	for _, k := range allKinds {
		if d := ask(k, 1); d.OK {
			t.Errorf("%v: used up, and the clock put back by a day: %+v, want refused", k, d)
		}
	}
	step(3*period + time.Second)
	for _, k := range allKinds {
		if d := ask(k, 1); !d.OK {
			t.Errorf("%v: three Periods and a second after the clock was put back: %+v, want OK", k, d)
		}
	}
	step(day)
}
