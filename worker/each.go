package worker

import (
	"context"
	"iter"
)

// result is how a job of Each ended.
type result[R any] struct {
	record R
	err    error
}

// Each handles jobs and yields each with its error when it is done or given up,
// in the order in which they end; Dead, if set, has taken the latter. It reads
// jobs as the Window has room, in the goroutine of the caller: while jobs blocks,
// no result is yielded.
//
// When ctx ends, or the loop is left, tries are cancelled, and jobs that are not
// done are not yielded. A loop that is not left sees every job, unless ctx ends
// or the Worker is drained.
//
// While the circuit breaker is open, failures use up Tries only if no job is left
// that could start and has not failed since the last answer: so Each ends even if
// its last jobs always fail. They are probed one at a time, two to four a second:
// for a list that may fail as a whole, let Breaker be below zero.
func (w *Worker[R]) Each(ctx context.Context, jobs iter.Seq[R]) iter.Seq2[R, error] {
	mustHave(ctx, "Each")
	return func(yield func(R, error) bool) {
		a := w.Assign(ctx, "each", 0)
		defer a.Lost()
		w.mu.Lock()
		a.each = true
		w.mu.Unlock()
		owed := 0 // jobs accepted, and not yielded
		// pass yields what has ended; if nothing has, it waits for that, or for
		// room. It returns false when the loop is to end.
		pass := func(wait, room bool) bool {
			results, ok := a.take(ctx, wait, room)
			for _, r := range results {
				if owed--; !yield(r.record, r.err) {
					return false
				}
			}
			return ok
		}
		for job := range jobs {
			for a.Add(job) == 0 {
				if !pass(true, true) {
					return
				}
			}
			if owed++; !pass(false, false) {
				return
			}
		}
		w.mu.Lock()
		a.read = true
		w.mu.Unlock()
		for owed > 0 && pass(true, false) {
		}
	}
}

// take returns the results that there are. If wait, it waits for one, or, if room
// is set too, until Add may accept again. ok is false if no more will come.
func (a *Assignment[R]) take(ctx context.Context, wait, room bool) (results []result[R], ok bool) {
	halted := false
	err := a.await(ctx, func() bool {
		results, a.results = a.results, nil
		halted = a.halted
		return !wait || len(results) > 0 || halted || room && !a.full && !a.closed
	})
	return results, err == nil && (len(results) > 0 || !halted)
}

// exhausted reports whether a is an Each all of whose jobs that could start have
// failed since the last answer, and reads no others before one of them ends: if
// they fail for good, nothing would ever close the circuit breaker. Caller holds
// mu.
func (w *Worker[R]) exhausted(a *Assignment[R]) bool {
	if !a.each || !a.read && !a.full {
		return false
	}
	for it := range a.window.left {
		if it.state != ordered && it.state != dying && !w.breaker.counted(it.row) {
			return false
		}
	}
	return true
}
