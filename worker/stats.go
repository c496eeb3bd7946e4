package worker

import (
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/pace"
)

// Bound says why a Worker starts no more tries.
type Bound string

// The reasons, of which the first that holds is reported: breaker, dead, limit or
// rate, bytes, window, order, retry, empty.
const (
	// BoundEmpty: there is nothing to do; the source is the bottleneck.
	BoundEmpty Bound = "empty"
	// BoundLimit: as many tries are in flight as may be (concurrency limit).
	BoundLimit Bound = "limit"
	// BoundRate: the Throttle paces.
	BoundRate Bound = "rate"
	// BoundBreaker: the circuit breaker is open.
	BoundBreaker Bound = "breaker"
	// BoundWindow: all other records wait for a retry or for one of their key,
	// and some assignment has its Window full.
	BoundWindow Bound = "window"
	// BoundBytes: the same, and an assignment was refused for MaxBytes.
	BoundBytes Bound = "bytes"
	// BoundOrder: all other records wait for one of the same key.
	BoundOrder Bound = "order"
	// BoundRetry: all other records rest before a retry.
	BoundRetry Bound = "retry"
	// BoundDead: as many calls of Dead run as may.
	BoundDead Bound = "dead"
)

// Stats describes a [Worker], see [Worker.Stats].
type Stats struct {
	// Bound names the reason for which no more tries start.
	Bound Bound
	// Limit is how many tries may be in flight: the lower of MaxInFlight and the
	// bound of the Throttle, set or learnt.
	Limit int
	// InFlight is how many tries are in flight, Waiting how many records wait for
	// their turn, Ordered how many for a record of the same key, Resting how many
	// for a retry, and Dying how many are with Dead or wait for it.
	InFlight, Waiting, Ordered, Resting, Dying int
	// Bytes is the Size of all records that are not done.
	Bytes int64
	// Done counts the records done, and Dead those that were given up: that Dead
	// has taken, or that Each has yielded with an error.
	Done, Dead int64
	// Served, Throttled, Failed and Ignored count the tries that ended, by
	// verdict; TimedOut those of any verdict that ran out of time, and Late those
	// that ended after their assignment.
	Served, Throttled, Failed, Ignored, TimedOut, Late int64
	// Assignments describes each assignment that has not ended, in the order in
	// which they began.
	Assignments []AssignmentStats
}

// AssignmentStats describes an [Assignment].
type AssignmentStats struct {
	// Name is the name given to Assign.
	Name string
	// Frontier is the offset to commit, below zero if none is known.
	Frontier int64
	// Next is the lowest offset that Add has not seen.
	Next int64
	// Gap is how many records at or above the frontier were accepted, done or
	// not: Window bounds it. Left is how many of them are not done.
	Gap, Left int
	// Oldest is how long ago the record at the frontier was accepted. If zero,
	// none is left.
	Oldest time.Duration
	// Full reports that Add has refused records for which there is no room yet.
	Full bool
	// Err is that of [Assignment.Err].
	Err error
}

// Stats returns the current numbers. It takes time in proportion to the number of
// assignments.
func (w *Worker[R]) Stats() Stats {
	s, waits := w.snapshot(time.Now())
	t := w.throttle()
	if waits && paces(t, s.Limit-s.InFlight) {
		s.Bound = BoundRate
	}
	if n := t.Limit(); n > 0 {
		s.Limit = min(s.Limit, n)
	}
	return s
}

// paces reports whether t holds back the next call, and not only until one in
// flight ends, where room more may be in flight. A call whose turn has come still
// waits for a timer, which fires late; or, if there is room for that call alone,
// has just been given the place of one that ended.
func paces(t *throttle.Throttle, room int) bool {
	if most := t.Limit(); most > 0 {
		room = min(room, most-t.InFlight())
	}
	switch t.Forecast(1) {
	case 0:
		return room > 1
	case pace.Never:
		return room > 0
	}
	return true
}

// snapshot returns what the Worker knows without its Throttle; waits reports
// whether a record waits there.
func (w *Worker[R]) snapshot(now time.Time) (s Stats, waits bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s = w.stats
	s.Limit = above(w.MaxInFlight, defaultMaxInFlight)
	s.InFlight, s.Waiting, s.Ordered = w.count[running], w.count[ready], w.count[ordered]
	s.Resting, s.Dying, s.Bytes = w.count[resting], w.count[dying], w.bytes
	full := false
	for _, a := range w.live {
		s.Assignments = append(s.Assignments, a.stats(now))
		full = full || a.full
	}
	s.Bound = w.bound(full)
	return s, s.Bound == BoundLimit && w.waiter != nil
}

// bound returns what holds back the stream; if it is the Throttle, that is said
// to be the limit. full reports whether an assignment was refused. Caller holds
// mu.
func (w *Worker[R]) bound(full bool) Bound {
	switch {
	case w.breaker.open:
		return BoundBreaker
	case w.burying+len(w.graves) >= maxDying:
		return BoundDead
	case w.count[ready] > 0:
		return BoundLimit
	case full && w.hungry:
		return BoundBytes
	case full:
		return BoundWindow
	case w.count[ordered] > 0:
		return BoundOrder
	case w.count[resting] > 0:
		return BoundRetry
	}
	return BoundEmpty
}

// stats describes a. Caller holds mu of the worker.
func (a *Assignment[R]) stats(now time.Time) AssignmentStats {
	s := AssignmentStats{Name: a.name, Frontier: -1, Next: a.window.next, Gap: a.window.len(), Left: a.left, Full: a.full, Err: a.err}
	if next, ok := a.window.frontier(); ok {
		s.Frontier = next
	}
	for it := range a.window.left {
		s.Oldest = now.Sub(it.added)
		break
	}
	return s
}
