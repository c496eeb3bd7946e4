// Package loadgen is an open-loop load generator: requests start by a schedule,
// whether or not earlier ones are answered, as those of independent callers do. A
// stall of the service therefore delays all that were due in it, and is seen:
// latency counts from the intended start, not from when a connection was free
// (no coordinated omission).
//
// Load.Run offers a rate for a time, or keeps a number of requests in flight (a
// closed loop, the way of 'hey' and 'wrk', for concurrency limits). What each
// request is, a Target says: HTTP or Command. All is bounded: requests in flight,
// requests, failures, time, the bytes of an answer.
package loadgen
