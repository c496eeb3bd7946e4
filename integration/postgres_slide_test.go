package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/throttle-go/throttle/integration/rig"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/throttlesql"
)

// A sliding window that was carried over from another Period does not begin
// where the clock says, nor do those after it.
func TestPostgresSlidesOn(t *testing.T) {
	c := newPostgresClock(t, rig.SharedPostgres(t).Database(t))
	s := created(t, &throttlesql.Store{Query: c.Query, Table: "slides"})
	hour := limit.Limit{Kind: limit.SlidingWindow, Count: 100, Period: time.Hour}
	longer := hour
	longer.Period = 97 * time.Minute
	now := time.Unix(1_800_000_000, 0).Truncate(time.Hour)
	var state limit.State
	under := hour
	for _, step := range []struct {
		after time.Duration
		limit limit.Limit
		n     int64
	}{
		{10 * time.Minute, hour, 40},
		{50 * time.Minute, hour, 10},
		{30 * time.Minute, longer, 5},
		{80 * time.Minute, longer, 20},
		{30 * time.Minute, longer, 7},
		{70 * time.Minute, longer, 1},
		{97 * time.Minute, longer, 1},
	} {
		now = now.Add(step.after)
		if step.limit != under {
			state, under = limit.Change(state, now, under, step.limit), step.limit
		}
		a := limit.Ask{Key: "k", Limit: step.limit, N: step.n}
		var want limit.Decision
		state, want = limit.Take(state, now, a)
		got := make([]limit.Decision, 1)
		if _, err := s.Take(redisAt(context.Background(), now), []limit.Ask{a}, got); err != nil {
			t.Fatal(err)
		}
		want.At, got[0].At = now, now
		if got[0] != want {
			t.Errorf("%d of %v at %v: %+v, want %+v", step.n, step.limit, now.UTC(), got[0], want)
		}
	}
}

// TestPostgresSlotsRefit: under other slots than before, what was taken counts
// until its old slot has left, and later only as new slots are coarser.
func TestPostgresSlotsRefit(t *testing.T) {
	t.Parallel()
	s := created(t, &throttlesql.Store{Query: newPostgresClock(t, rig.SharedPostgres(t).Database(t)).Query})
	rng := rand.New(rand.NewPCG(8, 9))
	for i := range 80 {
		var slots limit.Slots
		var end time.Time // from which on a row says nothing
		l := limit.Limit{Kind: limit.SlidingSlots, Count: 50, Period: time.Second, Slots: 1 + rng.Int32N(30)}
		now := time.UnixMicro(1_750_000_000_000_000)
		for range 12 {
			now = now.Add(time.Duration(rng.Int64N(200_000)) * time.Microsecond)
			a, got := []limit.Ask{{Key: fmt.Sprint("k", i), Limit: l, N: 1 + rng.Int64N(5), Debt: true}}, make([]limit.Decision, 1)
			_, err := s.Take(redisAt(t.Context(), now), a, got)
			if !now.Before(end) {
				slots = limit.Slots{}
			}
			want := slots.Take(now, a[0])
			end = now.Add(want.ResetAfter)
			if want.At = got[0].At; err != nil || got[0] != want {
				t.Fatalf("%v, Take(%+v)\n at   %v\n got  %+v, %v\n want %+v", l, a, now.UnixMicro(), got[0], err, want)
			}
			if rng.IntN(4) == 0 {
				l.Slots, l.Period = 1+rng.Int32N(30), time.Duration(1+rng.Int64N(3_000_000))*time.Microsecond
			}
		}
	}
}
