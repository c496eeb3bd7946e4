package clients

import (
	"context"
	"database/sql"

	"github.com/throttle-go/throttle/throttlesql"
)

// LibPQ makes a Query of lib/pq for database/sql. For a connection that ends
// before the answer it says driver.ErrBadConn, whether or not the statement was
// carried out, and an [sql.DB] repeats the statement then; an [sql.Conn] does
// not. Set SetConnMaxIdleTime to a second, as connections that a crash has
// closed are not noticed before they are used.
func LibPQ(db *sql.DB) throttlesql.Query {
	return func(ctx context.Context, query string, args ...any) throttlesql.Row {
		c, err := db.Conn(ctx)
		if err != nil {
			return row{err: err}
		}
		return row{conn: c, Row: c.QueryRowContext(ctx, query, args...)}
	}
}

// A row gives its connection back when it is scanned.
type row struct {
	*sql.Row
	conn *sql.Conn
	err  error
}

// Scan is that of sql.Row.
func (r row) Scan(to ...any) error {
	if r.err != nil {
		return r.err
	}
	defer r.conn.Close()
	return r.Row.Scan(to...)
}
