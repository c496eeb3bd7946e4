package integration

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttle-go/throttle/integration/clients"
	"github.com/throttle-go/throttle/integration/rig"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/throttlesql"
)

// TestPostgresTwoVersions: for some minutes processes hold an old and a new
// version of a limit. All of them have answers, and together they are admitted
// what the larger limit allows, however often the key changes hands.
func TestPostgresTwoVersions(t *testing.T) {
	t.Parallel()
	url := rig.SharedPostgres(t).Database(t)
	var stores [8]*throttlesql.Store // of a process each
	for i := range stores {
		stores[i] = created(t, &throttlesql.Store{Query: clients.Pgx(pool(t, url))})
	}
	of := func(kind limit.Kind, count int64) limit.Limit {
		return limit.Limit{Kind: kind, Count: count, Period: 1200 * limit.Month}
	}
	var pairs [][2]limit.Limit
	for kind := limit.TokenBucket; kind <= limit.CalendarWindow; kind++ {
		pairs = append(pairs, [2]limit.Limit{of(kind, 90), of(kind, 80)}, [2]limit.Limit{of(kind, 90), of(kind, 7)})
		if kind != limit.SlidingLog && kind != limit.SlidingSlots {
			pairs = append(pairs, [2]limit.Limit{of(kind, 90), of((kind+1)%2, 7)})
		}
		pairs = append(pairs, [2]limit.Limit{of(kind, 90), of((kind+1)%7, 60)}, [2]limit.Limit{of(kind, 60), of((kind+3)%7, 90)})
	}
	for i, pair := range pairs {
		t.Run(fmt.Sprintf("%d %v and %v", i, pair[0], pair[1]), func(t *testing.T) {
			t.Parallel()
			var all sync.WaitGroup
			var admitted atomic.Int64
			for at, s := range stores {
				all.Go(func() {
					for n := range 40 {
						a := []limit.Ask{{Key: fmt.Sprint("hot ", i), Limit: pair[(at+n)%2], N: 1}}
						ok, err := s.Take(context.Background(), a, make([]limit.Decision, 1))
						if err != nil {
							t.Error(err)
							return
						}
						if ok {
							admitted.Add(1)
						}
					}
				})
			}
			all.Wait()
			if n := admitted.Load(); n != 90 {
				t.Errorf("%d of 320 admitted, want the 90 of the larger limit", n)
			}
		})
	}
}

// TestPostgresTwoVersionsOfSeveral: the same of several keys in one Take, as rules with
// several limits ask, where some were written last under one version and some under the
// other.
func TestPostgresTwoVersionsOfSeveral(t *testing.T) {
	t.Parallel()
	s := created(t, &throttlesql.Store{Query: clients.Pgx(pool(t, rig.SharedPostgres(t).Database(t)))})
	of := func(count int64) limit.Limit { return limit.Limit{Count: count, Period: 1200 * limit.Month} }
	var all sync.WaitGroup
	var admitted atomic.Int64
	for at := range 16 {
		all.Go(func() {
			for n := range 20 {
				version := int64(at % 2) // of the process
				a := []limit.Ask{
					{Key: "all", Limit: of(90 - version), N: 1},
					{Key: fmt.Sprint("one ", (7*at+n)%4), Limit: of(900 - version), N: 1},
					{Key: fmt.Sprint("two ", (5*at+n)%3), Limit: of(800 - version), N: 1},
				}
				ok, err := s.Take(context.Background(), a, make([]limit.Decision, len(a)))
				if err != nil {
					t.Error(err)
				}
				if ok {
					admitted.Add(1)
				}
			}
		})
	}
	all.Wait()
	if n := admitted.Load(); n != 90 {
		t.Errorf("%d of 320 admitted, want the 90 of the larger limit", n)
	}
}

// TestPostgresThereAndBack: what a lower limit cannot hold is not forgiven to
// those that still have the higher one, nor is what was admitted meanwhile, and
// the sweeper leaves it.
func TestPostgresThereAndBack(t *testing.T) {
	t.Parallel()
	for _, kind := range []limit.Kind{limit.TokenBucket, limit.FixedWindow, limit.SlidingWindow, limit.FirstHitWindow, limit.CalendarWindow} {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			clock := rig.NewClock(t)
			s := created(t, &throttlesql.Store{Query: clients.Pgx(pool(t, clock.Postgres(t).URL))})
			old := limit.Limit{Kind: kind, Count: 1000, Period: 1200 * limit.Month}
			now := limit.Limit{Kind: kind, Count: 10, Period: time.Minute}
			var admitted int64
			take := func(l limit.Limit, n int64) {
				if postgresTake(t, s, limit.Ask{Key: "k", Limit: l, N: n}).OK {
					admitted += n
				}
			}
			take(old, 900)
			for i := range 5 {
				take(now, 1)
				clock.Shift(t, time.Duration(i+1)*time.Hour) // what the lower limit knows has passed
				if _, err := s.Sweep(t.Context()); err != nil {
					t.Fatal(err)
				}
				for range 12 {
					take(now, 1)
				}
				if d := postgresTake(t, s, limit.Ask{Key: "k", Limit: old}); d.Remaining > 1000-admitted {
					t.Errorf("%d were admitted, and %d remain of 1000", admitted, d.Remaining)
				}
				take(old, 100)
			}
			if admitted > 1000 || admitted < 920 {
				t.Errorf("admitted %d, want 1000 at most", admitted)
			}
		})
	}
}

// TestPostgresZones: whatever the name of a zone is, which time.FixedZone leaves to
// the caller, its windows count, and a change of the limit carries over the usage.
func TestPostgresZones(t *testing.T) {
	t.Parallel()
	s := created(t, &throttlesql.Store{Query: clients.Pgx(pool(t, rig.SharedPostgres(t).Database(t)))})
	for _, name := range []string{"Europe/Berlin", "", "UTC+1 (x)", "burst 3", "a\nb", "a\x00b", "a\xffb", `q"\'{},`, "Zürich", "!"} {
		from := limit.Limit{Kind: limit.CalendarWindow, Count: 10, Period: 1200 * limit.Month, Zone: time.FixedZone(name, 3600)}
		more := from
		more.Count = 20
		for _, to := range []limit.Limit{more, {Kind: limit.FirstHitWindow, Count: 20, Period: time.Hour}} {
			key := name + to.String()
			postgresTake(t, s, limit.Ask{Key: key, Limit: from, N: 6})
			if d := postgresTake(t, s, limit.Ask{Key: key, Limit: to, N: 1}); !d.OK || d.Remaining != 13 {
				t.Errorf("zone %q: 1 under %q after 6 under %q: %+v, want 13 left", name, to, from, d)
			}
		}
	}
}
