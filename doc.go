// Package throttle keeps the callers of a rate-limited service just below its
// limit.
//
// A [Throttle] is a client-side rate limiter with retries. It stands between
// many goroutines and one limit, and needs no configuration: it learns the
// limit from the answers of the service.
//
//	var api throttle.Throttle
//
//	err := api.Do(ctx, func(ctx context.Context) error {
//		resp, err := call(ctx)
//		if tooMany(resp) {
//			return throttle.Throttled(err, retryAfter(resp))
//		}
//		return err
//	})
//
// [Throttle.Do] waits until the limit admits the call, runs it, and retries it
// while it is throttled or fails transiently. [Call] does so for a function
// that returns a value, [Throttle.DoResult] for one that knows more than an
// error, and [Throttle.Try] never waits.
//
// The error of the function classifies the try: [Throttled], [Failed],
// [Permanent], [Ignore], or any other, which is returned at once and not
// retried. A call that is given up returns an [Error]: why, after how many
// tries, the last error of the function, and whether the service may have
// executed anything.
//
// Most callers should use an adapter rather than this package: throttlehttp for
// an http.Client, throttlegrpc for a gRPC connection, throttleaws for the AWS
// SDK. They read status codes and headers, and keep a Throttle for each limit
// in a [Group]. [CallOptions] set the priority, the cost and the longest wait
// of one call. A [Fleet] shares one limit among processes.
// Package pace has the controllers that decide the pace;
// [pace.Adaptive] is the default.
//
// Owners of a service that limit its callers use other packages: store decides
// by a limit, memory is the Store in this process, admit makes requests wait or
// sheds them, rules states which requests are subject to which limits, and
// throttlehttp.Handler puts them in front of an http.Handler.
//
// # Testing
//
// All waiting is by plain timers and contexts, so code that uses a Throttle is
// tested in a testing/synctest bubble (virtual time), where waits take no time.
// Make the Throttle inside the bubble. Virtual time does not pass while a goroutine
// waits for a socket: give a throttlehttp.Transport a Base in memory.
package throttle
