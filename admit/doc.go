// Package admit is the admission control of a service: it decides when work may
// start, and makes requests wait, or sheds them, where a [store.Store] would
// refuse.
//
//   - [Queue] makes requests wait until a rate limit admits them (a shaper, or
//     leaky bucket as a queue). Use it for work that should be done later rather
//     than refused: mail, exports, calls to a slow backend. Its bounds are
//     backpressure: when the queue is full, or a turn would come too late, the
//     caller knows at once.
//   - [Shedder] is load shedding with an adaptive concurrency limit: it bounds
//     the work in flight, and refuses the lowest priorities first under
//     overload. Use it where callers are within their limits and the service is
//     still too slow.
//   - [Quota] bounds how many objects a customer has. It is no rate limit.
//
// Most owners begin with a limit for each caller, by a store.Store, and add a
// Shedder in front of what all callers share:
//
//	pass, err := shedder.Acquire(ctx, load.High)
//	if err != nil {
//		return err // a *store.Error: refused at once, or after a short wait
//	}
//	defer pass.Release()
//
// Queue and Shedder refuse by a [store.Error] with a Reason and a forecast of
// the wait; a Quota refuses by a value. The decisions of a Shedder are those of
// [load.Admission]. The simulator, package sim, runs none of these three. For
// HTTP, throttlehttp.Handler has a field Shed.
package admit
