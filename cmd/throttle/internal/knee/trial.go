package knee

import "time"

// Kind is the part of a search that a trial belongs to.
type Kind string

const (
	Climb  Kind = "climb"  // slow start and doubling
	Narrow Kind = "narrow" // bisection
	Base   Kind = "base"   // at a third of the knee and at the recommended rate, for the curve
	Settle Kind = "settle" // low load after an overload, until the service is calm
	Push   Kind = "push"   // past the knee on purpose, and back
	Return Kind = "return" // at the recommended rate after a rest
)

// Trial is a load to offer to the service. Exactly one of Rate and Concurrency
// is above zero. The trial before it is drained first: all of its answers have
// come, or have timed out.
type Trial struct {
	Kind Kind
	// Rate is the number of requests to start a second, whether or not answers
	// come (open loop).
	Rate float64
	// Concurrency is the number of requests to keep in flight (closed loop).
	Concurrency int
	// Duration is how long to send.
	Duration time.Duration
	// Rest is a pause before the trial in which nothing is sent. If zero, none.
	Rest time.Duration
	// Then, if above zero, is the rate or concurrency to offer after Duration for
	// ThenFor more, without a pause between them and without a drain.
	Then    float64
	ThenFor time.Duration
	// Calm, if above zero, ends the sending early, in the time of Then, once for
	// so long no request was slow, failed or refused.
	Calm time.Duration
	// Parts is the number of equal spans of Duration and ThenFor together to
	// report apart, from 1 to 64, by when a request was due.
	Parts int
	// MostSent ends the sending early once so many requests were sent. It is always
	// above zero, and more than an open loop sends by its rate.
	MostSent int
	// MostBad ends the sending early once so many requests were slow, failed or
	// refused: the verdict is then clear. If zero, nothing does.
	MostBad int
	// MostFailed ends the sending early once so many requests failed or were
	// refused. It is always above zero, the rest of the bound on failures.
	MostFailed int
}

// Outcome holds the figures of a trial. A request counts by when it was due, not
// by when it was sent: its latency runs from then too, so that a stall is not
// hidden (coordinated omission). Its counts add up: Sent is Good + Slow + Failed +
// Refused, whatever is unanswered at the end of the drain being Failed.
type Outcome struct {
	// Trial is the trial as Next gave it.
	Trial Trial
	// Sent counts the requests sent; Good those answered within the Latency of
	// the objective; Slow those answered later; Failed errors, timeouts and
	// unanswered ones; Refused those answered by 429 or 503 and their kin.
	Sent, Good, Slow, Failed, Refused int
	// Dropped counts the requests that were due and not sent, as too many were
	// in flight for the generator. They are no part of Sent.
	Dropped int
	// Took is how long the sending lasted: Duration and ThenFor, or less after
	// MostSent, MostBad, MostFailed, Calm or an interrupt. Elapsed includes the rest before and the drain after it.
	Took, Elapsed time.Duration
	// Mean, P50, P90 and P99 are latencies of the answered requests, Good and
	// Slow. If zero, there were none.
	Mean, P50, P90, P99 time.Duration
	// Late is the 99th percentile of how much later than due requests were sent.
	Late time.Duration
	// Drained says that all requests were answered or failed by an answer: none
	// timed out or was left, so the service keeps no work of this trial.
	Drained bool
	// Parts are the Trial.Parts spans; those after an early end are left out.
	Parts []Part
}

// Part is a span of a trial. Its counts are as in Outcome.
type Part struct {
	Sent, Good, Slow, Failed, Refused int
	// Mean is the mean latency of the answered requests, Good and Slow.
	Mean time.Duration
}
