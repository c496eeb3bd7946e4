package load

import "time"

// Law is an adaptive concurrency limit: it learns from each request that ends
// how many may be in flight. [Adaptive] is the recommended one; [AIMD], [Vegas]
// and [Gradient2] are as published by others. A Law does not count what is in
// flight: its driver does. It is not safe for concurrent use.
type Law interface {
	// Limit returns how many may be in flight now, at least 1.
	Limit() int
	// Observe learns from a request that has ended.
	Observe(s Sample)
}

// Sample describes a request that has ended.
type Sample struct {
	// Now is when it ended.
	Now time.Time
	// Took is its duration, from when it was sent.
	Took time.Duration
	// InFlight is how many were in flight when it ended, itself included.
	InFlight int
	// End says how it ended.
	End End
}

// End says how a request ended, as a [Law] sees it.
type End uint8

const (
	// Ignored teaches nothing: it was cancelled, or took long for a reason of
	// its own.
	Ignored End = iota
	// Served is an answer, and its latency counts.
	Served
	// Failed is a time-out or an error. [Adaptive] takes one that took longer
	// than two answers do for a time-out, and ignores a faster one once there
	// were answers.
	Failed
	// Refused was not served because there were too many.
	Refused
)

// String returns the name of the end in small letters.
func (e End) String() string {
	return [...]string{"ignored", "served", "failed", "refused"}[e&3]
}

// defaultMax bounds the limit of every Law.
const defaultMax = 10_000

// highest is max, or the default if that is zero or below.
func highest(max int) int {
	if max <= 0 {
		return defaultMax
	}
	return max
}
