package stores

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/throttle-go/throttle/cmd/throttle/internal/exit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/usage"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/throttlesql"
)

// openPostgres makes a pool, and the tables if that is asked for.
func openPostgres(ctx context.Context, text string, o Options) (*Named, error) {
	if err := checkPostgres(text); err != nil {
		return nil, usage.Errorf("%s postgres://: %v", o.place(), err)
	}
	text, table, err := o.cutTable(text)
	if err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig(text)
	if err != nil {
		return nil, usage.Errorf("%s postgres://: %s", o.place(), reason(err))
	}
	name := fmt.Sprintf("postgres://%s/%s", net.JoinHostPort(config.ConnConfig.Host, strconv.Itoa(int(config.ConnConfig.Port))), config.ConnConfig.Database)
	if config.ConnConfig.ConnectTimeout == 0 { // or pgx waits for 2 min, with all connections of the pool
		config.ConnConfig.ConnectTimeout = o.connectWithin()
	}
	letGo(&config.ConnConfig.Config)
	if o.Callers > 0 {
		config.MaxConns = int32(min(max(o.Callers, 4), 64))
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, exit.Failf(o.Command+": %s: %v", name, err)
	}
	s := &throttlesql.Store{Table: table, Query: func(ctx context.Context, sql string, args ...any) throttlesql.Row {
		return advised{pool.QueryRow(ctx, sql, args...), o.Command}
	}}
	if o.Create {
		ctx, cancel := context.WithTimeout(ctx, o.Timeout)
		defer cancel()
		if err := s.Create(ctx); err != nil {
			closeWithin(o.patience(), pool)
			return nil, exit.Failf(o.Command+": %s: %v", name, err)
		}
	}
	return &Named{s, name, func() { closeWithin(o.patience(), pool) }, true}, nil
}

// letGo has a connection whose statement was not answered leave the pool after the time in
// which one must be made, and again: pgx waits for 15 s to cancel the statement and for the end of the
// connection. Of a server that is frozen, or was replaced, neither comes, and all places of the
// pool would be held, even when another answers. A connection to a server that takes no writes leaves it
// with the first error that says so.
func letGo(config *pgconn.Config) {
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

// closeWithin closes a pool, and waits no longer than patience for it: pgx takes a while for
// a connection whose statement was not answered, see letGo.
func closeWithin(patience time.Duration, pool *pgxpool.Pool) {
	closed := make(chan struct{})
	go func() {
		pool.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(patience):
	}
}

// advised is a row of a statement whose error about a table or a function that is
// missing says how a command makes it: that of the library names a method.
type advised struct {
	throttlesql.Row
	command string
}

// Scan reads the row.
func (r advised) Scan(dest ...any) error {
	err := r.Row.Scan(dest...)
	var of interface{ SQLState() string }
	if !errors.As(err, &of) || !slices.Contains([]string{"42P01", "42883"}, of.SQLState()) {
		return err
	}
	if r.command == "serve" {
		return fmt.Errorf("%w, which create: true in the section store makes", err)
	}
	return fmt.Errorf("%w, which 'throttle take -create' makes", err)
}

// cutTable cuts table=NAME out of a URL, as libpq does not know it.
func (o Options) cutTable(text string) (without, table string, err error) {
	before, query, _ := strings.Cut(text, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		return "", "", usage.Error(o.place() + " postgres://: what follows ? cannot be read; write NAME=VALUE, with & between")
	}
	table = values.Get("table")
	values.Del("table")
	if _, err := (&throttlesql.Store{Table: table}).Schema(); err != nil {
		return "", "", usage.Error(o.place() + " postgres://: table: must be NAME or SCHEMA.NAME, each of 1 to 40 bytes and without quotes, '$' and '\\'")
	}
	if len(values) == 0 {
		return before, table, nil
	}
	return before + "?" + values.Encode(), table, nil
}

// checkPostgres refuses URLs in which pgx would take a part of a password that is not
// escaped for a host, a port or a name, and show it. Its errors quote no part of the
// URL. What pgx reads besides URLs has no such forms to tell apart, and is refused.
func checkPostgres(text string) error {
	_, rest, _ := strings.Cut(text, ":")
	rest, ok := strings.CutPrefix(rest, "//")
	if !ok {
		return errors.New("write postgres://USER@HOST/DATABASE")
	}
	if at := strings.LastIndex(rest, "@"); at >= 0 {
		if strings.ContainsAny(rest[:at], "/?@") {
			return errors.New("a /, ? or @ before an @; write %2F, %3F and %40 for those of a password, and %40 for an @ behind HOST")
		}
		if _, err := url.PathUnescape(rest[:at]); err != nil {
			return errEscape
		}
		rest = rest[at+1:]
	}
	if end := strings.IndexAny(rest, "/?"); end >= 0 {
		rest = rest[:end]
	}
	for host := range strings.SplitSeq(rest, ",") {
		if words.BareIPv6(host) {
			return errIPv6
		}
		if i := strings.LastIndex(host, ":"); i > strings.LastIndex(host, "]") && !isPort(host[i+1:]) {
			return errPort
		}
	}
	return nil
}

// reason is what is wrong with a URL by pgx, without the URL that it quotes before.
func reason(err error) string {
	text := err.Error()
	if i := strings.LastIndex(text, "`: "); i >= 0 {
		return text[i+len("`: "):]
	}
	return "it cannot be read; write postgres://USER@HOST/DATABASE"
}
