package integration

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/lib/pq"

	"github.com/throttle-go/throttle/integration/clients"
	"github.com/throttle-go/throttle/integration/rig"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/store"
	"github.com/throttle-go/throttle/throttlesql"
)

// bounced is a client of a bouncer, with at most so many connections.
func bounced(t *testing.T, client, url string, conns int) throttlesql.Query {
	t.Helper()
	switch client {
	case "lib/pq":
		db := openDB(t, "postgres", url)
		db.SetMaxOpenConns(conns)
		return clients.LibPQ(db)
	case "database/sql":
		db := openDB(t, "pgx", url)
		db.SetMaxOpenConns(conns)
		return clients.DatabaseSQL(db)
	}
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = int32(conns)
	p, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return clients.Pgx(p)
}

func databaseOf(t *testing.T, s *rig.PostgresServer) string {
	t.Helper()
	u, err := url.Parse(s.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(u.Path, "/")
}

// TestPostgresBouncer: behind PgBouncer with four connections, with the settings of
// docs/postgresql.md, everything is decided; without them an error says what to set.
func TestPostgresBouncer(t *testing.T) {
	server := rig.SharedPostgres(t)
	for _, pool := range []string{"session", "transaction", "statement"} {
		bouncer := rig.PgBouncer(t, server, "pool_mode = "+pool, "default_pool_size = 4")
		for _, c := range []struct {
			client, setting string
			session, works  bool
		}{
			{"pgx", "", true, true},
			{"database/sql", "", true, true},
			{"lib/pq", "", true, true},
			{"pgx", "default_query_exec_mode=cache_describe", false, true},
			{"database/sql", "default_query_exec_mode=exec", false, true},
			{"lib/pq", "binary_parameters=yes", false, true},
			{"pgx", "", false, false},
		} {
			if c.session != (pool == "session") {
				continue
			}
			t.Run(pool+"/"+c.client+"/"+c.setting, func(t *testing.T) {
				t.Parallel()
				conns := 16
				if c.session {
					conns = 4
				}
				s := &throttlesql.Store{Query: bounced(t, c.client, bouncer.URL(databaseOf(t, server))+"&"+c.setting, conns)}
				if err := s.Create(t.Context()); err != nil {
					t.Fatal("Create:", err)
				}
				if err := s.Check(t.Context()); err != nil {
					t.Error("Check:", err)
				}
				failed := bouncerWorks(t, s)
				switch texts := fmt.Sprint(failed); {
				case len(failed) == 0 && !c.works:
					t.Log("nothing failed: PgBouncer 1.21 and later may know prepared statements")
				case len(failed) > 0 && (c.works || !strings.Contains(texts, "default_query_exec_mode=cache_describe")):
					t.Errorf("errors %s; want none, or in words that say what to set", texts)
				}
			})
		}
	}
}

// TestFaultBouncer: behind a guard, PgBouncer is paused, resumed, its database is
// killed, it is killed itself and started again; no call is late, and the store
// decides again by itself.
func TestFaultBouncer(t *testing.T) {
	t.Parallel()
	server := rig.SharedPostgres(t)
	database := databaseOf(t, server)
	created(t, &throttlesql.Store{Query: clients.Pgx(pool(t, server.In(database)))})
	bouncer := rig.PgBouncer(t, server, "pool_mode = transaction", "default_pool_size = 2")
	const deadline = 100 * time.Millisecond
	for _, c := range []struct{ client, setting string }{
		{"pgx", "default_query_exec_mode=cache_describe"}, {"lib/pq", "binary_parameters=yes"},
	} {
		plain := &throttlesql.Store{Query: bounced(t, c.client, bouncer.URL(database)+"&connect_timeout=2&"+c.setting, 16)}
		guard := &store.Guard{Store: plain, Timeout: deadline, Fallback: store.FallbackDeny}
		l := load{store: guard, keys: []string{"bounced " + c.client}, limit: limit.Limit{Count: 1000, Period: 10 * time.Second}, callers: 8, deadline: sure}
		again := func() {
			before := guard.Stats().Decided
			rig.Until(t, "the store decides again", func() error {
				if s := guard.Stats(); s.Away || s.Slow || s.Decided < before+10 {
					return fmt.Errorf("%+v", s)
				}
				return nil
			})
		}
		got := l.run(t, func() {
			again()
			for _, fault := range [][2]string{{"pause", "resume"}, {"kill " + database, "resume " + database}, {"reconnect", "show version"}, {"disable " + database, "enable " + database}} {
				bouncer.Admin(t, fault[0])
				rest(t.Context(), 400*time.Millisecond)
				bouncer.Admin(t, fault[1])
				begun := time.Now()
				again()
				t.Logf("%s: the store decides %v after %s", c.client, time.Since(begun).Round(time.Millisecond), fault[1])
			}
			bouncer.Freeze()
			rest(t.Context(), time.Second)
			bouncer.Thaw()
			again()
			bouncer.Restart(t)
			begun := time.Now()
			again()
			t.Logf("%s: the store decides %v after a restart", c.client, time.Since(begun).Round(time.Millisecond))
		})
		got.inTime(t, deadline)
		got.within(t, l.limit, 0)
		if n, some := got.failures(); n > 0 {
			t.Errorf("%d guarded calls failed:%s", n, some)
		}
	}
}

// bouncerWorks makes many kinds of asks from many callers at a time, and returns the
// first error of each text. All of the burst of one key passes, and no more.
func bouncerWorks(t *testing.T, s *throttlesql.Store) (failed map[string]int) {
	t.Helper()
	failed = map[string]int{}
	var mu sync.Mutex
	var all sync.WaitGroup
	var passed atomic.Int64
	shared := limit.Limit{Count: 300, Period: 12 * limit.Month}
	for i := range 12 {
		all.Go(func() {
			for j := range 40 {
				kind := limit.Kind((i + j) % 7)
				own := limit.Ask{Key: fmt.Sprint("own", i, kind), Limit: limit.Limit{Kind: kind, Count: 1000, Period: limit.Month}, N: 1}
				both := []limit.Ask{{Key: "shared", Limit: shared, N: 1}, own}
				d := make([]limit.Decision, 2)
				ok, err := s.Take(t.Context(), both, d)
				if err != nil {
					mu.Lock()
					failed[err.Error()]++
					mu.Unlock()
				} else if ok {
					passed.Add(1)
				}
			}
		})
	}
	all.Wait()
	if n := passed.Load(); n != shared.Count && len(failed) == 0 || n > shared.Count {
		t.Errorf("%d of 480 calls passed, want %d", n, shared.Count)
	}
	return failed
}
