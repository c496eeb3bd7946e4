package limit

import (
	"math"
	"testing"
	"time"
)

func TestForgives(t *testing.T) {
	hour := Limit{Count: 1000, Period: time.Hour}
	with := func(kind Kind, count int64, period time.Duration) Limit {
		return Limit{Kind: kind, Count: count, Period: period}
	}
	for _, c := range []struct {
		from, to Limit
		used     int64
		want     bool
	}{
		{hour, hour, 1000, false},
		{hour, with(TokenBucket, 2, time.Hour), 5, true},
		{hour, with(TokenBucket, 2, time.Hour), 4, false}, // it can owe as much
		{hour, with(TokenBucket, 2000, time.Hour), 1000, false},
		{hour, with(TokenBucket, 1, 30*time.Minute), 1000, true},
		{hour, with(TokenBucket, 1, 30*time.Minute-time.Microsecond), 1000, false}, // it lasts longer than that
		{hour, with(FixedWindow, 2, time.Hour), 1000, true},
		{hour, with(FixedWindow, 2, time.Minute), 1000, false},
		{hour, with(SlidingLog, 2, time.Hour), 1000, true},
		{hour, Limit{Count: 10, Burst: 2, Period: time.Hour}, 1000, false}, // two of ten are refilled soon
		{hour, Limit{Count: 10, Burst: 2, Period: time.Hour}, 5, true},
		{with(FirstHitWindow, 1000, time.Hour), with(SlidingWindow, 2, time.Hour), 1000, true},
		{with(FirstHitWindow, 1000, time.Hour), hour, 1000, false},
		{hour, Limit{Period: time.Hour}, 1000, false},
		{hour, Limit{}, 1000, false},
		{with(TokenBucket, math.MaxInt64, math.MaxInt64), with(TokenBucket, math.MaxInt64, 1), math.MaxInt64, false},
	} {
		s, _ := Take(State{}, t0, Ask{Limit: c.from, N: c.used})
		if got := Forgives(s, t0, c.from, c.to); got != c.want {
			t.Errorf("Forgives of %d used, from %v to %v = %v, want %v", c.used, c.from, c.to, got, c.want)
		}
	}
}
