package integration

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/throttle-go/throttle/integration/clients"
	"github.com/throttle-go/throttle/integration/rig"
	"github.com/throttle-go/throttle/store"
	"github.com/throttle-go/throttle/throttlesql"
)

// TestPostgresReplaced: a server freezes with a statement of each connection, and another takes
// its address. Without clients.LetGo, no call through a pool of pgx is decided for 15 s.
func TestPostgresReplaced(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T, *pgxpool.Config) throttlesql.Query{
		"pgx": func(t *testing.T, config *pgxpool.Config) throttlesql.Query {
			clients.LetGo(&config.ConnConfig.Config)
			p, err := pgxpool.NewWithConfig(t.Context(), config)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(p.Close)
			return clients.Pgx(p)
		},
		"database/sql": func(t *testing.T, config *pgxpool.Config) throttlesql.Query {
			db := stdlib.OpenDB(*config.ConnConfig)
			t.Cleanup(func() { db.Close() })
			db.SetMaxOpenConns(int(config.MaxConns))
			return clients.DatabaseSQL(db)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			replaced(t, open)
		})
	}
}

func replaced(t *testing.T, open func(*testing.T, *pgxpool.Config) throttlesql.Query) {
	server := rig.SharedPostgres(t)
	config, err := pgxpool.ParseConfig(server.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	old, young := rig.NewProxy(t, server.Addr), rig.NewProxy(t, server.Addr)
	var now atomic.Pointer[rig.Proxy]
	now.Store(old)
	config.MaxConns, config.ConnConfig.ConnectTimeout = 1, 300*time.Millisecond
	config.ConnConfig.DialFunc = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, now.Load().Addr)
	}
	s := created(t, &throttlesql.Store{Query: open(t, config)})
	take := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := store.Take(ctx, s, "k", perMinute, 1)
		return err
	}
	rig.Until(t, "the store answers", take)
	old.Set(rig.Fault{Stall: true})
	if err := take(); err == nil {
		t.Fatal("a frozen server has decided")
	}
	frozen := time.Now()
	now.Store(young)
	rig.Until(t, "the other answers", take)
	if took := time.Since(frozen); took > 5*time.Second {
		t.Errorf("the other server is asked after %v, want at most 600 ms and some", took)
	} else {
		t.Logf("the other server decides %v after a call that was not answered", took.Round(time.Millisecond))
	}
}
