package worker

import "time"

// Bound says why a Worker starts no more tries.
type Bound string

// What holds back a stream.
const (
	// BoundEmpty: there is nothing to do; the source is the bottleneck.
	BoundEmpty Bound = "empty"
	// BoundLimit: as many tries are in flight as may be (concurrency limit).
	BoundLimit Bound = "limit"
	// BoundRate: the Throttle paces.
	BoundRate Bound = "rate"
	// BoundBreaker: the circuit breaker is open.
	BoundBreaker Bound = "breaker"
	// BoundWindow: what is left waits for a retry, and some assignment has its
	// Window full.
	BoundWindow Bound = "window"
	// BoundBytes: MaxBytes is used up by records that wait for a retry.
	BoundBytes Bound = "bytes"
	// BoundOrder: what is left waits for a record of the same key.
	BoundOrder Bound = "order"
	// BoundRetry: what is left rests before a retry.
	BoundRetry Bound = "retry"
	// BoundDead: as many records are with Dead as may be.
	BoundDead Bound = "dead"
)

// Stats describes a [Worker], see [Worker.Stats].
type Stats struct {
	// Bound is what holds back the stream now.
	Bound Bound
	// Limit is how many tries may be in flight: MaxInFlight of the Worker or of
	// its Throttle, the lower.
	Limit int
	// InFlight is how many tries are in flight, Waiting how many records wait for
	// their turn, Ordered how many for a record of the same key, Resting how many
	// for a retry, and Dying how many are with Dead or wait for it.
	InFlight, Waiting, Ordered, Resting, Dying int
	// Bytes is the Size of all records that are not done.
	Bytes int64
	// Done counts the records done, and Dead those that Dead has taken.
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
	// Err is as of [Assignment.Err].
	Err error
}

// Stats returns how things are. It takes time in proportion to the number of
// assignments.
func (w *Worker[R]) Stats() Stats { panic("to come") }
