package worker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

// ErrEnded says that an assignment was revoked, lost or drained.
var ErrEnded = errors.New("worker: the assignment has ended")

// Assignment is a source of records of a [Worker], such as one partition of a
// topic while it is assigned to this process, with its commit frontier. It is
// safe for concurrent use.
type Assignment[R any] struct {
	worker *Worker[R]
	name   string
	ctx    context.Context
	cancel context.CancelCauseFunc
	forget func() bool // the end of the context given to Assign

	// Guarded by mu of the worker.
	window  window[item[R]]
	ready   heap[*item[R]] // by number
	turning bool           // it is in turns
	left    int            // records that are not done, dropped ones left out
	full    bool           // Add has refused for lack of room
	closed  bool           // Add accepts no more, nothing new is tried
	halted  bool           // nothing is tried any more
	fenced  bool           // the frontier moves no more
	err     error
	each    bool // results are kept; set before the first Add
	read    bool // of an Each: all its jobs were added
	results []result[R]
	changed chan struct{} // closed at the next change that somebody waits for; nil: nobody does
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
// count as accepted. Add panics if offsets do not ascend, or one is 2^63-1, as the
// offset to commit is the next one.
func (a *Assignment[R]) Add(records ...R) (accepted int) {
	last := int64(math.MinInt64)
	for accepted < len(records) {
		n := min(len(records)-accepted, a.room())
		items := make([]*item[R], n)
		for i := range items {
			items[i] = a.item(records[accepted+i])
			if offset := items[i].offset; !a.numbered() {
				switch {
				case offset <= last && accepted+i > 0:
					panic(fmt.Sprintf("worker: Add of offset %d after %d: offsets must ascend", offset, last))
				case offset == math.MaxInt64:
					panic(fmt.Sprintf("worker: Add of offset %d: none is above it to commit", offset))
				}
				last = offset
			}
		}
		k := a.accept(items)
		accepted += k
		if k < n {
			break
		}
	}
	return accepted
}

// room returns how many records to look at, at least 1, so that Order and Size
// are not called for many that will be refused.
func (a *Assignment[R]) room() int {
	w := a.worker
	w.mu.Lock()
	defer w.mu.Unlock()
	return min(max(above(w.Window, defaultWindow)-a.window.len(), 1), 1000)
}

// numbered reports whether records are numbered as they come.
func (a *Assignment[R]) numbered() bool { return a.each || a.worker.Offset == nil }

// item makes an item of r. It calls functions of the user.
func (a *Assignment[R]) item(r R) *item[R] {
	w := a.worker
	it := &item[R]{of: a, record: r}
	if !a.numbered() {
		it.offset = w.Offset(r)
	}
	if w.Order != nil {
		it.key = w.Order(r)
	}
	if w.Size != nil {
		it.size = int64(max(w.Size(r), 0))
	}
	return it
}

// accept lines up items while there is room, and returns how many.
func (a *Assignment[R]) accept(items []*item[R]) int {
	w := a.worker
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	defer func() { w.start(w.next(now)) }()
	for i, it := range items {
		if a.numbered() {
			it.offset = a.window.next
		}
		switch {
		case a.closed || a.window.early(it.offset):
			return i
		case a.window.seen(it.offset):
			continue
		case !w.fits(a, it.size):
			a.window.refuse(it.offset)
			a.full = true
			return i
		}
		if a.window.awaits {
			a.change() // for those that were early
		}
		it.number = a.window.accept(it.offset, it)
		it.added = now
		w.bytes += it.size
		a.left++
		w.lineUp(it)
	}
	return len(items)
}

// fits reports whether there is room for a record of that size. Caller holds mu.
func (w *Worker[R]) fits(a *Assignment[R], size int64) bool {
	if a.window.len() >= above(w.Window, defaultWindow) {
		return false
	}
	if w.bytes > 0 && size > above(w.MaxBytes, defaultMaxBytes)-w.bytes {
		w.hungry = true
		return false
	}
	return true
}

// Put adds records as Add does, and waits for room. It returns the Cause of ctx
// if that ended first, or Err if the assignment did; some records may have been
// accepted.
func (a *Assignment[R]) Put(ctx context.Context, records ...R) error {
	mustHave(ctx, "Assignment.Put")
	for {
		if records = records[a.Add(records...):]; len(records) == 0 {
			return nil
		}
		offset := int64(math.MinInt64)
		if a.worker.Offset != nil {
			offset = a.worker.Offset(records[0])
		}
		err := a.await(ctx, func() bool { return !a.full && !a.window.early(offset) || a.closed })
		if err == nil {
			err = a.Err()
		}
		if err != nil {
			return err
		}
	}
}

// Skip says that no record below next is to come: the rest of a log may be
// markers of transactions or compacted, or the caller needs no record there. It
// does nothing if a record at next or above was accepted.
func (a *Assignment[R]) Skip(next int64) {
	a.worker.mu.Lock()
	defer a.worker.mu.Unlock()
	a.window.skip(next)
	a.change() // for those that were early
}

// Frontier returns the offset to commit: every record below next is done, or
// Dead has taken it. It never decreases. ok is false once the assignment was
// revoked or lost, when nothing must be committed any more, and as long as no
// offset is known.
func (a *Assignment[R]) Frontier() (next int64, ok bool) {
	a.worker.mu.Lock()
	defer a.worker.mu.Unlock()
	next, ok = a.window.frontier()
	return next, ok && !a.fenced
}

// Wait waits until every record that was added is done. It returns the Cause of
// ctx if that ended first, or Err if the assignment did.
func (a *Assignment[R]) Wait(ctx context.Context) error {
	mustHave(ctx, "Assignment.Wait")
	done := false
	err := a.await(ctx, func() bool {
		done = a.window.len() == 0
		return done || a.closed
	})
	if err == nil && !done {
		err = a.Err()
	}
	return err
}

// Revoke ends the assignment and returns its last frontier, to be committed
// before another consumer goes on from there; ok is as in Frontier. Records above
// those that were tried are dropped at once. The others get until the end of ctx
// to be done, so that as little as possible is repeated; then they are cancelled
// and dropped. From then on nothing that still runs can move the frontier.
func (a *Assignment[R]) Revoke(ctx context.Context) (next int64, ok bool) {
	mustHave(ctx, "Assignment.Revoke")
	a.worker.mu.Lock()
	a.worker.close(a)
	a.worker.mu.Unlock()
	_ = a.await(ctx, a.idle) // the frontier says what was done
	return a.fence()
}

// Lost ends the assignment at once, without a last commit, as another consumer
// may own the partition already: tries are cancelled, and Frontier reports
// nothing.
func (a *Assignment[R]) Lost() { a.fence() }

// Err returns nil while the assignment goes on, ErrEnded once it was revoked,
// lost or drained, the Cause of its context if that has ended, and otherwise an
// error around that of the record at which it stopped, because there is no Dead.
func (a *Assignment[R]) Err() error {
	a.worker.mu.Lock()
	defer a.worker.mu.Unlock()
	return a.err
}

// mustHave panics if the context of a call is nil, also where there is nothing to wait for.
func mustHave(ctx context.Context, call string) {
	if ctx == nil {
		panic("worker: " + call + ": the context is nil")
	}
}

// await waits until done, which is called under mu, or for the end of ctx.
func (a *Assignment[R]) await(ctx context.Context, done func() bool) error {
	for {
		a.worker.mu.Lock()
		if done() {
			a.worker.mu.Unlock()
			return nil
		}
		if a.changed == nil {
			a.changed = make(chan struct{})
		}
		changed := a.changed
		a.worker.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
