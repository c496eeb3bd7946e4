package worker

import (
	"context"
	"errors"
)

// ErrEnded says that an assignment was revoked, lost or drained.
var ErrEnded = errors.New("worker: the assignment has ended")

// Assignment is a source of records of a [Worker], such as one partition of a
// topic while it is assigned to this process, with its commit frontier. It is
// safe for concurrent use.
type Assignment[R any] struct {
	name string
}

// Name returns the name given to Assign.
func (a *Assignment[R]) Name() string { return a.name }

// Add accepts records, in ascending order of their offsets, and returns how many:
// all, or those for which the Window and MaxBytes have room. It never waits.
// The caller keeps the others, pauses the source, and gives them again when
// [Worker.Room] is called; until then Add accepts nothing beyond them, so that
// none is forgotten. An assignment that has ended or stopped accepts none.
//
// Offsets may have gaps, as compaction and transactions leave them: the frontier
// passes them. Records below those accepted already are dropped, as seen, and
// count as accepted. Add panics if offsets do not ascend.
func (a *Assignment[R]) Add(records ...R) (accepted int) { panic("to come") }

// Put adds records as Add does, and waits for room. It returns the Cause of ctx
// if that ended first, or Err if the assignment did; some records may have been
// accepted.
func (a *Assignment[R]) Put(ctx context.Context, records ...R) error { panic("to come") }

// Skip says that no record below next is to come: the rest of a log may be
// markers of transactions or compacted, or the caller needs no record there. It
// does nothing if a record at next or above was accepted.
func (a *Assignment[R]) Skip(next int64) { panic("to come") }

// Frontier returns the offset to commit: every record below next is done, or
// Dead has taken it. It never decreases. ok is false once the assignment was
// revoked or lost, when nothing must be committed any more, and as long as no
// offset is known.
func (a *Assignment[R]) Frontier() (next int64, ok bool) { panic("to come") }

// Wait waits until every record that was added is done. It returns the Cause of
// ctx if that ended first, or Err if the assignment did.
func (a *Assignment[R]) Wait(ctx context.Context) error { panic("to come") }

// Revoke ends the assignment and returns its last frontier, to be committed
// before another consumer goes on from there; ok is as in Frontier. Records above
// those that were tried are dropped at once. The others get until the end of ctx
// to be done, so that as little as possible is repeated; then they are cancelled
// and dropped. From then on nothing that still runs can move the frontier.
func (a *Assignment[R]) Revoke(ctx context.Context) (next int64, ok bool) { panic("to come") }

// Lost ends the assignment at once, without a last commit, as another consumer
// may own the partition already: tries are cancelled, and Frontier reports
// nothing.
func (a *Assignment[R]) Lost() { panic("to come") }

// Err returns nil while the assignment goes on, ErrEnded once it was revoked,
// lost or drained, the Cause of its context if that has ended, and otherwise an
// error around that of the record at which it stopped, because there is no Dead.
func (a *Assignment[R]) Err() error { panic("to come") }
