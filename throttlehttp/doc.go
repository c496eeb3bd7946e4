// Package throttlehttp does rate limiting over HTTP, for both sides of a limit.
//
// [Transport] is for callers. It wraps the http.RoundTripper of a client, paces
// the requests to each host, reads what servers say (429, 503, Retry-After,
// RateLimit fields), and retries what may be retried:
//
//	client := http.Client{Transport: new(throttlehttp.Transport)}
//
// [Handler] is for owners. It wraps an http.Handler, refuses with 429 what is
// above a limit, and tells callers how much remains:
//
//	http.Handle("/", &throttlehttp.Handler{
//		Limit: limit.Limit{Count: 100, Period: time.Minute}, // for each
//		Key:   throttlehttp.RemoteIP,                        // address
//		Next:  api,
//	})
//
// Most callers need no more than the zero Transport; its Throttle is that of
// package throttle. Most owners begin with a Limit and a Key, add Rules (package
// rules) when there are several limits, Shed (package admit) when the service
// itself is the bottleneck, and a Store shared by all processes (throttleredis,
// throttlesql) behind a store.Guard. Package signal reads the headers and bodies
// of servers.
package throttlehttp
