// Package load decides how many may run at once. Like packages limit and pace
// it is arithmetic on values: times and random numbers are arguments, nothing
// waits, and the same events give the same decisions, live and simulated.
//
// A caller's concurrency limit is a [Ceiling], learnt from refusals. A service's
// is a [Gradient], learnt from how long its work takes. An [Admission] sheds what
// a service has no room for, the lowest [Priority] first; package throttle adds
// the waiting to it, in its Shedder.
package load
