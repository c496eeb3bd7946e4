package store_test

import (
	"math"
	"testing"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/store"
)

// A share of less than one in a period of the calendar is one in as many of them as it
// takes, not one in the next larger unit.
func TestGuardSharesOfTheCalendar(t *testing.T) {
	for period, want := range map[time.Duration]time.Duration{
		time.Minute: 2 * time.Minute, 90 * time.Minute: 48 * time.Hour, 24 * time.Hour: 48 * time.Hour, limit.Week: 2 * limit.Week,
	} {
		bubble.Test(t, func(t *testing.T) {
			g := store.Guard{Instances: 3}
			l := limit.Limit{Kind: limit.CalendarWindow, Count: 2, Period: period, Zone: time.FixedZone("east", 3600)}
			began := time.Now()
			for range 3 {
				for !take(t, &g, "k", l, 1).OK {
					time.Sleep(period / 20)
				}
			}
			if took := time.Since(began); took > 2*want+period/10 || took <= want {
				t.Errorf("%v: the third of a share passes after %v, want it in the third window of %v", l, took, want)
			}
		})
	}
}

// 40 days are two months of the calendar, so shares of half an event are one in four.
func TestGuardSharesOfMonths(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		g := store.Guard{Instances: 2}
		l := limit.Limit{Kind: limit.CalendarWindow, Count: 1, Period: 40 * 24 * time.Hour}
		passed, began := 0, time.Now()
		for began.AddDate(2, 0, 0).After(time.Now()) {
			if take(t, &g, "k", l, 1).OK {
				passed++
			}
			time.Sleep(24 * time.Hour)
		}
		if passed != 6 {
			t.Errorf("%v: a share of two passed %d in two years, want 6", l, passed)
		}
	})
}

// A log of more than MaxLog counts as one of MaxLog, and so do its shares.
func TestGuardSharesOfALargeLog(t *testing.T) {
	l := limit.Limit{Kind: limit.SlidingLog, Count: 10 * limit.MaxLog, Period: time.Hour}
	admitted := int64(0)
	for range 2 {
		g := store.Guard{Instances: 2}
		for range 4 {
			admitted += take(t, &g, "k", l, limit.MaxLog/4).N
		}
	}
	if admitted != limit.MaxLog {
		t.Errorf("two shares admitted %d, want the %d that the limit does", admitted, limit.MaxLog)
	}
}

// What one share admits at once of limits that are rare, and that none is admitted
// sooner than by the limit's own Kind.
func TestGuardSharesOfRareLimits(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			limit limit.Limit
			want  int // of 20 asked for at once
		}{
			{limit.Limit{Count: 10, Period: math.MaxInt64}, 5},
			{limit.Limit{Kind: 99, Count: 10, Burst: 4, Period: time.Hour}, 2},
			{limit.Limit{Kind: 99, Count: 1, Period: time.Hour}, 1},
			{limit.Limit{Count: -1, Period: time.Hour}, 0},
			{limit.Limit{Kind: limit.FixedWindow, Period: time.Hour}, 0},
			{limit.Limit{Kind: limit.FixedWindow, Count: 1, Period: math.MaxInt64}, 1},
			{limit.Limit{Count: 1}, 20},
		} {
			g, admitted := store.Guard{Instances: 2}, 0
			for range 20 {
				if take(t, &g, "k", c.limit, 1).OK {
					admitted++
				}
			}
			if admitted != c.want {
				t.Errorf("%+v: a share of two admitted %d, want %d", c.limit, admitted, c.want)
			}
		}
		g, l := store.Guard{Instances: 4}, limit.Limit{Kind: limit.SlidingLog, Count: 1, Period: time.Minute}
		time.Sleep(4*time.Minute - time.Second)
		first := take(t, &g, "k", l, 1)
		time.Sleep(2 * time.Second)
		if second := take(t, &g, "k", l, 1); !first.OK || second.OK {
			t.Errorf("%v: a share of four admitted %v and, 2 s later, %v; want one in 4 minutes", l, first.OK, second.OK)
		}
	})
}
