package stores

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// TestPostgresKeepsConnections: a connection is not kept where the server takes no writes, as
// a primary that came back as a standby, nor where it ends it.
func TestPostgresKeepsConnections(t *testing.T) {
	config, err := pgconn.ParseConfig("postgres://postgres@127.0.0.1/postgres")
	if err != nil {
		t.Fatal(err)
	}
	config.ConnectTimeout = time.Second
	letGo(config)
	for _, c := range []struct {
		code, severity string
		keeps          bool
	}{
		{"42P01", "ERROR", true},  // a table is missing
		{"57014", "ERROR", true},  // the statement was cancelled
		{"25006", "ERROR", false}, // a transaction that is read only
		{"0A000", "ERROR", false}, // an unlogged table of a standby
		{"57P01", "FATAL", false}, // the server ends
	} {
		if got := config.OnPgError(nil, &pgconn.PgError{Code: c.code, Severity: c.severity}); got != c.keeps {
			t.Errorf("after %s %s it is kept: %v, want %v", c.severity, c.code, got, c.keeps)
		}
	}
}
