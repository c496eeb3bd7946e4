package memory_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
)

// floodKinds are a limit of each kind, of few a minute, of many a day and so on.
var floodKinds = []limit.Limit{
	{Count: 10, Period: time.Minute},
	{Count: 1, Period: time.Minute, Burst: 7},
	{Count: 99_991, Period: time.Hour, Burst: 30}, // takes a pair
	{Kind: limit.FixedWindow, Count: 10, Period: time.Minute},
	{Kind: limit.FirstHitWindow, Count: 10, Period: time.Minute},
	{Kind: limit.CalendarWindow, Count: 10, Period: time.Minute},
	{Kind: limit.SlidingWindow, Count: 10, Period: time.Minute},
	{Kind: limit.SlidingLog, Count: 10, Period: time.Minute},
	{Kind: limit.SlidingSlots, Count: 10, Period: time.Minute, Slots: 6},
}

// perDay is the same kind of limit, of n a day.
func perDay(l limit.Limit, n int64) limit.Limit {
	l.Count, l.Period, l.Burst = n, 24*time.Hour, 0
	return l
}

// A flooded Store has 100 offenders, and is asked for many other keys.
type flooded struct {
	*memory.Store
	now   time.Time
	limit func(offender int) limit.Limit
	madeUp
	sent int
	lost int                  // offenders that may be freed, as chance puts them where all others have used more
	free [offenders]time.Time // when each may pass again, if it was refused
}

// madeUp is a flood of keys of which each takes n once, under the limits in turn.
type madeUp struct {
	limits []limit.Limit
	share  int64 // of the limit, in percent; zero: one event
}

const (
	offenders = 100
	// lostPairs is how many of them may be freed where each takes two slots, so that
	// the two lines of a made-up key and the spare may be full of offenders: of 3,000
	// tables one or two lose one at 4,000 made-up keys; at 20,000 one in 20 loses one,
	// one in 200 two, one in 3,000 three.
	lostPairs = 5
)

func newFlooded(maxKeys int, l func(i int) limit.Limit, by madeUp) *flooded {
	f := &flooded{Store: &memory.Store{MaxKeys: maxKeys}, limit: l, madeUp: by, lost: 1}
	f.now = f.Start().Truncate(24 * time.Hour).Add(24*time.Hour + 10*time.Second)
	return f
}

func (f *flooded) ask(key string, l limit.Limit, n int64) limit.Decision {
	var d [1]limit.Decision
	f.DecideAt(f.now, []limit.Ask{{Key: key, Limit: l, N: n}}, d[:])
	return d[0]
}

// send asks for n made-up keys, and reports how many were refused.
func (f *flooded) send(n int) (refused int) {
	for range n {
		l := f.limits[f.sent%len(f.limits)]
		if d := f.ask(fmt.Sprint("made up ", f.sent), l, max(1, l.Max()*f.share/100)); !d.OK {
			refused++
		}
		f.sent++
		if f.sent%64 == 0 {
			f.now = f.now.Add(time.Microsecond)
		}
	}
	return refused
}

// useUp has each offender go on until it is refused, with so many made-up keys
// after each event; one that is forgotten meanwhile, below its limit, begins again.
func (f *flooded) useUp(between int) {
	for i := range offenders {
		for tries := int64(0); tries < 3*f.limit(i).Max() && !f.offend(i); tries++ {
			f.send(between)
		}
	}
}

// offend has an offender take one, and notes until when it is refused.
func (f *flooded) offend(i int) (refused bool) {
	d := f.ask(fmt.Sprint("offender ", i), f.limit(i), 1)
	if !d.OK {
		f.free[i] = f.now.Add(d.RetryAfter)
	}
	return !d.OK
}

// offendAll has each take one, and reports how many were refused.
func (f *flooded) offendAll() (refused int) {
	for i := range offenders {
		if f.offend(i) {
			refused++
		}
	}
	return refused
}

// inTheEnd has each offender ask when it may pass again, and just before, and
// reports how many were refused at each.
func (f *flooded) inTheEnd() (before, then int) {
	type visit struct {
		at       time.Time
		offender int
		refused  *int
	}
	var visits []visit
	for i, free := range f.free {
		visits = append(visits, visit{free.Add(-time.Microsecond), i, &before}, visit{free, i, &then})
	}
	slices.SortFunc(visits, func(a, b visit) int { return a.at.Compare(b.at) })
	for _, v := range visits {
		f.now = v.at
		if d := f.ask(fmt.Sprint("offender ", v.offender), f.limit(v.offender), 1); !d.OK {
			*v.refused++
		}
	}
	return before, then
}

// check floods before, while and after the offenders use up their limits.
func (f *flooded) check(t *testing.T, what string, keys int) {
	t.Helper()
	refused := f.send(keys / 4)
	f.useUp(keys / 20_000)
	if n := f.offendAll(); n < offenders-f.lost {
		t.Errorf("%s: flooded before, %d of %d offenders are refused", what, n, offenders)
	}
	for range 10 {
		refused += f.send(keys / 20)
		if n := f.offendAll(); n < offenders-f.lost {
			t.Errorf("%s: flooded meanwhile, %d of %d offenders are refused", what, n, offenders)
		}
	}
	refused += f.send(keys / 4)
	if before, then := f.inTheEnd(); before < offenders-f.lost || then > f.lost {
		t.Errorf("%s: %d of %d offenders are refused until their time, and %d then", what, before, offenders, then)
	}
	if refused > 0 {
		t.Errorf("%s: %d of %d made-up keys are refused", what, refused, f.sent)
	}
	if n := f.Size(); n > int64(f.MaxKeys)*32 {
		t.Errorf("%s: the table has %d bytes for %d keys", what, n, f.MaxKeys)
	}
}

// TestFloodFreesNoOffender: under each kind, a key that is over the limit stays so in
// a flood of keys that take one event, or half of what they may, of the same limit
// or of one with a longer Period.
func TestFloodFreesNoOffender(t *testing.T) {
	memory.OneGoroutine(t)
	for _, l := range floodKinds {
		for _, by := range []limit.Limit{l, perDay(l, 1000), {Count: 1000, Period: 24 * time.Hour}, perDay(floodKinds[3], 12)} {
			for _, share := range []int64{0, 50} {
				what := fmt.Sprintf("%v, by %v, %d%%", l, by, share)
				f := newFlooded(1000, func(int) limit.Limit { return l }, madeUp{[]limit.Limit{by}, share})
				if l.Burst == 30 {
					f.lost = lostPairs
				}
				f.check(t, what, size(200_000))
			}
		}
	}
}

// TestFloodOfMixedKinds: the same where offenders and made-up keys have limits of
// all kinds and several Periods in one Store.
func TestFloodOfMixedKinds(t *testing.T) {
	memory.OneGoroutine(t)
	var days []limit.Limit
	for _, l := range floodKinds {
		days = append(days, perDay(l, 50), l)
	}
	for _, c := range []struct {
		maxKeys, keys int
	}{
		{1000, size(1_000_000)},
		{size(100_000), size(2_000_000)},
	} {
		for _, share := range []int64{0, 50} {
			mixed := func(i int) limit.Limit { return floodKinds[i%len(floodKinds)] }
			f := newFlooded(c.maxKeys, mixed, madeUp{days, share})
			f.check(t, fmt.Sprintf("%d keys, %d%%", c.maxKeys, share), c.keys)
		}
	}
}

// TestFloodOfSlidingWindows: the same where what the window before has used counts
// too, so that each takes two slots.
func TestFloodOfSlidingWindows(t *testing.T) {
	l := limit.Limit{Kind: limit.SlidingWindow, Count: 10, Period: time.Minute}
	for _, share := range []int64{0, 50} {
		f := newFlooded(1000, func(int) limit.Limit { return l }, madeUp{[]limit.Limit{l, perDay(l, 100), perDay(floodKinds[2], 100)}, share})
		f.lost = lostPairs
		f.send(size(50_000))
		for range 8 {
			f.offendAll()
		}
		f.now = f.now.Add(time.Minute)
		f.check(t, fmt.Sprintf("sliding windows, %d%%", share), size(500_000))
	}
}
