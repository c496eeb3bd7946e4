package integration

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/throttle-go/throttle/integration/clients"
	"github.com/throttle-go/throttle/integration/rig"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/throttlesql"
)

// run executes statements in a database.
func runSQL(t *testing.T, url string, statements ...string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	for _, text := range statements {
		if _, err := conn.Exec(t.Context(), text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
}

// as returns a URL for another user.
func as(url, user string) string { return strings.Replace(url, "postgres@", user+"@", 1) }

// finds checks that err has one line for each of what, which wraps it and has
// the words.
func finds(t *testing.T, err error, what error, words ...string) {
	t.Helper()
	if !errors.Is(err, what) {
		t.Errorf("error %q, want one that is %q", err, what)
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("error %q, want one with %q", err, word)
		}
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		if !strings.HasPrefix(line, "throttlesql: ") {
			t.Errorf("line %q does not begin with the package", line)
		}
	}
}

func TestPostgresCheck(t *testing.T) {
	t.Parallel()
	clock := rig.NewClock(t)
	server := clock.Postgres(t, "max_prepared_transactions=2")
	url := server.Database(t)
	store := func(suffix string) *throttlesql.Store {
		return &throttlesql.Store{Query: clients.Pgx(pool(t, url+suffix)), Table: "public.50%s"}
	}
	s := store("")
	finds(t, s.Check(t.Context()), throttlesql.ErrLayout, `"public"."50%s" does not exist: call Create`)
	bare := throttlesql.Store{Query: s.Query}
	finds(t, bare.Check(t.Context()), throttlesql.ErrLayout, `"throttle" does not exist in the search_path "$user", public: call Create`)
	nowhere := throttlesql.Store{Query: s.Query, Table: "no.where"}
	if err := nowhere.Check(t.Context()); err == nil || err.Error() != `throttlesql: check: schema "no" of the Table does not exist: make it first, by CREATE SCHEMA "no"` {
		t.Errorf("Check without the schema: %v", err)
	}
	created(t, s)
	if err := s.Check(t.Context()); err != nil {
		t.Errorf("Check after Create: %v", err)
	}
	if q := store("&quote_all_identifiers=on"); q.Create(t.Context()) != nil || q.Check(t.Context()) != nil {
		t.Errorf("with quote_all_identifiers: Create %v, Check %v", q.Create(t.Context()), q.Check(t.Context()))
	}
	postgresTake(t, s, limit.Ask{Key: "k", Limit: ample, N: 1})
	const set = "&default_transaction_"
	finds(t, store(set+"isolation=serializable").Check(t.Context()), throttlesql.ErrIsolation, "serializable", "read committed")
	finds(t, store(set+"read_only=on").Check(t.Context()), throttlesql.ErrReadOnly, "default_transaction_read_only = off")

	long, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer long.Close(context.Background())
	for _, text := range []string{"BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT txid_current()"} {
		if _, err := long.Exec(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	runSQL(t, url, "BEGIN", "CREATE TABLE x ()", "PREPARE TRANSACTION 'forgotten'")
	if err := s.Check(t.Context()); err != nil {
		t.Errorf("Check beside a young transaction: %v", err)
	}
	clock.Shift(t, 10*time.Minute)
	finds(t, s.Check(t.Context()), throttlesql.ErrVacuum, "open for 00:10:0", "idle_in_transaction_session_timeout", "ROLLBACK PREPARED", "forgotten")
	runSQL(t, url, "ROLLBACK PREPARED 'forgotten'", `TRUNCATE "50%s_fence"`)
	long.Close(t.Context())
	postgresTake(t, s, limit.Ask{Key: "other", Limit: ample}) // finds no fence, and writes one
	clock.Shift(t, 0)
	finds(t, s.Check(t.Context()), throttlesql.ErrFence, "9m5", `"public"."50%s_fence"`, "a Take moves it")
	postgresTake(t, s, limit.Ask{Key: "third", Limit: ample})
	if err := s.Check(t.Context()); err != nil {
		t.Errorf("Check after the fence was moved: %v", err)
	}
}

// TestPostgresOtherLayout: Create over another layout names the difference and
// makes nothing, and Check names it too.
func TestPostgresOtherLayout(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		logged bool
		first  string // after Create, if it does not begin with CREATE
		words  string
	}{
		"foreign table": {false, `CREATE TABLE throttle (key text PRIMARY KEY, tokens int)`, `has no column key bytea, but one text`},
		"view":          {false, `CREATE VIEW throttle AS SELECT ''::bytea AS key, 1::bigint AS t, 1::bigint AS n, 1::bigint AS p, ''::text AS l, '{}'::bigint[] AS a`, "is not a table"},
		"type":          {false, `ALTER TABLE throttle ALTER t TYPE numeric`, `has no column t bigint, but one numeric`},
		"no column":     {false, `ALTER TABLE throttle_log DROP before`, `"throttle_log" has no column before bigint;`},
		"more":          {false, `ALTER TABLE throttle ADD tenant int NOT NULL`, `column tenant that must not be null`},
		"no key":        {false, `ALTER TABLE throttle DROP CONSTRAINT throttle_pkey`, `no unique index on (key)`},
		"version":       {false, `COMMENT ON TABLE throttle_fence IS 'throttlesql layout 2'`, `"throttle_fence" has the layout 2`},
		"unlogged":      {true, `ALTER TABLE throttle SET UNLOGGED`, `SET LOGGED`},
		"function":      {false, `CREATE OR REPLACE FUNCTION throttle_look2(k bytea, OUT at bigint, OUT t bigint, OUT n bigint, OUT p bigint, OUT l text, OUT since bigint) LANGUAGE sql AS 'SELECT 1::bigint, 1::bigint, 1::bigint, 1::bigint, ''''::text, 1::bigint'`, `throttle_look2(bytea) is not the one of this version`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := rig.SharedPostgres(t).Database(t)
			s := &throttlesql.Store{Query: clients.Pgx(pool(t, url)), Logged: c.logged}
			if strings.HasPrefix(c.first, "CREATE ") && name != "function" {
				runSQL(t, url, c.first)
			} else {
				created(t, s)
				runSQL(t, url, c.first, "DROP FUNCTION throttle_sweep2")
			}
			err := s.Create(t.Context())
			if err == nil || !strings.Contains(err.Error(), c.words) || !strings.Contains(err.Error(), "another layout is there, and is left as it is") {
				t.Errorf("Create: error %v, want one with %q", err, c.words)
			}
			var made int
			if err := pool(t, url).QueryRow(t.Context(), `SELECT count(*) FROM pg_proc WHERE proname = 'throttle_sweep2'`).Scan(&made); err != nil || made != 0 {
				t.Errorf("%d functions were made (%v), want none", made, err)
			}
			finds(t, s.Check(t.Context()), throttlesql.ErrLayout, c.words)
		})
	}
}

// TestPostgresNoSequence: tables that were moved to another schema, or restored,
// without the sequence of their logs: Check names it, and Create makes one that goes
// on after the ids in use, so that no two keys share a log.
func TestPostgresNoSequence(t *testing.T) {
	t.Parallel()
	url := rig.SharedPostgres(t).Database(t)
	s := created(t, &throttlesql.Store{Query: clients.Pgx(pool(t, url))})
	l := limit.Limit{Kind: limit.SlidingLog, Count: 3, Period: time.Hour}
	ask := func(key string, n int64) limit.Ask { return limit.Ask{Key: key, Limit: l, N: n} }
	for _, key := range []string{"before", "too", "lost"} {
		postgresTake(t, s, ask(key, 2))
	}
	runSQL(t, url, `DELETE FROM throttle_log WHERE id = (SELECT max(id) FROM throttle_log)`, `DROP SEQUENCE throttle_id`)
	finds(t, s.Check(t.Context()), throttlesql.ErrLayout, `sequence "throttle_id" does not exist`, "call Create")
	created(t, s)
	if err := s.Check(t.Context()); err != nil {
		t.Errorf("Check after Create: %v", err)
	}
	postgresTake(t, s, ask("new", 1))
	for key, left := range map[string]int64{"before": 1, "too": 1, "new": 2, "lost": 3} {
		if d := postgresTake(t, s, ask(key, 0)); d.Remaining != left {
			t.Errorf("%s: %d remain, want %d", key, d.Remaining, left)
		}
	}
}

// TestPostgresOnStandby: Create, Check and Take on a standby say what it is.
func TestPostgresOnStandby(t *testing.T) {
	t.Parallel()
	pair := rig.PostgresPair(t)
	s := &throttlesql.Store{Query: clients.Pgx(pool(t, pair.Standby.URL))}
	for _, when := range []string{"nothing", "all"} {
		if err := s.Create(t.Context()); err == nil || !strings.Contains(err.Error(), "this server is a standby: connect to its primary") {
			t.Errorf("Create where %s is there: error %v, want that it is a standby", when, err)
		}
		finds(t, s.Check(t.Context()), throttlesql.ErrReadOnly, "the server is a standby")
		created(t, &throttlesql.Store{Query: clients.Pgx(pool(t, pair.Primary.URL))})
		rig.Until(t, "the standby has all", pair.InStep)
	}
	_, err := s.Take(t.Context(), []limit.Ask{{Key: "k", Limit: ample, N: 1}}, make([]limit.Decision, 1))
	var e *throttlesql.Error
	if !errors.As(err, &e) || e.Charged || !strings.Contains(err.Error(), "primary") {
		t.Errorf("Take: error %v, want that nothing was charged, and to go to a primary", err)
	}
}

// postgresClients are the clients that docs/postgresql.md names.
var postgresClients = map[string]func(*testing.T, string) throttlesql.Query{
	"pgx": func(t *testing.T, url string) throttlesql.Query { return clients.Pgx(pool(t, url)) },
	"database/sql": func(t *testing.T, url string) throttlesql.Query {
		db, err := sql.Open("pgx", url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		return clients.DatabaseSQL(db)
	},
}

// TestPostgresGrants: the grants of docs/postgresql.md are enough, and each of
// them is needed; without one, nothing is charged, and the error says what to do.
func TestPostgresGrants(t *testing.T) {
	t.Parallel()
	server := rig.Postgres(t)
	server.Exec(t, "CREATE ROLE creator LOGIN")
	server.Exec(t, "CREATE ROLE taker LOGIN")
	grants := []string{
		"GRANT USAGE ON SCHEMA app TO taker",
		"GRANT SELECT, INSERT, UPDATE, DELETE ON app.throttle, app.throttle_fence, app.throttle_log TO taker",
		"GRANT USAGE ON SEQUENCE app.throttle_id TO taker",
	}
	asks := []limit.Ask{
		{Key: "a", Limit: ample, N: 1},
		{Key: "b", Limit: limit.Limit{Kind: limit.SlidingLog, Count: 9, Period: time.Hour}, N: 1},
	}
	for name, client := range postgresClients {
		t.Run(name, func(t *testing.T) {
			url := server.Database(t)
			creator := &throttlesql.Store{Query: client(t, as(url, "creator")), Table: "app.throttle"}
			runSQL(t, url, "CREATE SCHEMA app", "GRANT USAGE ON SCHEMA app TO creator")
			if err := creator.Create(t.Context()); err == nil || !strings.Contains(err.Error(), "GRANT USAGE, CREATE ON SCHEMA") {
				t.Errorf("Create without the right to: error %v, want what to grant", err)
			}
			runSQL(t, url, "GRANT USAGE, CREATE ON SCHEMA app TO creator")
			created(t, creator)
			for left := range grants {
				taker := &throttlesql.Store{Query: client(t, as(url, "taker")), Table: "app.throttle"}
				runSQL(t, url, "REVOKE ALL ON SCHEMA app FROM taker", "REVOKE ALL ON ALL TABLES IN SCHEMA app FROM taker", "REVOKE ALL ON SEQUENCE app.throttle_id FROM taker")
				for i, grant := range grants {
					if i != left {
						runSQL(t, url, grant)
					}
				}
				_, err := taker.Take(t.Context(), asks, make([]limit.Decision, 2))
				var e *throttlesql.Error
				if !errors.As(err, &e) || e.Charged || !strings.Contains(err.Error(), "permission denied") || !strings.Contains(err.Error(), "GRANT") {
					t.Errorf("Take without %s: error %v, want nothing charged and what to grant", grants[left], err)
				}
				finds(t, taker.Check(t.Context()), throttlesql.ErrPrivilege, "GRANT "+strings.Fields(grants[left])[1])
			}
			runSQL(t, url, grants...)
			taker := created(t, &throttlesql.Store{Query: client(t, as(url, "taker")), Table: "app.throttle"})
			if err := taker.Check(t.Context()); err != nil {
				t.Errorf("Check with all grants: %v", err)
			}
			for _, l := range kindsToStep() {
				postgresTake(t, taker, append([]limit.Ask{{Key: "k" + l.Kind.String(), Limit: l, N: 1}}, asks...)...)
			}
			if _, err := taker.Sweep(t.Context()); err != nil {
				t.Errorf("Sweep: %v", err)
			}
		})
	}
}

// TestPostgresNotConnected: where no connection was made, nothing was charged.
func TestPostgresNotConnected(t *testing.T) {
	t.Parallel()
	server := rig.Postgres(t, "max_connections=5", "superuser_reserved_connections=0")
	server.Exec(t, "CREATE ROLE barred NOLOGIN")
	stalled := rig.NewProxy(t, server.Addr)
	stalled.Set(rig.Fault{Stall: true})
	hold := func() {
		for range 5 {
			conn, err := pgx.Connect(t.Context(), server.URL)
			if err != nil {
				break
			}
			t.Cleanup(func() { conn.Close(context.Background()) })
		}
	}
	for _, c := range []struct{ name, url string }{
		{"no server", "postgres://postgres@127.0.0.1:1/postgres?sslmode=disable"},
		{"no host", "postgres://postgres@no-such-host.invalid/postgres?sslmode=disable"},
		{"no database", strings.Replace(server.URL, "/postgres?", "/none?", 1)},
		{"no role", as(server.URL, "nobody")},
		{"may not log in", as(server.URL, "barred")},
		{"no TLS", strings.Replace(server.URL, "sslmode=disable", "sslmode=require", 1)},
		{"two hosts, no server", "postgres://postgres@127.0.0.1:1,127.0.0.1:2/postgres?sslmode=disable"},
		{"stalled", fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable&connect_timeout=1", stalled.Addr)},
		{"too many", server.URL},
	} {
		if c.name == "too many" {
			hold()
		}
		for name, client := range postgresClients {
			s := &throttlesql.Store{Query: client(t, c.url)}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			_, err := s.Take(ctx, []limit.Ask{{Key: "k", Limit: ample, N: 1}}, make([]limit.Decision, 1))
			cancel()
			var e *throttlesql.Error
			if !errors.As(err, &e) || e.Charged || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s, by %s: error %q, want one line that says that nothing was charged", c.name, name, err)
			}
		}
	}
	closed, err := pgxpool.New(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	db, _ := sql.Open("pgx", server.URL)
	db.Close()
	for _, q := range []throttlesql.Query{clients.Pgx(closed), clients.DatabaseSQL(db)} {
		_, err := (&throttlesql.Store{Query: q}).Take(t.Context(), []limit.Ask{{Key: "k", Limit: ample, N: 1}}, make([]limit.Decision, 1))
		if err == nil || !strings.Contains(err.Error(), "nothing was charged") {
			t.Errorf("closed pool: error %v, want that nothing was charged", err)
		}
	}
}
