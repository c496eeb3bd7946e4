// Package loadgen is an open-loop load generator: requests start by a schedule,
// whether or not earlier ones are answered, as those of independent callers do. A
// stall of the service therefore delays all that are due in it, and is seen:
// latency counts from when a request was due, not from when a connection was free
// (no coordinated omission).
//
// Generator.Run offers a Load: a rate for a time, or a number of requests kept in
// flight (a closed loop, for concurrency limits). What a request is, a Target says:
// HTTP or Command. All is bounded: requests in flight, requests, bad ones, time,
// the bytes of an answer.
package loadgen
