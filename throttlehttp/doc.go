// Package throttlehttp does rate limiting over HTTP, for both sides of a limit.
//
// [Transport] is for callers. It wraps the http.RoundTripper of a client, paces
// the requests to each host, reads what servers say (429, 503, Retry-After,
// RateLimit fields), and retries what may be retried:
//
//	client := http.Client{Transport: new(throttlehttp.Transport)}
//
// [Limit] and [Handler] are for owners. They are rate limiting middleware, which
// refuses with 429 what is above a limit, and tells callers how much remains:
//
//	perAddress := throttlehttp.Limit(limit.Limit{Count: 100, Period: time.Minute}, nil)
//	http.Handle("/", perAddress(api))
//
// Most callers need no more than the zero Transport; its Throttle is that of
// package throttle. Most owners begin with Limit, and go on to a Handler with an
// admit.Control: Rules (package rules) when there are several limits, Shed when
// the service itself is the bottleneck, and a Store shared by all processes
// (throttleredis, throttlesql) behind a store.Guard. The same Control serves gRPC
// by throttlegrpc. Package signal reads the headers and bodies of servers.
package throttlehttp
