package integration

import (
	"context"
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
