// Package throttlesql is a distributed rate limiter: a Store in PostgreSQL 12
// and later, through database/sql or a similar client. All processes that use it
// share each limit. Every decision is that of package limit, at the time of the
// clock of PostgreSQL, by one statement.
//
//	db, err := sql.Open("pgx", url)
//	store := &Store{Query: func(ctx context.Context, q string, args ...any) Row {
//		return db.QueryRowContext(ctx, q, args...)
//	}}
//	err = store.Create(ctx) // tables and functions, where they are missing
//
// With a pool of pgx it is pool.QueryRow. Put it behind a store.Guard (circuit
// breaker), which decides without PostgreSQL when that is away.
// docs/postgresql.md says which guarantees hold when PostgreSQL crashes or fails
// over, and which settings matter.
package throttlesql

import (
	"context"
	"sync/atomic"
)

// Row is the result of a Query: a *sql.Row or pgx.Row.
type Row interface {
	Scan(dest ...any) error
}

// Query runs one statement that returns one row, or none, in a transaction of
// its own, at the isolation level read committed, which is the default.
// Arguments are []byte, int64 and string. It is safe for concurrent use. It must
// not retry a statement that may have been executed: what the statement charges
// would be charged twice.
type Query func(ctx context.Context, sql string, args ...any) Row

// Store keeps the states of keys in PostgreSQL and decides as package limit
// does. It is safe for concurrent use, needs no closing and starts no goroutine.
// The fields must not change after first use.
//
// The limit of a key may change: [limit.Change] carries over what the key owes,
// in one more statement. Sliding logs and slots count the events of the old
// limit under the new one; where one of these kinds changes to another kind, or
// from one, its usage counts as charged at that moment.
//
// Processes may use two versions of a limit at a time, as while a new version is
// rolled out: together they are admitted as much as the larger limit allows,
// however often they alternate on a key. Where a lowered limit forgives usage
// that it cannot hold, the row keeps the state of the old limit, until that has
// refilled or ended, for processes that still use it; this does not hold where a
// log or slots change to another kind.
//
// Keys above 256 bytes are stored by their SHA-256. Expired rows are deleted as
// new ones are added: after every eighth new row the caller that added it looks
// at one page of the table, chosen at random, and deletes the rows that expired
// more than a minute ago. In the long run about a tenth of the rows are expired;
// Sweep deletes them all.
type Store struct {
	// Query runs statements by the client.
	Query Query
	// Table is the table, as NAME or SCHEMA.NAME, and the prefix of the names of
	// functions and other tables. If empty, "throttle".
	Table string
	// Logged makes Create use tables whose charges go to the write-ahead log, so
	// that they reach standbys and survive a crash. If false, a crash and a
	// promoted standby lose them, and all keys start used up then, as they also do
	// whenever it is not certain that nothing was lost.
	Logged bool

	texts  atomic.Pointer[statements]
	limits limits
	hints  atomic.Pointer[hints]
	added  atomic.Int64 // rows
	counters
}
