package throttletest

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// amounts asks for nothing, for too much, for less than nothing, and of limits
// that allow everything or nothing.
func (s suite) amounts(t *testing.T) {
	for _, kind := range allKinds {
		l := limit.Limit{Kind: kind, Count: 10, Period: 365 * day}
		for _, step := range []struct {
			n         int64
			ok        bool
			charged   int64
			remaining int64
		}{
			{0, true, 0, 10},
			{11, false, 0, 10},
			{math.MaxInt64, false, 0, 10},
			{1<<53 + 1, false, 0, 10},
			{10, true, 10, 0},
			{0, true, 0, 0},
			{1, false, 0, 0},
			{-3, true, -3, 3},
			{4, false, 0, 3},
			{3, true, 3, 0},
			{math.MinInt64, true, -10, 10}, // what was taken comes back
			{11, false, 0, 10},
		} {
			d := s.take(t, limit.Ask{Key: s.key("amounts " + kind.String()), Limit: l, N: step.n})
			got := [...]any{d.OK, d.N, d.Remaining, d.RetryAfter == limit.Never}
			want := [...]any{step.ok, step.charged, step.remaining, step.n > 10}
			if got != want {
				t.Errorf("%v, N %d: OK, N, Remaining, never = %v, want %v", kind, step.n, got, want)
			}
		}
		s.nothing(t, kind)
	}
	if d := s.take(t, limit.Ask{Key: s.key("amounts without limit"), N: 1}); !d.OK {
		t.Errorf("without a limit: %+v, want OK", d)
	}
}

// nothing asks of limits of no event.
func (s suite) nothing(t *testing.T, kind limit.Kind) {
	for _, count := range []int64{0, -1, math.MinInt64} {
		l := limit.Limit{Kind: kind, Count: count, Period: time.Minute}
		if d := s.take(t, limit.Ask{Key: s.key(fmt.Sprint("amounts ", count, l)), Limit: l, N: 1}); d.OK {
			t.Errorf("%+v: %+v, want refused", l, d)
		}
	}
}

// overflow asks of limits so large that a store may refuse them: but what it
// answers must be right.
func (s suite) overflow(t *testing.T) {
	var limits []limit.Limit
	for _, kind := range allKinds {
		for _, count := range []int64{1<<53 - 1, 1 << 53, 1<<53 + 1, math.MaxInt64} {
			limits = append(limits, limit.Limit{Kind: kind, Count: count, Period: time.Second})
		}
		limits = append(limits, limit.Limit{Kind: kind, Count: 1, Period: math.MaxInt64})
	}
	limits = append(limits,
		limit.Limit{Count: math.MaxInt64, Period: 1},
		limit.Limit{Count: 1, Period: day, Burst: 1 << 40},
		limit.Limit{Count: 1, Period: day, Burst: math.MaxInt64},
		limit.Limit{Count: math.MaxInt64, Period: math.MaxInt64, Burst: math.MaxInt64},
	)
	for i, l := range limits {
		m := newModel(s)
		a := limit.Ask{Key: s.key(fmt.Sprint("overflow ", i)), Limit: l}
		for _, n := range []int64{1, 1 << 52, -1, 0, math.MaxInt64, 1, math.MinInt64} {
			a.N, a.Debt = n, n == math.MaxInt64
			d, ok, err := m.ask(t, a)
			if err != nil { // it says that it cannot tell: then it must not have answered before
				if n != 1 || len(m.accounts) > 0 {
					t.Errorf("%+v: N %d is an error, though 1 was not: %v", l, n, err)
				}
				break
			}
			if !m.same(t, []limit.Ask{a}, d, ok) {
				break
			}
		}
	}
}
