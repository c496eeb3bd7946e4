// Package load decides how many may run at once. Like packages limit and pace
// it is arithmetic on values: times and random numbers are arguments, nothing
// waits, and the same events give the same decisions, live and simulated.
//
// [Ceiling] is the concurrency limit of a caller, learnt from refusals.
package load
