package integration

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/throttle-go/throttle/integration/clients"
	"github.com/throttle-go/throttle/integration/rig"
	"github.com/throttle-go/throttle/store"
	"github.com/throttle-go/throttle/throttlesql"
)

// TestPostgresReadOnlyLeft: connections to a server that takes no writes, as to a primary that came
// back as a standby before its name led to another, are not kept. Without clients.LetGo a pool of
// pgx keeps them for an hour, and no call is decided.
func TestPostgresReadOnlyLeft(t *testing.T) {
	t.Parallel()
	config, err := pgxpool.ParseConfig(rig.SharedPostgres(t).Database(t))
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns, config.ConnConfig.ConnectTimeout = 2, time.Second
	clients.LetGo(&config.ConnConfig.Config)
	p, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	s := created(t, &throttlesql.Store{Query: clients.Pgx(p)})
	other, err := pgx.ConnectConfig(t.Context(), config.ConnConfig)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { other.Close(context.Background()) })
	writes := func(not string) { // in sessions that begin from now on
		t.Helper()
		name := pgx.Identifier{config.ConnConfig.Database}.Sanitize()
		if _, err := other.Exec(t.Context(), "ALTER DATABASE "+name+" SET default_transaction_read_only = "+not); err != nil {
			t.Fatal(err)
		}
	}
	take := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := store.Take(ctx, s, "k", perMinute, 1)
		return err
	}
	writes("on")
	p.Reset()
	if err := take(); err == nil {
		t.Fatal("a server that takes no writes has decided")
	}
	writes("off")
	rig.Until(t, "the store answers", take)
}
