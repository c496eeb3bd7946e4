package fit

import "time"

// MaxAnswers bounds the answers that Fit and Next use: of more, the latest are
// used.
const MaxAnswers = 1 << 16

// Answer holds the times and the outcome of one request. The server decided at some
// instant from Sent to Ended, which is all that is assumed about its latency.
type Answer struct {
	// Sent and Ended are when the request was sent and its answer had come, by
	// the same clock. An Answer that ended before it was sent is ignored.
	Sent, Ended time.Time
	// Refused reports a refusal for load, such as a 429 or 503. If false, the
	// request was served (it counts even if it was answered with another error).
	Refused bool
	// Ignored reports a request of which it is not known whether it was counted,
	// such as one that timed out. It is left out.
	Ignored bool
	// Remaining is the number of requests left after this one, as the server
	// stated; of a concurrency limit, how many more may be in flight. It is read if
	// HasRemaining is set, as zero is a value.
	Remaining    float64
	HasRemaining bool
	// Limit is the limit that the server stated. If zero, none.
	Limit float64
	// Reset is the time from Ended to the reset that the server stated. If zero,
	// none.
	Reset time.Duration
	// RetryAfter is the wait that a refusal stated. If zero, none.
	RetryAfter time.Duration
}
