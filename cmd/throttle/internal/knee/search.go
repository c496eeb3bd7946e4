package knee

import "time"

// Objective is what callers want of the service. The zero Objective wants that
// it keeps up with the load, with at most 0.1 % of errors.
type Objective struct {
	// Latency is the bound on a quantile of latency. If zero, there is none.
	Latency time.Duration
	// Quantile is the share of the answered requests that must be within
	// Latency, above 0 and below 1. If zero, 0.99.
	Quantile float64
	// Errors is the largest share of requests that may fail or be refused. If
	// zero, 0.001; if below zero, none may.
	Errors float64
}

// Bounds stop a search, whatever it has found.
type Bounds struct {
	// Start is the rate or concurrency of the first trial. If zero, 10 requests
	// a second, or 1 at a time.
	Start float64
	// Most is the highest rate or concurrency to offer. If zero, 100,000 a
	// second, or 4,096 at a time.
	Most float64
	// Requests bounds the requests of all trials. If zero, 1,000,000.
	Requests int
	// Time bounds the duration of all trials, with their rests and drains. If
	// zero, 10 minutes.
	Time time.Duration
	// Failures bounds the requests that failed or were refused. If zero, a tenth
	// of Requests.
	Failures int
	// Recovery is how long the service has to recover after an overload. If
	// zero, 30 s; if below zero, the service is not pushed past its knee.
	Recovery time.Duration
}

// Search looks for the knee. The zero Search looks for the highest rate with
// the zero Objective. Its fields must not change after the first Next. It is not
// safe for concurrent use.
type Search struct {
	Objective Objective
	Bounds    Bounds
	// Concurrency says to search for the highest concurrency instead of the
	// highest rate.
	Concurrency bool

	state
}

// Check returns an error of one line if the search cannot be run as it is.
func (s *Search) Check() error { return nil }

// Next returns the trial to run next, the same one until Add; ok is false once
// the search is over.
func (s *Search) Next() (trial Trial, ok bool) { return Trial{}, false }

// Add takes what the trial of the last Next came to. To interrupt a search, do
// not call Next again; Result says what is known.
func (s *Search) Add(o Outcome) {}

// Result returns what is known so far.
func (s *Search) Result() Result { return Result{} }

type state struct{}
