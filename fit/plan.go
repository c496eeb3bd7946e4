package fit

import "time"

// Plan decides what to send next to identify a rate limiter with few refusals.
// The zero Plan is ready to use. It keeps no state: the answers so far are all
// that Next reads. It is safe for concurrent use.
type Plan struct {
	// Requests is the largest number of requests to send. If zero or below,
	// 20,000.
	Requests int
	// Refusals is about the largest number of refusals to cause; a step in
	// flight may pass it by its AtOnce. If zero or below, 5 % of Requests.
	Refusals int
	// Time is the longest time from the first request to the last. If zero or
	// below, a day.
	Time time.Duration
	// AtOnce is the largest number of requests in flight. If zero or below, 128.
	AtOnce int
}

// Step is what to send next: begin at At, send at most N requests, at least
// Every apart, at most AtOnce in flight, and send no more once Refusals of them
// were refused. Then wait for all answers and call Next again.
type Step struct {
	// At is when to begin, not before the now given to Next.
	At time.Time
	// N is the largest number of requests, at least 1.
	N int
	// Every is the time between two requests. If zero, as fast as AtOnce allows.
	Every time.Duration
	// AtOnce is the largest number in flight, at least 1.
	AtOnce int
	// Refusals ends the step after so many, at least 1.
	Refusals int
	// Why is what the step is to find out, in a few words.
	Why string
}

// Next returns the next step at the time now, given the answers so far in any
// order. It returns false as soon as Fit decides, and where the budget ends.
func (p Plan) Next(now time.Time, answers []Answer) (step Step, more bool) {
	return Step{}, false
}
