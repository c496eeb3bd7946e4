package rig

import (
	"context"
	"errors"
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
	r := &PostgresReplicated{Primary: Postgres(t, settings...)}
	r.Link = NewProxy(t, r.Primary.Addr)
	s, err := again(func() (*PostgresServer, error) { return startStandby(r.Link.Port, settings) })
	check(t, err)
	t.Cleanup(s.remove)
	r.Standby = s
	Until(t, "the standby streams", func() error {
		return r.Primary.sees("select count(*) from pg_stat_replication where state = 'streaming'", 1)
	})
	return r
}

func startStandby(primary int, settings []string) (*PostgresServer, error) {
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
	return startPostgresIn(dir, settings, nil)
}

// Promote makes a standby a primary and waits until it is one.
func (s *PostgresServer) Promote(t testing.TB) {
	t.Helper()
	s.Exec(t, "select pg_promote(true, 60)")
}

// sees is nil if a query gives a number.
func (s *PostgresServer) sees(query string, want int) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := pgx.Connect(ctx, s.URL)
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	var got int
	if err := c.QueryRow(ctx, query).Scan(&got); err != nil {
		return err
	}
	if got != want {
		return errors.New(query + " gives " + strconv.Itoa(got) + ", want " + strconv.Itoa(want))
	}
	return nil
}
