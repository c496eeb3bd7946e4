package limit

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"
)

// oracle is a token bucket in fractions: slow, and plainly right.
type oracle struct {
	count, burst, period *big.Rat // period in microseconds
	debt                 *big.Rat // events
	last                 int64
}

func newOracle(l Limit) *oracle {
	r := func(n int64) *big.Rat { return new(big.Rat).SetInt64(n) }
	return &oracle{count: r(l.Count), burst: r(l.Max()), period: r(l.micros()), debt: r(0)}
}

func (o *oracle) refill(now int64) {
	gain := new(big.Rat).SetInt64(now - o.last)
	gain.Mul(gain, o.count).Quo(gain, o.period)
	o.last = now
	if o.debt.Sub(o.debt, gain); o.debt.Sign() < 0 {
		o.debt.SetInt64(0)
	}
}

// take is what Take says of n at now.
func (o *oracle) take(now, n int64) want {
	o.refill(now)
	cost := new(big.Rat).SetInt64(n)
	over := new(big.Rat).Add(o.debt, cost)
	over.Sub(over, o.burst)
	w := want{ok: over.Sign() <= 0}
	switch {
	case w.ok:
		w.n = n
		if up := new(big.Int).Neg(new(big.Int).Div(new(big.Int).Neg(o.debt.Num()), o.debt.Denom())); n < 0 { // rounded up
			w.n = max(n, -up.Int64())
		}
		if o.debt.Add(o.debt, cost); o.debt.Sign() < 0 {
			o.debt.SetInt64(0)
		}
	case cost.Cmp(o.burst) > 0:
		w.retry = Never
	default:
		w.retry = o.wait(over)
	}
	left := new(big.Rat).Sub(o.burst, o.debt)
	w.remaining = new(big.Int).Div(left.Num(), left.Denom()).Int64()
	w.reset = o.wait(o.debt)
	return w
}

// wait is how long n events take, rounded up to a microsecond.
func (o *oracle) wait(n *big.Rat) time.Duration {
	x := new(big.Rat).Mul(n, o.period)
	x.Quo(x, o.count)
	up := new(big.Int).Neg(x.Num())
	up.Div(up, x.Denom()).Neg(up) // Div rounds down
	if up.Cmp(big.NewInt(math.MaxInt64/1000)) > 0 {
		return Never
	}
	return time.Duration(up.Int64()) * us
}

// Rates that no whole number of microseconds or nanoseconds gives are exact,
// after any number of steps.
func TestTakeExact(t *testing.T) {
	for _, l := range []Limit{
		{Count: 3, Period: time.Second},
		{Count: 1, Period: day},
		{Count: 7, Period: day, Burst: 2},
		{Count: 600_000_000, Period: time.Second},
		{Count: 600_000_000, Period: time.Second, Burst: 1},
		{Count: 75, Period: time.Minute},
		{Count: 5000, Period: time.Hour, Burst: 10},
		{Count: 999_999_937, Period: 1_000_003 * us, Burst: 12},
		{Count: math.MaxInt64, Period: time.Second},
		{Count: math.MaxInt64 - 1, Period: math.MaxInt64, Burst: 1e18},
		{Count: 1, Period: math.MaxInt64, Burst: 25},
	} {
		t.Run(fmt.Sprintf("%d in %v, burst %d", l.Count, l.Period, l.Burst), func(t *testing.T) {
			compare(t, l, rand.New(rand.NewPCG(1, 2)))
		})
	}
}

// compare asks in steps of about what one event, a few, or a burst take.
func compare(t *testing.T, l Limit, r *rand.Rand) {
	b, o := bucketOf(&l), newOracle(l)
	now := t0.UnixMicro()
	o.last = now
	var s State
	for step := range 3000 {
		switch r.IntN(4) {
		case 0:
			now += r.Int64N(b.worth(1).us + 2)
		case 1:
			now += r.Int64N(b.worth(3).us + 2)
		case 2:
			now += r.Int64N(min(b.room.us, 1<<48) + 2)
		}
		n := r.Int64N(min(l.Max(), 4) + 2)
		if r.IntN(4) == 0 {
			n = r.Int64N(l.Max()/2+1) - r.Int64N(2)
		}
		next, d := Take(s, time.UnixMicro(now), Ask{Limit: l, N: n})
		if got, want := wantOf(d), o.take(now, n); got != want {
			t.Fatalf("step %d: Take(%+v, %d, n = %d)\n got %+v\nwant %+v", step, s, now, n, got, want)
		}
		if s = next; now > 1<<61 {
			return // the next step might leave the calendar
		}
	}
}

// A whole period of single events, each as early as it may be, takes exactly a
// period: waiting for whole microseconds loses nothing, as the bucket has room
// for what is refilled meanwhile.
func TestTakeLosesNothing(t *testing.T) {
	for _, l := range []Limit{
		{Count: 3, Period: time.Second, Burst: 2},
		{Count: 70, Period: time.Minute, Burst: 2},
		{Count: 4999, Period: time.Hour, Burst: 2},
		{Count: 999_999, Period: time.Second, Burst: 2},
		{Count: 1_999_999, Period: time.Second, Burst: 5},
	} {
		s, now := drained(t, l, t0), t0
		for range l.Count {
			_, d := Take(s, now, Ask{Limit: l, N: 1})
			now = now.Add(d.RetryAfter)
			if s, d = Take(s, now, Ask{Limit: l, N: 1}); !d.OK {
				t.Fatalf("%+v: refused at t0+%v", l, now.Sub(t0))
			}
		}
		if got := now.Sub(t0); got != l.Period {
			t.Errorf("%+v: %d events took %v", l, l.Count, got)
		}
	}
}
