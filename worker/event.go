package worker

import (
	"time"

	"github.com/throttle-go/throttle/pace"
)

// EventKind says which step an [Event] reports.
type EventKind uint8

const (
	// Ends: a try of a record has ended.
	Ends EventKind = iota + 1
	// Dies: Dead has taken a record that was given up.
	Dies
	// DeadFails: Dead has returned an error; it is called again after Rest.
	DeadFails
	// Stops: a record was given up, and there is no Dead, so its assignment stops.
	Stops
	// Opens: the circuit breaker opens, with the last error.
	Opens
	// Closes: a probe was answered, and the circuit breaker closes.
	Closes
)

// String returns the kind in small letters, such as "dead fails".
func (k EventKind) String() string {
	if k > Closes {
		k = 0
	}
	return [...]string{"unknown", "ends", "dies", "dead fails", "stops", "opens", "closes"}[k]
}

// Event is one event of a [Worker], see [Worker.OnEvent].
type Event struct {
	// Kind says what happened.
	Kind EventKind
	// At is when it happened.
	At time.Time
	// Name is that of the assignment, and Offset that of the record.
	Name   string
	Offset int64
	// Try is the number of tries of the record so far.
	Try int
	// Took is, for Ends, how long the try took.
	Took time.Duration
	// Rest is, for Ends and DeadFails, the time until the record is retried, at
	// least. If zero, it is not.
	Rest time.Duration
	// Verdict is, for Ends, that of the try.
	Verdict pace.Verdict
	// TimedOut reports that the try, or a call in it, ran out of time.
	TimedOut bool
	// MayHaveRun reports that some try that did not succeed may have been
	// executed by the service all the same: it ended other than throttled.
	MayHaveRun bool
	// Late reports that the try ended after its assignment, and moved no
	// frontier.
	Late bool
	// Err is the error of the try, of Dead, or that for which the record was
	// given up.
	Err error
}
