package integration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/throttle-go/throttle/integration/clients"
	"github.com/throttle-go/throttle/integration/rig"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/throttlesql"
)

// A postgresCounter counts statements.
type postgresCounter struct {
	query throttlesql.Query
	n     atomic.Int64
}

func (c *postgresCounter) Query(ctx context.Context, sql string, args ...any) throttlesql.Row {
	if !strings.Contains(sql, "_sweep2") { // now and then, for new rows
		c.n.Add(1)
	}
	return c.query(ctx, sql, args...)
}

// statements is how many f sends.
func (c *postgresCounter) statements(f func()) int64 {
	before := c.n.Load()
	f()
	return c.n.Load() - before
}

// postgresTake asks, and must have an answer.
func postgresTake(t testing.TB, s *throttlesql.Store, a ...limit.Ask) limit.Decision {
	t.Helper()
	d := make([]limit.Decision, len(a))
	if _, err := s.Take(context.Background(), a, d); err != nil {
		t.Fatalf("Take(%+v): %v", a, err)
	}
	return d[0]
}

// TestPostgresStatements: a decision is one statement, whatever is asked, once
// a session knows since when nothing was lost.
func TestPostgresStatements(t *testing.T) {
	conn, err := pgx.Connect(t.Context(), rig.SharedPostgres(t).Database(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	c := &postgresCounter{query: func(ctx context.Context, sql string, args ...any) throttlesql.Row {
		return conn.QueryRow(ctx, sql, args...)
	}}
	s := created(t, &throttlesql.Store{Query: c.Query})
	day := 24 * time.Hour
	postgresTake(t, s, limit.Ask{Key: "first", Limit: limit.Limit{Count: 1, Period: day}})
	two := func(kind limit.Kind) limit.Limit { return limit.Limit{Kind: kind, Count: 2, Period: 365 * day} }
	bucket, log := two(limit.TokenBucket), two(limit.SlidingLog)
	for i, step := range []struct {
		want int64
		ok   bool
		asks []limit.Ask
	}{
		{1, true, []limit.Ask{{Key: "a", Limit: bucket, N: 1}}},  // new
		{1, true, []limit.Ask{{Key: "a", Limit: bucket, N: 1}}},  // not new
		{1, false, []limit.Ask{{Key: "a", Limit: bucket, N: 1}}}, // as was to be expected
		{1, true, []limit.Ask{{Key: "a", Limit: bucket}}},
		{1, false, []limit.Ask{{Key: "a", Limit: bucket, N: 3}}}, // never
		{1, true, []limit.Ask{{Key: "a", Limit: bucket, N: -1}}},
		{2, true, []limit.Ask{{Key: "a", Limit: bucket, N: 1}}},             // not expected, as it was given back
		{1, true, []limit.Ask{{Key: "a", Limit: bucket, N: 1, Debt: true}}}, // though it does not fit
		{1, true, []limit.Ask{{Key: "b", Limit: two(limit.FixedWindow), N: 1}}},
		{1, true, []limit.Ask{{Key: "c", Limit: two(limit.FirstHitWindow), N: 1}}},
		{1, true, []limit.Ask{{Key: "d", Limit: limit.Limit{Kind: limit.CalendarWindow, Count: 2, Period: 12 * limit.Month}, N: 1}}},
		{1, true, []limit.Ask{{Key: "e", Limit: two(limit.SlidingWindow), N: 1}}},
		{1, true, []limit.Ask{{Key: "f", Limit: two(limit.SlidingSlots), N: 1}}},
		{1, true, []limit.Ask{{Key: "g", Limit: log, N: 1}}},
		{1, true, []limit.Ask{{Key: "b", Limit: two(limit.FixedWindow), N: 1}, {Key: "g", Limit: log, N: 1}, {Key: "h", Limit: bucket, N: 1}}},
		{1, true, []limit.Ask{{Key: "c", Limit: two(limit.FirstHitWindow), N: 1}, {Key: "i", Limit: bucket, N: 1}}},
		{1, false, []limit.Ask{{Key: "b", Limit: two(limit.FixedWindow), N: 1}, {Key: "h", Limit: bucket, N: 1}}},
		{0, true, []limit.Ask{{Key: "a", Limit: limit.Limit{}, N: 1}}}, // nothing to remember
		{0, false, []limit.Ask{{Key: "a", Limit: limit.Limit{Period: day}, N: 1}}},
	} {
		var ok bool
		got := c.statements(func() { ok, err = s.Take(t.Context(), step.asks, make([]limit.Decision, len(step.asks))) })
		if got != step.want || ok != step.ok || err != nil {
			t.Errorf("%d: Take(%+v) = %v, %v by %d statements, want %v by %d", i, step.asks, ok, err, got, step.ok, step.want)
		}
	}
}

// TestPostgresWritesNothing: a refusal and a peek leave every row as it is, and
// make none.
func TestPostgresWritesNothing(t *testing.T) {
	p := pool(t, rig.SharedPostgres(t).Database(t))
	s := created(t, &throttlesql.Store{Query: clients.Pgx(p)})
	rows := func() (text string) {
		if err := p.QueryRow(t.Context(), `SELECT string_agg(concat_ws(' ', key, ctid, xmin, t, n, p), ',' ORDER BY key) FROM throttle`).Scan(&text); err != nil {
			t.Fatal(err)
		}
		return text
	}
	for kind := limit.TokenBucket; kind <= limit.CalendarWindow; kind++ {
		l := limit.Limit{Kind: kind, Count: 3, Period: 12 * limit.Month}
		full, fresh := limit.Ask{Key: "full " + kind.String(), Limit: l, N: 3}, limit.Ask{Key: "new " + kind.String(), Limit: l, N: 1}
		postgresTake(t, s, full)
		before := rows()
		for range 3 {
			for _, n := range []int64{0, 1, 2, 4} {
				full.N = n
				if d := postgresTake(t, s, full); d.OK != (n == 0) {
					t.Fatalf("Take(%+v) = %+v", full, d)
				}
				if n > 0 {
					postgresTake(t, s, fresh, full)
				}
			}
		}
		if after := rows(); after != before {
			t.Fatalf("%v: after refusals the rows are\n %s, were\n %s", kind, after, before)
		}
	}
}

// TestPostgresSweep: rows that say nothing any more go, by and by and all at
// once; others stay.
func TestPostgresSweep(t *testing.T) {
	p := pool(t, rig.SharedPostgres(t).Database(t))
	s := created(t, &throttlesql.Store{Query: clients.Pgx(p), Table: "swept", Logged: true})
	count := func() (rows, entries int64) {
		if err := p.QueryRow(t.Context(), `SELECT count(*), (SELECT count(*) FROM swept_log) FROM swept`).Scan(&rows, &entries); err != nil {
			t.Fatal(err)
		}
		return rows, entries
	}
	exec := func(sql string) {
		if _, err := p.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	day := limit.Limit{Count: 5, Period: 24 * time.Hour}
	log := limit.Limit{Kind: limit.SlidingLog, Count: 5, Period: 24 * time.Hour}
	stays := limit.Ask{Key: "stays", Limit: log, N: 1}
	postgresTake(t, s, stays)
	const old, young = 2000, 4000 // a page of rows or entries is missed by 1 %: there are about 100, and 500 looks
	for i := range old {
		postgresTake(t, s, limit.Ask{Key: fmt.Sprint("old", i), Limit: []limit.Limit{day, log}[i%2], N: 1})
	}
	// Two days later, but not for all:
	exec(`UPDATE swept SET t = t - 172800000000 WHERE key <> 'stays'`)
	exec(`UPDATE swept_log SET until = until - 172800000000 WHERE id <> (SELECT p FROM swept WHERE key = 'stays')`)
	for i := range young {
		postgresTake(t, s, limit.Ask{Key: fmt.Sprint("new", i), Limit: day, N: 1})
	}
	rows, entries := count()
	if rows > young+old/4 || entries > old/8 {
		t.Errorf("after %d new rows there are %d rows and %d entries of logs, want about %d rows and few entries", young, rows, entries, young)
	}
	if _, err := s.Sweep(t.Context()); err != nil {
		t.Fatalf("Sweep: %v", err)
	}
	if rows, entries = count(); rows != young+1 || entries != 1 {
		t.Errorf("after Sweep there are %d rows and %d entries, want %d and 1", rows, entries, young+1)
	}
	exec(`UPDATE swept SET t = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint - 1 WHERE key <> 'stays'`)
	if n, err := s.Sweep(t.Context()); n != young || err != nil {
		t.Errorf("Sweep of %d old rows = %d, %v", young, n, err)
	}
	stays.N = 0
	if d := postgresTake(t, s, stays); d.Remaining != 4 {
		t.Errorf("%q has %d remaining, want 4", stays.Key, d.Remaining)
	}
}

// TestPostgresCreate: many may create at once, and again, also one who may not.
func TestPostgresCreate(t *testing.T) {
	url := rig.SharedPostgres(t).Database(t)
	p := pool(t, url)
	for _, table := range []string{"", "limits of ours", `public.Größe`} {
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				s := &throttlesql.Store{Query: clients.Pgx(p), Table: table}
				if err := s.Create(context.Background()); err != nil {
					t.Errorf("Create of %q: %v", table, err)
				}
			})
		}
		all.Wait()
		s := &throttlesql.Store{Query: clients.Pgx(p), Table: table}
		postgresTake(t, s, limit.Ask{Key: "k", Limit: ample, N: 1})
		created(t, s)
	}
	for _, sql := range []string{
		`CREATE ROLE poor LOGIN`,
		`REVOKE CREATE ON SCHEMA public FROM public`,
		`GRANT SELECT, INSERT, UPDATE, DELETE ON throttle, throttle_fence, throttle_log TO poor`,
		`GRANT USAGE ON SEQUENCE throttle_id TO poor`,
	} {
		if _, err := p.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	poor := created(t, &throttlesql.Store{Query: clients.Pgx(pool(t, strings.Replace(url, "postgres@", "poor@", 1)))})
	postgresTake(t, poor, limit.Ask{Key: "a", Limit: limit.Limit{Kind: limit.SlidingLog, Count: 9, Period: time.Hour}, N: 1}, limit.Ask{Key: "b", Limit: ample, N: 1})
	if _, err := poor.Sweep(t.Context()); err != nil {
		t.Errorf("Sweep without the right to create: %v", err)
	}
}

// TestPostgresErrors: an error says whether something may have been charged.
func TestPostgresErrors(t *testing.T) {
	p := pool(t, rig.SharedPostgres(t).Database(t))
	ask := limit.Ask{Key: "k", Limit: limit.Limit{Count: 10, Period: 24 * time.Hour}, N: 1}
	fails := func(ctx context.Context, s *throttlesql.Store, charged bool, words string) {
		t.Helper()
		_, err := s.Take(ctx, []limit.Ask{ask}, make([]limit.Decision, 1))
		var e *throttlesql.Error
		if !errors.As(err, &e) || e.Charged != charged || !strings.Contains(err.Error(), words) {
			t.Errorf("Take = error %q, want one with %q and Charged %v", err, words, charged)
		}
	}
	s := &throttlesql.Store{Query: clients.Pgx(p)}
	fails(t.Context(), s, false, "call Create")
	created(t, s)
	postgresTake(t, s, ask)

	// Somebody works on the row and does not come to an end.
	tx, err := p.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(t.Context(), `SELECT FROM throttle WHERE key = 'k' FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	config := p.Config()
	config.ConnConfig.RuntimeParams["lock_timeout"] = "20ms"
	impatient, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer impatient.Close()
	fails(t.Context(), &throttlesql.Store{Query: clients.Pgx(impatient)}, false, "lock timeout")
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	fails(ctx, s, true, "deadline")
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	rig.Until(t, "nobody waits for the row", func() error {
		ask.N = 0
		if d := postgresTake(t, s, ask); d.Remaining > 9 {
			return fmt.Errorf("%d remain", d.Remaining)
		}
		return nil
	})
}

// TestPostgresLimitsAtOdds: two programs that do not agree on the limit of a
// hot key carry it over to and fro, and both have answers.
func TestPostgresLimitsAtOdds(t *testing.T) {
	p := pool(t, rig.SharedPostgres(t).Database(t))
	s := created(t, &throttlesql.Store{Query: clients.Pgx(p)})
	limits := []limit.Limit{{Count: 400, Period: 365 * 24 * time.Hour}, {Count: 500, Period: 365 * 24 * time.Hour}}
	var all sync.WaitGroup
	var admitted atomic.Int64
	for i := range 8 {
		all.Go(func() {
			for range 40 {
				ok, err := s.Take(context.Background(), []limit.Ask{{Key: "hot", Limit: limits[i%2], N: 1}}, make([]limit.Decision, 1))
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
	if n := admitted.Load(); n != 320 {
		t.Errorf("admitted %d of 320, by limits of 400 and 500", n)
	}
	if d := postgresTake(t, s, limit.Ask{Key: "hot", Limit: limits[0]}); 400-d.Remaining < admitted.Load() {
		t.Errorf("%d were admitted and %d remain of 400", admitted.Load(), d.Remaining)
	}
}
