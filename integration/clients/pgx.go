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
// is frozen or was replaced.
func LetGo(config *pgconn.Config) {
	dial, most := config.DialFunc, config.ConnectTimeout
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
