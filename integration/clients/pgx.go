package clients

import (
	"context"
	"net"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
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

// LetGo bounds how long a connection whose statement was not answered holds its place of the
// pool: twice the ConnectTimeout of config, which must be set, in place of 15 s. In these pgx has the
// statement cancelled and waits for the end of the connection, in vain where the server
// is frozen or was replaced. A connection to a server that takes no writes leaves the pool with
// the first error that says so.
func LetGo(config *pgconn.Config) {
	dial, most, keeps := config.DialFunc, config.ConnectTimeout, config.OnPgError
	config.OnPgError = func(c *pgconn.PgConn, err *pgconn.PgError) bool {
		return writable(err) && (keeps == nil || keeps(c, err))
	}
	config.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		ends, ok := ctx.Deadline()
		cancels := ok && time.Until(ends) > most // a statement: to make a connection has less time
		ctx, stop := context.WithTimeout(ctx, most)
		defer stop()
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		if cancels {
			_ = c.SetDeadline(time.Now().Add(most)) // an error comes again
		}
		return &impatient{c, most}, nil
	}
}

// writable reports whether a connection may be kept after an error: it reaches a server that takes
// writes. A primary that came back as a standby, before its name led to another, does not, and
// a pool would keep its connections for an hour: it answers 25006, or 0A000 where the table is unlogged.
func writable(err *pgconn.PgError) bool { return err.Code != "25006" && err.Code != "0A000" }

// impatient is a connection that waits no longer than most where there is a deadline.
type impatient struct {
	net.Conn
	most time.Duration
}

// SetDeadline sets the deadline.
func (c *impatient) SetDeadline(at time.Time) error {
	if last := time.Now().Add(c.most); at.After(last) {
		at = last
	}
	return c.Conn.SetDeadline(at)
}
