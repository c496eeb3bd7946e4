// Package load decides how much work may run at once: concurrency limits and
// load shedding. Like packages limit and pace it is arithmetic on values: times
// and random numbers are arguments, nothing waits, and the same events give the
// same decisions, live and simulated.
//
// A [Law] is an adaptive concurrency limit, for a caller and for a service:
// [Adaptive] is the recommended one, and [AIMD], [Vegas] and [Gradient2] are as
// published in Netflix's concurrency-limits, to compare with. A [Ceiling] is
// learnt from refusals alone. An [Admission] sheds the work that a service has
// no room for, the lowest [Priority] first; admit.Shedder adds the waiting to it.
// Package sim runs every Law and Ceiling, in a pace.Gate; it does not run
// Admission.
package load
