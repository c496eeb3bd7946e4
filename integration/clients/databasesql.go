package clients

import (
	"context"
	"database/sql"

	"github.com/throttle-go/throttle/throttlesql"
)

// DatabaseSQL makes a Query of any driver of PostgreSQL for database/sql, such
// as the one of pgx.
func DatabaseSQL(db *sql.DB) throttlesql.Query {
	return func(ctx context.Context, query string, args ...any) throttlesql.Row {
		return db.QueryRowContext(ctx, query, args...)
	}
}
