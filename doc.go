// Package throttle keeps callers of a rate-limited service just below its
// limit, and helps the owners of services to set limits.
//
// # For callers
//
// A [Throttle] stands between many goroutines and one limit. Its zero value is
// ready: it learns the limit from what the service answers.
//
//	var api Throttle
//
//	err := api.Do(ctx, func(ctx context.Context) error {
//		resp, err := call(ctx)
//		if tooMany(resp) {
//			return Throttled(err, retryAfter(resp))
//		}
//		return err
//	})
//
// [Throttle.Do] waits for its turn, calls, learns, and tries again what was
// throttled; [Call] does so for a function that returns a value;
// [Throttle.Try] never waits. A function says how its call ended by the error
// it returns: [Throttled], [Failed], [Permanent], [Ignore], or any other, which
// is returned at once as it is. Giving up is an [Error]: it holds the last
// error of the function, and says why, after how many tries, and whether
// anything may have been executed.
//
// How requests are paced is the business of a controller of package pace;
// [pace.Adaptive] is the default. For HTTP use package throttlehttp, which
// reads status and header fields.
//
// # For owners
//
// A [store.Store] decides by package limit whether a request may pass; [memory.Store] is
// the one in this process:
//
//	var store memory.Store
//
//	d, err := store.Take(ctx, &store, "user:42", perMinute, 1)
//
// A refusal is a value, d.OK, with the time after which to come again; an
// error means that the store could not decide; [store.Guard] has an answer then, chosen
// on purpose, and in time. Packages throttleredis and throttlesql are Stores for a
// whole fleet. [admit.Queue] lets callers wait for their turn instead, [store.InFlight] counts
// what is under way, and [admit.Quota] bounds how many objects a customer has. Package
// rules says who is limited by what, and is swapped while the program runs.
//
// # Testing
//
// All waiting is by plain timers and contexts, so code that uses a Throttle is
// tested in a testing/synctest bubble, where waits cost no time. Make the
// Throttle inside the bubble.
package throttle
