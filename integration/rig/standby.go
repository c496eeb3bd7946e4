package rig

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"
)

// PostgresReplicated is a primary and the standby that follows it through a
// proxy, asynchronously. A stall of Link makes the standby lag, and what is
// held back in it is lost when the standby is promoted.
type PostgresReplicated struct {
	Primary, Standby *PostgresServer
	Link             *Proxy
}

// PostgresPair starts a primary and a standby, both with the same settings, and
// waits until the standby streams.
func PostgresPair(t testing.TB, settings ...string) *PostgresReplicated {
	t.Helper()
	return postgresPair(t, settings, nil)
}

// PostgresPair starts a pair as [PostgresPair] does, with the standby under the
// clock.
func (c *Clock) PostgresPair(t testing.TB, settings ...string) *PostgresReplicated {
	t.Helper()
	return postgresPair(t, settings, c.env())
}

func postgresPair(t testing.TB, settings, env []string) *PostgresReplicated {
	t.Helper()
	r := &PostgresReplicated{Primary: Postgres(t, settings...)}
	r.Link = NewProxy(t, r.Primary.Addr)
	s, err := again(func() (*PostgresServer, error) { return startStandby(r.Link.Port, settings, env) })
	check(t, err)
	t.Cleanup(s.remove)
	r.Standby = s
	Until(t, "the standby streams", func() error {
		n, err := r.Primary.number("select count(*) from pg_stat_replication where state = 'streaming'")
		if err == nil && n != 1 {
			err = fmt.Errorf("%d standbys stream", n)
		}
		return err
	})
	return r
}

func startStandby(primary int, settings, env []string) (*PostgresServer, error) {
	path, err := postgresProgram("pg_basebackup")
	if err != nil {
		return nil, err
	}
	dir, err := postgresFolder()
	if err != nil {
		return nil, err
	}
	if err := asPostgres(path, "-h", "127.0.0.1", "-p", strconv.Itoa(primary), "-U", "postgres",
		"-D", filepath.Join(dir, "data"), "-R", "-X", "stream", "-c", "fast", "--no-sync"); err != nil {
		return nil, err
	}
	server, err := postgresProgram("postgres")
	if err != nil {
		return nil, err
	}
	return startPostgresIn(dir, server, settings, env)
}

// Promote makes a standby a primary and waits until it is one.
func (s *PostgresServer) Promote(t testing.TB) {
	t.Helper()
	s.Exec(t, "select pg_promote(true, 60)")
}

// InStep returns nil if the standby has replayed all writes of the primary.
func (r *PostgresReplicated) InStep() error {
	at, err := r.Primary.number("select (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint")
	if err != nil {
		return err
	}
	has, err := r.Standby.number("select coalesce(pg_last_wal_replay_lsn() - '0/0'::pg_lsn, 0)::bigint")
	if err == nil && has < at {
		err = fmt.Errorf("the standby is at %d, the primary at %d", has, at)
	}
	return err
}

// Number returns the result of a query of one number.
func (s *PostgresServer) Number(t testing.TB, query string) int64 {
	t.Helper()
	n, err := s.number(query)
	if err != nil {
		t.Fatalf("rig: %s: %v", query, err)
	}
	return n
}

func (s *PostgresServer) number(query string) (n int64, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := pgx.Connect(ctx, s.URL)
	if err != nil {
		return 0, err
	}
	defer c.Close(ctx)
	return n, c.QueryRow(ctx, query).Scan(&n)
}
