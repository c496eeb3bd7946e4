// Package load decides how much work may run at once: concurrency limits and
// load shedding. Like packages limit and pace it is arithmetic on values: times
// and random numbers are arguments, nothing waits, and the same events give the
// same decisions, live and simulated.
//
// A caller's concurrency limit is a [Ceiling], learnt from refusals. A service's
// is a [Gradient], learnt from how long its work takes. An [Admission] sheds the
// work that a service has no room for, the lowest [Priority] first;
// admit.Shedder adds the waiting to it. Package sim runs Ceiling, in a
// pace.Gate; it does not run Gradient and Admission.
package load
