// Package throttlesql is a Store in PostgreSQL 12 and later, through
// database/sql or any client of its like: one limit for a whole fleet. Every
// decision is that of package limit, at the time of the clock of PostgreSQL, by
// one statement.
//
//	db, err := sql.Open("pgx", url)
//	store := &throttlesql.Store{Query: func(ctx context.Context, q string, args ...any) throttlesql.Row {
//		return db.QueryRowContext(ctx, q, args...)
//	}}
//	err = store.Create(ctx) // tables and functions, where they are missing
//
// With a pool of pgx it is pool.QueryRow. What is promised when PostgreSQL
// crashes or fails over, what not, and which settings matter is in
// docs/postgresql.md.
package throttlesql

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// Row is the answer to a Query: a *sql.Row or pgx.Row.
type Row interface {
	Scan(dest ...any) error
}

// Query runs one statement that returns one row, or none, by itself: in a
// transaction of its own, and in no other isolation than read committed, which
// is the default. Arguments are []byte, int64 and string. It is safe for
// concurrent use, and must not repeat a statement of which it is not known
// whether it was carried out, lest something be charged twice.
type Query func(ctx context.Context, sql string, args ...any) Row

// Store remembers the states of keys in PostgreSQL and decides by package
// limit. It is safe for concurrent use and needs no closing, nor does it start
// a goroutine. The fields must not change after first use.
//
// A key may be asked for under another limit than before: what it owes is
// carried over by [limit.Change], in one more statement. Sliding logs and slots
// count what was taken under the new limit; a key that changes to one of these
// kinds, or from one, begins afresh.
//
// Keys above 256 bytes are remembered by their SHA-256. Rows that say nothing
// any more are deleted as new ones come: after every eighth new row the caller
// that made it looks at one page of the table, chosen at random, for rows that
// have said nothing for a minute. So about a tenth of the rows are such, when
// it has come to rest; Sweep deletes them all.
type Store struct {
	// Query is the client.
	Query Query
	// Table is the table, as NAME or SCHEMA.NAME, and what the names of a few
	// other things begin with. If empty, "throttle".
	Table string
	// Logged makes Create write to the log what is taken, so that it reaches
	// standbys and outlives a crash. If false, what was taken is lost in both,
	// and all keys begin empty then, as they do anyway if it is not sure that
	// nothing was lost.
	Logged bool

	made   atomic.Pointer[statements]
	limits limits
	hints  atomic.Pointer[hints]
	ahead  atomic.Int64 // how far the clock of PostgreSQL is, in microseconds
	added  atomic.Int64 // rows
	lost   losses
}

// statements are the texts for one Table.
type statements struct{ whole, decide, slide, several, look, take, sweep string }

func (s *Store) statements() (*statements, error) {
	if t := s.made.Load(); t != nil {
		return t, nil
	}
	if s.Query == nil {
		return nil, errNoQuery
	}
	n, err := namesOf(s.Table)
	if err != nil {
		return nil, err
	}
	t := &statements{
		whole:  n.in(bare(wholeSQL)),
		decide: n.in(bare(decideSQL)),
		slide:  n.in(bare(slideSQL)),
		look: n.in(`SELECT at, coalesce(t, 0), coalesce(n, 0), coalesce(p, 0), coalesce(l, ''), since ` +
			`FROM "throttle_look"($1::bytea)`),
		several: n.in(`SELECT at, after::text, added FROM "throttle_several"(` +
			`$1::text::bytea[], $2::text::text[], $3::text::bigint[])`),
		take: n.in(`SELECT at, ok, states::text, array_to_string(under, E'\n', ''), added FROM "throttle_take"(` +
			`$1::text::bytea[], $2::text::text[], $3::text::text[], $4::bigint, $5::text::bigint[])`),
		sweep: n.in(`SELECT gone, coalesce(next, -1) FROM "throttle_sweep"($1::bigint, $2::int, $3::bigint)`),
	}
	s.made.Store(t)
	return t, nil
}

// Take answers a[i] in d[i]: all are charged, or none. An error is an [*Error],
// unless the question itself or the Table was wrong. At most 1000 keys are asked
// for at once.
//
// A ctx that ends lets the client give up; to be sure that PostgreSQL does so
// too, set its statement_timeout and lock_timeout.
func (s *Store) Take(ctx context.Context, a []limit.Ask, d []limit.Decision) (ok bool, err error) {
	q := question{asks: a}
	if err := q.check(d); err != nil {
		return false, err
	}
	q.prepare(&s.limits)
	if len(q.sent) == 0 {
		q.at, q.states = time.Now(), make([][4]int64, len(a))
		return q.decide(d), nil
	}
	t, err := s.statements()
	if err != nil {
		return false, err
	}
	if err := ctx.Err(); err != nil { // not sent
		return false, &Error{Err: err}
	}
	if len(a) == 1 {
		if done, err := s.one(ctx, t, &q, d); err != nil {
			return false, err
		} else if done {
			return d[0].OK, nil
		}
	}
	if done, err := s.several(ctx, t, &q); err != nil {
		return false, err
	} else if !done {
		if err := s.ask(ctx, t, &q); err != nil {
			return false, err
		}
	}
	ok = q.decide(d)
	if q.ok != ok && !q.refused {
		return false, errDisagree
	}
	s.note(&q, d)
	return ok, nil
}
