package integration

import (
	"context"
	"database/sql"
	"runtime"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/throttle-go/throttle/integration/clients"
	"github.com/throttle-go/throttle/integration/rig"
	"github.com/throttle-go/throttle/throttlesql"
	"github.com/throttle-go/throttle/throttletest"
)

// pool connects to a database.
func pool(t testing.TB, url string) *pgxpool.Pool {
	t.Helper()
	p, err := pgxpool.New(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// created is a Store with its tables.
func created(t testing.TB, s *throttlesql.Store) *throttlesql.Store {
	t.Helper()
	if err := s.Create(context.Background()); err != nil {
		t.Fatalf("Create: %v", err)
	}
	return s
}

func TestPostgresPgx(t *testing.T) {
	p := pool(t, rig.SharedPostgres(t).Database(t))
	throttletest.TestStore(t, created(t, &throttlesql.Store{Query: clients.Pgx(p)}))
}

func TestPostgresDatabaseSQL(t *testing.T) {
	db, err := sql.Open("pgx", rig.SharedPostgres(t).Database(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	throttletest.TestStore(t, created(t, &throttlesql.Store{
		Query: clients.DatabaseSQL(db), Table: "public.My limits", Logged: true,
	}))
}

// TestPostgresUnprepared is for poolers that know no prepared statements.
func TestPostgresUnprepared(t *testing.T) {
	config, err := pgxpool.ParseConfig(rig.SharedPostgres(t).Database(t))
	if err != nil {
		t.Fatal(err)
	}
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	p, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	throttletest.TestStore(t, created(t, &throttlesql.Store{Query: clients.Pgx(p)}))
}

// TestPostgresVersions: the oldest PostgreSQL that is promised, and the newest.
func TestPostgresVersions(t *testing.T) {
	for _, version := range []string{"12", "18"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			if version == "12" && runtime.GOARCH != "amd64" {
				t.Skip("NO ENGINE, this is NOT tested: no registry has PostgreSQL 12 for this machine")
			}
			server := rig.PostgresOf(t, version)
			s := created(t, &throttlesql.Store{Query: clients.Pgx(pool(t, server.Database(t)))})
			throttletest.TestStore(t, s)
			if got := server.Version(t); !strings.HasPrefix(got, version+".") {
				t.Errorf("the server is %s, want %s", got, version)
			}
		})
	}
}
