package integration

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/throttle-go/throttle/integration/clients"
	"github.com/throttle-go/throttle/integration/rig"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/store"
	"github.com/throttle-go/throttle/throttlesql"
)

// TestFaultPostgresCrash: all that was taken is lost with an unlogged table;
// the buckets are taken to be empty then.
func TestFaultPostgresCrash(t *testing.T) {
	t.Parallel()
	for name, logged := range map[string]bool{"unlogged": false, "logged": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := rig.Postgres(t)
			s := created(t, &throttlesql.Store{Query: clients.Pgx(pool(t, p.URL)), Logged: logged})
			l := load{store: s, keys: []string{"a", "b"}, limit: perMinute, callers: 8, deadline: tight}
			back(t, s)
			var crashed, up time.Time
			got := l.run(t, func() {
				rest(t.Context(), 300*time.Millisecond) // some of the bursts is left
				p.Crash()
				crashed = time.Now()
				rest(t.Context(), 300*time.Millisecond)
				p.Restart(t)
				up = time.Now()
				back(t, s)
				rest(t.Context(), 300*time.Millisecond)
			})
			got.returns(t, crashed, up)
			got.inTime(t, tight)
			got.within(t, perMinute, 0)
			if c := s.Stats(); c.Lost < 1 {
				t.Errorf("after a crash Stats() = %+v, want it to have been noticed", c)
			}
		})
	}
}

// returns checks that answers come within a second of when they could, as
// PostgreSQL itself sees it.
func (c calls) returns(t *testing.T, since, up time.Time) {
	t.Helper()
	d, failed, err := c.outage(t, since)
	if d -= up.Sub(since); d > time.Second+c.slack() {
		t.Errorf("no answer until %v after the server was up, want at most 1s + %v; %d calls failed, the last with: %v", d, c.slack(), failed, err)
	}
	t.Logf("up %v after the fault, answers %v after that, %d calls failed, the last with: %v", up.Sub(since), d, failed, err)
}

// TestFaultPostgresStandby: a primary is killed whose standby has heard nothing
// of the burst that was just admitted.
func TestFaultPostgresStandby(t *testing.T) {
	t.Parallel()
	for name, logged := range map[string]bool{"unlogged": false, "logged": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pair := rig.PostgresPair(t)
			url := fmt.Sprintf("postgres://postgres@%s,%s/postgres?sslmode=disable&target_session_attrs=read-write&connect_timeout=1",
				pair.Primary.Addr, pair.Standby.Addr)
			s := created(t, &throttlesql.Store{Query: clients.Pgx(pool(t, url)), Logged: logged})
			const key = "lost"
			if _, err := store.Take(t.Context(), s, key, perMinute, 1); err != nil {
				t.Fatal(err)
			}
			rig.Until(t, "the standby has all", pair.InStep)
			pair.Link.Set(rig.Fault{Stall: true})
			var made calls
			drain(t, s, key, perMinute, &made)
			l := load{store: s, keys: []string{key}, limit: perMinute, callers: 8, deadline: tight}
			var killed, up time.Time
			got := l.run(t, func() {
				pair.Primary.Kill()
				killed = time.Now()
				pair.Standby.Promote(t)
				up = time.Now()
				back(t, s)
				rest(t.Context(), time.Second)
			})
			got.returns(t, killed, up)
			got.inTime(t, tight)
			if after := got.admitted(key); after == 0 {
				t.Error("nothing was admitted in the second after the fail-over, want the refill")
			}
			t.Logf("admitted %d of %v before the fail-over and %d after", made.admitted(key), perMinute, got.admitted(key))
			got.all = append(got.all, made.all...)
			got.within(t, perMinute, 0)
			if c := s.Stats(); c.Lost < 1 {
				t.Errorf("after the fail-over Stats() = %+v, want it to have been noticed", c)
			}
		})
	}
}

// TestFaultPostgresOpposite: many callers ask for the same keys, each in
// another order.
func TestFaultPostgresOpposite(t *testing.T) {
	t.Parallel()
	opposite(t, 30)
}

// TestSoakFaultPostgresOpposite is that with a million calls.
func TestSoakFaultPostgresOpposite(t *testing.T) {
	soak(t)
	opposite(t, 1_000_000/64)
}

func opposite(t *testing.T, each int64) {
	const callers = 64
	p := rig.Postgres(t)
	config, err := pgxpool.ParseConfig(p.URL)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = callers
	many, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(many.Close)
	s := created(t, &throttlesql.Store{Query: clients.Pgx(many)})
	l := limit.Limit{Count: 1 << 40, Period: time.Minute}
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			a := []limit.Ask{{Key: "x", Limit: l, N: 1}, {Key: "y", Limit: l, N: 1}}
			if i%2 == 1 {
				a[0].Key, a[1].Key = a[1].Key, a[0].Key
			}
			for range each {
				if _, err := s.Take(t.Context(), a, make([]limit.Decision, 2)); err != nil {
					t.Errorf("Take(%s, %s): %v", a[0].Key, a[1].Key, err)
					return
				}
			}
		})
	}
	all.Wait()
	if n := p.Number(t, "select deadlocks from pg_stat_database where datname = 'postgres'"); n != 0 {
		t.Errorf("%d deadlocks, want none", n)
	}
	for _, key := range []string{"x", "y"} {
		if d, err := store.Take(t.Context(), s, key, l, 0); err != nil || l.Count-d.Remaining > callers*each {
			t.Errorf("%s: %+v, %v, want at most %d charged", key, d, err, callers*each)
		}
	}
}
