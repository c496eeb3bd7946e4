package integration

import (
	"testing"
	"time"

	"github.com/throttle-go/throttle/integration/clients"
	"github.com/throttle-go/throttle/integration/rig"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/throttlesql"
)

// kindsToStep are limits of every kind whose Period is a minute, as a calendar
// window cannot be shorter.
func kindsToStep() (all []limit.Limit) {
	for kind := limit.TokenBucket; kind <= limit.CalendarWindow; kind++ {
		all = append(all, limit.Limit{Kind: kind, Count: 10, Period: time.Minute})
	}
	return all
}

// fits asks until n were admitted one by one, at most Count, and returns how many.
func fits(t *testing.T, s *throttlesql.Store, key string, l limit.Limit) (n int64) {
	t.Helper()
	for n < l.Count && postgresTake(t, s, limit.Ask{Key: key, Limit: l, N: 1}).OK {
		n++
	}
	return n
}

// TestPostgresFenceAhead: the server that wrote the fence had a clock that was
// ahead. Once the clock is right, keys wait for one Period or so at most, and
// no key gets another burst.
func TestPostgresFenceAhead(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]time.Duration{"10s": 10 * time.Second, "hour": time.Hour, "year": 365 * 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := rig.NewClock(t)
			server := clock.Postgres(t)
			s := created(t, &throttlesql.Store{Query: clients.Pgx(pool(t, server.URL))})
			old := &throttlesql.Store{Query: clients.Pgx(pool(t, server.URL))} // of another process
			clock.Shift(t, ahead)
			for _, l := range kindsToStep() {
				postgresTake(t, s, limit.Ask{Key: "used " + l.Kind.String(), Limit: l, N: 10})
			}
			server.Exec(t, "TRUNCATE throttle_fence") // as a crash does
			for _, l := range kindsToStep() {
				postgresTake(t, s, limit.Ask{Key: "notices " + l.Kind.String(), Limit: l, N: 1})
				postgresTake(t, old, limit.Ask{Key: "notices " + l.Kind.String(), Limit: l, N: 0})
			}
			clock.Shift(t, 0)
			for _, l := range kindsToStep() {
				for _, key := range []string{"used ", "new ", "notices "} {
					if n := fits(t, old, key+l.Kind.String(), l); n > 1 {
						t.Errorf("%s%v: %d admitted when the clock was put back, want none, as they may have been admitted before", key, l, n)
					}
				}
			}
			clock.Shift(t, time.Minute+time.Minute/10+time.Second) // slots leave one slot later
			for _, l := range kindsToStep() {
				least := l.Count - 1
				if l.Kind == limit.SlidingWindow { // it fades
					least = 1
				}
				if n := fits(t, s, "another "+l.Kind.String(), l); n < least {
					t.Errorf("%v, key never used: %d admitted a Period after the clock was put back, want %d", l, n, least)
				}
			}
			clock.Shift(t, 3*time.Minute+time.Second)
			for _, l := range kindsToStep() {
				for _, key := range []string{"used ", "new "} {
					if n := fits(t, s, key+l.Kind.String(), l); n < l.Count/2 {
						t.Errorf("%s%v: %d admitted three Periods after the clock was put back, want about %d", key, l, n, l.Count)
					}
				}
			}
			if f := server.Number(t, "SELECT since/1000000 - extract(epoch FROM now())::bigint FROM throttle_fence"); f > 0 {
				t.Errorf("the fence is %d s ahead of the clock", f)
			}
		})
	}
}

// TestPostgresStandbyBehind: the primary dies, whose standby has a clock that is
// behind, and has not heard of what was taken last.
func TestPostgresStandbyBehind(t *testing.T) {
	t.Parallel()
	clock := rig.NewClock(t)
	clock.Shift(t, -5*time.Minute)
	pair := clock.PostgresPair(t)
	s := created(t, &throttlesql.Store{Query: clients.Pgx(pool(t, pair.Primary.URL)), Logged: true})
	for _, l := range kindsToStep() {
		postgresTake(t, s, limit.Ask{Key: "lost " + l.Kind.String(), Limit: l, N: 1})
	}
	rig.Until(t, "the standby has all", pair.InStep)
	pair.Link.Set(rig.Fault{Stall: true})
	for _, l := range kindsToStep() {
		postgresTake(t, s, limit.Ask{Key: "lost " + l.Kind.String(), Limit: l, N: 9})
	}
	pair.Primary.Kill()
	pair.Standby.Promote(t)
	s = &throttlesql.Store{Query: clients.Pgx(pool(t, pair.Standby.URL)), Logged: true}
	for _, l := range kindsToStep() {
		for _, key := range []string{"lost ", "new "} {
			if n := fits(t, s, key+l.Kind.String(), l); n > 1 {
				t.Errorf("%s%v: %d admitted after the fail-over, want none, as all were admitted before", key, l, n)
			}
		}
	}
	clock.Shift(t, -5*time.Minute+3*time.Minute+time.Second)
	for _, l := range kindsToStep() {
		for _, key := range []string{"lost ", "new "} {
			if n := fits(t, s, key+l.Kind.String(), l); n < l.Count/2 {
				t.Errorf("%s%v: %d admitted three Periods after the fail-over, want about %d", key, l, n, l.Count)
			}
		}
	}
}

// TestPostgresClockBack: the clock is put back by an hour. Keys never used pass,
// and keys that are used up wait no longer than docs/postgresql.md says.
func TestPostgresClockBack(t *testing.T) {
	t.Parallel()
	clock := rig.NewClock(t)
	s := created(t, &throttlesql.Store{Query: clients.Pgx(pool(t, clock.Postgres(t).URL))})
	clock.Shift(t, time.Hour)
	const n, owed = 10, 20
	for _, l := range kindsToStep() {
		postgresTake(t, s, limit.Ask{Key: "used " + l.Kind.String(), Limit: l, N: n})
		postgresTake(t, s, limit.Ask{Key: "owed " + l.Kind.String(), Limit: l, N: owed, Debt: true})
	}
	clock.Shift(t, 0)
	for _, l := range kindsToStep() {
		if got := fits(t, s, "new "+l.Kind.String(), l); got != l.Count {
			t.Errorf("%v, key never used: %d admitted, want %d", l, got, l.Count)
		}
		for _, key := range []string{"used ", "owed "} {
			if d := postgresTake(t, s, limit.Ask{Key: key + l.Kind.String(), Limit: l, N: 1}); d.OK {
				t.Errorf("%s%v: %+v, want a refusal: a burst was just taken", key, l, d)
			}
		}
	}
	most := map[limit.Kind]time.Duration{ // for 1, and for all of the Count
		limit.TokenBucket: 2*time.Minute + time.Second, limit.FixedWindow: 2 * time.Minute, limit.CalendarWindow: 2 * time.Minute,
		limit.FirstHitWindow: time.Minute + time.Second, limit.SlidingWindow: 3 * time.Minute,
		limit.SlidingSlots: time.Minute + 7*time.Second, limit.SlidingLog: time.Minute + time.Second,
	}
	for _, l := range kindsToStep() {
		for _, key := range []string{"used ", "owed "} {
			a := limit.Ask{Key: key + l.Kind.String(), Limit: l, N: 1}
			one := postgresTake(t, s, a)
			a.N = n
			all := postgresTake(t, s, a)
			t.Logf("%s%v: 1 passes in %v, %d in %v", key, l, one.RetryAfter, n, all.RetryAfter)
			if bound := most[l.Kind]; all.RetryAfter > bound || l.Kind == limit.TokenBucket && one.RetryAfter > refill+6*time.Second {
				t.Errorf("%s%v: 1 passes in %v, %d in %v, want %v at most", key, l, one.RetryAfter, n, all.RetryAfter, bound)
			}
			clock.Shift(t, all.RetryAfter)
			if d := postgresTake(t, s, a); !d.OK {
				t.Errorf("%s%v: %+v when the time it told had passed, want OK", key, l, d)
			}
			clock.Shift(t, 0)
		}
	}
}

// TestPostgresFenceLogged: with all tables logged, as docs/postgresql.md says, keys
// go on as they were after a crash. Check finds what is left out.
func TestPostgresFenceLogged(t *testing.T) {
	t.Parallel()
	server := rig.Postgres(t)
	s := created(t, &throttlesql.Store{Query: clients.Pgx(pool(t, server.URL)), Logged: true})
	server.Exec(t, "ALTER TABLE throttle_fence SET LOGGED")
	finds(t, s.Check(t.Context()), throttlesql.ErrLayout, `"throttle_log" is UNLOGGED, the fence is not`)
	server.Exec(t, "ALTER TABLE throttle_log SET LOGGED")
	if err := s.Check(t.Context()); err != nil {
		t.Errorf("Check of logged tables: %v", err)
	}
	const n = 8
	all := kindsToStep()
	for i := range all {
		all[i].Period = 24 * time.Hour // so that no window ends meanwhile
		postgresTake(t, s, limit.Ask{Key: all[i].Kind.String(), Limit: all[i], N: n})
	}
	server.Crash()
	server.Restart(t)
	back(t, s)
	for _, l := range all {
		if got := fits(t, s, l.Kind.String(), l); got != l.Count-n {
			t.Errorf("%v: %d admitted after a crash, want the %d that were left", l, got, l.Count-n)
		}
	}
}
