package throttletest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// farEast has days that begin at another time than those of UTC.
var farEast = time.FixedZone("Asia/Kathmandu", 5*3600+45*60)

// kinds are the limits asked for at random, from periods shorter than a
// question takes to such that hardly change.
var kinds = []struct {
	name   string
	limits []limit.Limit
}{
	{"token-bucket", []limit.Limit{
		{Count: 3, Period: 7 * time.Microsecond},
		{Count: 3, Period: 50 * time.Microsecond, Burst: 5},
		{Count: 7, Period: time.Millisecond},
		{Count: 10, Period: 30 * time.Millisecond, Burst: 4},
		{Count: 3, Period: time.Second, Burst: 2},
		{Count: 600_000_000, Period: time.Second, Burst: 100},
		{Count: 1, Period: day},
		{Count: 1_000_000, Period: time.Hour},
		{},
		{Period: time.Second},
	}},
	{"fixed-window", of(limit.FixedWindow)},
	{"first-hit-window", of(limit.FirstHitWindow)},
	{"sliding-window", of(limit.SlidingWindow)},
	{"sliding-log", of(limit.SlidingLog)},
	{"sliding-slots", append(of(limit.SlidingSlots),
		limit.Limit{Kind: limit.SlidingSlots, Count: 6, Period: time.Millisecond, Slots: 3},
		limit.Limit{Kind: limit.SlidingSlots, Count: 100, Period: time.Hour, Slots: 60},
	)},
	{"calendar-window", []limit.Limit{
		{Kind: limit.CalendarWindow, Count: 7, Period: time.Minute},
		{Kind: limit.CalendarWindow, Count: 30, Period: time.Hour},
		{Kind: limit.CalendarWindow, Count: 15, Period: day, Zone: farEast},
		{Kind: limit.CalendarWindow, Count: 1000, Period: limit.Week},
		{Kind: limit.CalendarWindow, Count: 1_000_000, Period: 3 * limit.Month, Zone: farEast},
	}},
}

// of are limits of a Kind.
func of(k limit.Kind) []limit.Limit {
	return []limit.Limit{
		{Kind: k, Count: 2, Period: 40 * time.Microsecond},
		{Kind: k, Count: 3, Period: 500 * time.Microsecond},
		{Kind: k, Count: 5, Period: 3 * time.Millisecond},
		{Kind: k, Count: 20, Period: time.Minute},
		{Kind: k, Count: 1000, Period: day},
		{Kind: k},
		{Kind: k, Period: time.Second},
	}
}

func allLimits() (all []limit.Limit) {
	for _, k := range kinds {
		all = append(all, k.limits...)
	}
	return all
}

// steps puts n random questions, of up to most keys at a time.
func (s suite) steps(t *testing.T, limits []limit.Limit, n, most int) {
	m := newModel(s)
	rng := rand.New(rand.NewPCG(1, 2)) // the answers vary with time, the questions need not
	for range n {
		var a []limit.Ask
		for _, i := range rng.Perm(len(limits))[:1+rng.IntN(most)] {
			key := s.together(fmt.Sprint("steps ", i, " ", limits[i]))
			if most == 1 {
				key = s.key(fmt.Sprint("step ", i, " ", limits[i]))
			}
			a = append(a, randomAsk(rng, key, limits[i]))
		}
		if !m.agree(t, a...) {
			return
		}
	}
}

// large are amounts at which something overflows that should not.
var large = []int64{
	1<<31 - 1, 1 << 31, 1 << 32, 1<<53 - 1, 1 << 53, 1<<53 + 1,
	math.MaxInt64 - 1, math.MaxInt64, math.MinInt64, math.MinInt64 + 1, -1 << 53,
}

func randomAsk(rng *rand.Rand, key string, l limit.Limit) limit.Ask {
	a := limit.Ask{Key: key, Limit: l, N: 1}
	switch rng.IntN(10) {
	case 0:
		a.N = 0
	case 1:
		a.N = -rng.Int64N(4)
	case 2:
		a.N = rng.Int64N(10)
	case 3:
		a.N = l.Max() / (1 + rng.Int64N(3))
	case 4:
		a.N, a.Min = 1+rng.Int64N(10), rng.Int64N(4)
	case 5:
		a.N, a.Debt = rng.Int64N(4), true
	case 6:
		a.N, a.Debt = large[rng.IntN(len(large))], rng.IntN(4) == 0
	case 7:
		a.N, a.Min = min(l.Max(), 1e9)+rng.Int64N(3)-1, rng.Int64N(2) // up to one too many
	}
	return a
}

// allOrNothing takes pairs of asks whose first fits more often, and then pairs
// whose second does, under every Kind.
func (s suite) allOrNothing(t *testing.T) {
	for _, kind := range allKinds {
		m := newModel(s)
		many := limit.Ask{Key: s.together("many " + kind.String()), Limit: limit.Limit{Count: 10, Period: day}, N: 1}
		few := limit.Ask{Key: s.together("few " + kind.String()), Limit: limit.Limit{Kind: kind, Count: 4, Period: 365 * day}, N: 1}
		for i := range 6 {
			pair := []limit.Ask{many, few}
			if i%2 == 1 {
				pair = []limit.Ask{few, many}
			}
			if !m.agree(t, pair...) {
				return
			}
		}
		few.N, many.N = 0, 0
		if a, b := s.take(t, many).Remaining, s.take(t, few).Remaining; a != 6 || b != 0 {
			t.Errorf("%v: after 4 of 6 pairs passed, %d and %d remain, want 6 of 10 and 0 of 4", kind, a, b)
		}
		few.N, many.N = -2, 7
		if !m.agree(t, few, many) { // what would be given back is not, as the other is refused
			return
		}
	}
}

// allKinds are those with periods of any length.
var allKinds = []limit.Kind{
	limit.TokenBucket, limit.FixedWindow, limit.SlidingLog, limit.SlidingWindow,
	limit.SlidingSlots, limit.FirstHitWindow, limit.CalendarWindow,
}
