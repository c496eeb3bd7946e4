package integration

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/throttle-go/throttle/integration/clients"
	"github.com/throttle-go/throttle/integration/rig"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/throttlesql"
)

// postgresSchema1 is what Schema gave when the version of the functions was 1.
//
//go:embed testdata/schema1.sql
var postgresSchema1 string

// postgresOld takes as programs with the functions of version 1 do, from a bucket
// of 10 a day: by the statement for what is likely to pass, else by the function.
func postgresOld(t *testing.T, p *pgxpool.Pool, key string, n int64) (ok bool) {
	t.Helper()
	const day = int64(24 * time.Hour / time.Microsecond)
	var at, full int64
	err := p.QueryRow(t.Context(), `INSERT INTO "throttle" AS s (key, t, n, p, l)
SELECT $1::bytea, now + $3::bigint, 0, now, $2::text
  FROM (SELECT (date_part('epoch', clock_timestamp()) * 1000000)::bigint AS now) AS clock
ON CONFLICT (key) DO UPDATE SET t = greatest(s.t, excluded.p) + $3::bigint, p = -excluded.p
 WHERE s.l = excluded.l AND s.n = 0 AND s.t <= excluded.p + $4::bigint
RETURNING s.p, s.t`, []byte(key), "10/day", day/10*n, day-day/10*n).Scan(&at, &full)
	if err == nil {
		return true
	}
	numbers := fmt.Sprintf("{0,%d,0,0,10,%d,20,%d,0,%d,0,%d,0,0,0,0,0,0,0,0,0,0,0,0}", n, day, day/10*n, day, 2*day)
	if err := p.QueryRow(t.Context(), `SELECT coalesce(ok, false) FROM throttle_take1(ARRAY[$1::bytea], ARRAY[$2::text], ARRAY[NULL::text], 0, $3::text::bigint[])`,
		[]byte(key), "10/day", numbers).Scan(&ok); err != nil {
		t.Fatalf("throttle_take1: %v", err)
	}
	return ok
}

// TestPostgresUpgrade: programs of the version before and of this one share the
// tables, whichever is there first; a program whose functions are missing says so.
func TestPostgresUpgrade(t *testing.T) {
	t.Parallel()
	url := rig.SharedPostgres(t).Database(t)
	p := pool(t, url)
	runSQL(t, url, postgresSchema1)
	l := limit.Limit{Count: 10, Period: 24 * time.Hour}
	s := &throttlesql.Store{Query: clients.Pgx(pool(t, url))}
	var admitted int64
	old := func(n int64) {
		if postgresOld(t, p, "k", n) {
			admitted += n
		}
	}
	old(3)
	_, err := s.Take(t.Context(), []limit.Ask{{Key: "k", Limit: l, N: 1}}, make([]limit.Decision, 1))
	var e *throttlesql.Error
	if !errors.As(err, &e) || e.Charged || !strings.Contains(err.Error(), "call Create") {
		t.Errorf("Take with the functions of an older version: error %v, want nothing charged, and to call Create", err)
	}
	finds(t, s.Check(t.Context()), throttlesql.ErrLayout, `function "throttle_take2"`, "of another version; call Create")
	created(t, s)
	if err := s.Check(t.Context()); err != nil {
		t.Errorf("Check after the upgrade: %v", err)
	}
	for range 4 {
		admitted += postgresTake(t, s, limit.Ask{Key: "k", Limit: l, N: 1}).N
		old(1)
	}
	if d := postgresTake(t, s, limit.Ask{Key: "k", Limit: l}); admitted != 10 || d.Remaining != 0 {
		t.Errorf("%d admitted by both, %d remain of 10", admitted, d.Remaining)
	}
	if old(1); admitted != 10 {
		t.Errorf("%d admitted, want 10", admitted)
	}
	runSQL(t, url, postgresSchema1) // by a program of the version before that starts now
	fixed := limit.Limit{Kind: limit.FixedWindow, Count: 2, Period: 1200 * limit.Month}
	postgresTake(t, s, limit.Ask{Key: "k", Limit: fixed, N: 1, Debt: true}) // which 10/day could not hold
	if old(1); admitted != 10 {
		t.Errorf("what the new version wrote under another limit was taken for nothing: %d admitted", admitted)
	}
}

// TestPostgresNextLayout: another version has changed what the columns mean, and
// their names with it. Programs of this one, with connections from before, charge
// nothing, and say what it is.
func TestPostgresNextLayout(t *testing.T) {
	t.Parallel()
	url := rig.SharedPostgres(t).Database(t)
	s := created(t, &throttlesql.Store{Query: clients.Pgx(pool(t, url))})
	bucket := limit.Limit{Count: 10, Period: time.Hour}
	asks := map[string][]limit.Ask{"several": {{Key: "x", Limit: bucket, N: 1}, {Key: "y", Limit: bucket, N: 1}}}
	for _, l := range kindsToStep() {
		asks[l.Kind.String()] = []limit.Ask{{Key: l.Kind.String(), Limit: l, N: 1}}
	}
	for _, a := range asks {
		for range 2 {
			postgresTake(t, s, a...)
		}
	}
	runSQL(t, url, "ALTER TABLE throttle RENAME t TO full_at", "COMMENT ON TABLE throttle IS 'throttlesql layout 2'")
	for _, s := range []*throttlesql.Store{s, {Query: clients.Pgx(pool(t, url))}} {
		for name, a := range asks {
			_, err := s.Take(t.Context(), a, make([]limit.Decision, len(a)))
			var e *throttlesql.Error
			if !errors.As(err, &e) || e.Charged || !strings.Contains(err.Error(), "the table has another layout") {
				t.Errorf("%s: error %v, want nothing charged, and that the layout is another", name, err)
			}
		}
		if err := s.Create(context.Background()); err == nil || !strings.Contains(err.Error(), "has the layout 2") {
			t.Errorf("Create: error %v, want that the layout is 2", err)
		}
		finds(t, s.Check(t.Context()), throttlesql.ErrLayout, "has the layout 2", "this version needs layout 1")
	}
}
