package clients

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/throttle-go/throttle/throttlesql"
)

// Pgx makes a Query of a pool of pgx, which prepares each statement once a
// connection.
func Pgx(pool *pgxpool.Pool) throttlesql.Query {
	return func(ctx context.Context, sql string, args ...any) throttlesql.Row {
		return pool.QueryRow(ctx, sql, args...)
	}
}
