package throttlesql

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// decided is what decide.sql does, in Go.
func decided(c charge, s limit.State, now int64) (after limit.State, ok bool) {
	if now < c.from || now >= c.to {
		return s, false
	}
	end := now - now%c.unit + c.add
	fresh := limit.State{T: end + c.cost, N: -c.rem}
	if c.rem > 0 {
		fresh = limit.State{T: fresh.T + 1, N: c.count - c.rem}
	}
	switch {
	case s.T <= now:
		return fresh, true
	case s.N > c.used:
		return s, false
	case s.N >= c.rem:
		after = limit.State{T: s.T + c.cost, N: s.N - c.rem}
	default:
		after = limit.State{T: s.T + c.cost + 1, N: s.N - c.rem + c.count}
	}
	most := fresh.T + c.ahead
	return after, after.T < most || after.T == most && -after.N <= c.atMost
}

// upTo is a number of any size up to most.
func upTo(rng *rand.Rand, most float64) int64 {
	return max(1, int64(math.Exp(rng.Float64()*math.Log(most))))
}

func randomLimit(rng *rand.Rand) limit.Limit {
	kinds := []limit.Kind{limit.TokenBucket, limit.FixedWindow, limit.FirstHitWindow, limit.CalendarWindow}
	l := limit.Limit{Kind: kinds[rng.IntN(len(kinds))], Count: 1 + rng.Int64N(30), Period: time.Duration(upTo(rng, 1e14))}
	switch rng.IntN(3) {
	case 0:
		l.Count = upTo(rng, 1e18)
	case 1:
		l.Burst = upTo(rng, 1e6)
	}
	if l.Kind == limit.CalendarWindow {
		l.Zone = time.FixedZone("east", 20700)
	}
	return l
}

// TestCharge: what decide.sql decides is what package limit decides, and the
// state before is found again from the one after.
func TestCharge(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 4000 {
		l := randomLimit(rng)
		p, s, now := prepare(l), limit.State{}, time.UnixMicro(1.8e15+rng.Int64N(1e14))
		for range 30 {
			now = now.Add(time.Duration(rng.Int64N(int64(l.Period)/max(1, min(l.Count, 20))*2 + 2000))).Truncate(time.Microsecond)
			n := 1 + rng.Int64N(max(1, min(p.most, 20)))
			if rng.IntN(5) == 0 {
				n = upTo(rng, float64(p.most))
			}
			n = min(n, p.most)
			at := now.UnixMicro()
			c := p.chargeOf(n, at)
			want, d := limit.Take(s, now, limit.Ask{Limit: l, N: n})
			got, ok := decided(c, s, at)
			if ok != d.OK || ok && got != want {
				t.Fatalf("%d of %v at %d from %+v: %+v, %v, want %+v, %v", n, l, at, s, got, ok, want, d.OK)
			}
			if !ok {
				continue
			}
			live := s
			if s.T <= at {
				live = limit.State{}
			}
			if before := c.before(got, at); before != live {
				t.Fatalf("%d of %v at %d: before %+v was %+v, want %+v", n, l, at, got, before, live)
			}
			s = want
		}
	}
}

// TestChargeOutsideCalendar: a clock in another window than expected is asked
// about again.
func TestChargeOutsideCalendar(t *testing.T) {
	p := prepare(limit.Limit{Kind: limit.CalendarWindow, Count: 5, Period: time.Hour})
	now := time.Date(2026, 3, 1, 12, 30, 0, 0, time.UTC).UnixMicro()
	c := p.chargeOf(1, now)
	for after, want := range map[time.Duration]bool{
		-30 * time.Minute:                    true,
		-30*time.Minute - time.Microsecond:   false,
		30*time.Minute - time.Microsecond:    true,
		30 * time.Minute:                     false,
		30*time.Minute + 24*365*time.Hour:    false,
		-30*time.Minute - 24*365*time.Minute: false,
	} {
		if _, ok := decided(c, limit.State{}, now+after.Microseconds()); ok != want {
			t.Errorf("charged %v after it was worked out: %v, want %v", after, ok, want)
		}
	}
}

func TestEdges(t *testing.T) {
	zone, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(2, 2))
	for _, period := range []time.Duration{time.Minute, time.Hour, 24 * time.Hour, limit.Week, limit.Month, 12 * limit.Month} {
		p := prepare(limit.Limit{Kind: limit.CalendarWindow, Count: 5, Period: period, Zone: zone})
		for range 200 {
			now := 1.7e15 + rng.Int64N(1e15)
			e := p.edgesAt(now)
			if now < e[0] || now >= e[1] {
				t.Errorf("edges of %v at %d: %v", p.text, now, *e)
			}
			for i := range 3 {
				if got := p.end(e[i]); got != e[i+1] {
					t.Errorf("%v: the window that begins at %d ends at %d, want %d", p.text, e[i], got, e[i+1])
				}
			}
			if got := p.end(e[0] - 1); got != e[0] {
				t.Errorf("%v: the window before %d ends at %d", p.text, e[0], got)
			}
		}
	}
}

func TestCost(t *testing.T) {
	for _, c := range []struct{ n, period, count, us, rem int64 }{
		{1, 1_000_000, 3, 333_333, 1},
		{3, 1_000_000, 3, 1_000_000, 0},
		{1, 1, math.MaxInt64, 0, 1},
		{math.MaxInt64, math.MaxInt64, math.MaxInt64, forever, 0},
		{math.MaxInt64, math.MaxInt64, 1, forever, 0},
		{0, 5, 7, 0, 0},
	} {
		if us, rem := costOf(c.n, c.period, c.count); us != c.us || rem != c.rem {
			t.Errorf("costOf(%d, %d, %d) = %d, %d, want %d, %d", c.n, c.period, c.count, us, rem, c.us, c.rem)
		}
	}
}
