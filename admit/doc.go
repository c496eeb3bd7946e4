// Package admit is admission control for the owner of a service: it decides which
// work may start, and when.
//
//   - [Control] puts rate limits, bounds on the requests in flight and load
//     shedding in front of a service, whatever the transport: HTTP by
//     throttlehttp.Handler, gRPC by throttlegrpc.Server, jobs by its method
//     Begin.
//   - [Queue] makes requests wait until a rate limit admits them (a shaper, or
//     leaky bucket as a queue), where a [store.Store] would refuse. Use it for
//     work that should be done later rather than refused: mail, exports, calls
//     to a slow backend. Its bounds are backpressure: when the queue is full, or
//     a turn would come too late, the caller knows at once.
//   - [Shedder] is load shedding with an adaptive concurrency limit: it bounds
//     the work in flight, and refuses the lowest priorities first under
//     overload. Use it where callers are within their limits and the service is
//     still too slow.
//   - [Quota] bounds how many objects a customer has. It is no rate limit.
//
// Most owners begin with a limit for each caller, and add a Shedder for what all
// callers share:
//
//	control := &admit.Control{
//		Limit: limit.Limit{Count: 100, Period: time.Minute},
//		Shed:  new(admit.Shedder),
//	}
//	http.Handle("/", &throttlehttp.Handler{Control: control, Next: api})
//
// A Control and a Quota refuse by a value, Queue and Shedder by a [store.Error]
// with a Reason and a forecast of the wait. The decisions of a Shedder are those
// of package load, functions of values that tests run in virtual time. The
// simulator runs nothing of this package.
package admit
