// Package throttlehttp is HTTP on both sides of a rate limit.
//
// [Transport] is for callers. It wraps the http.RoundTripper of a client,
// paces the requests to each host, understands what servers say (429, 503,
// Retry-After, RateLimit fields), and makes again what may be made again:
//
//	client := http.Client{Transport: new(Transport)}
//
// [Handler] is for owners. It wraps an http.Handler, refuses by 429 what is
// above a limit, and tells callers how much remains:
//
//	http.Handle("/", &Handler{
//		Limit: limit.Limit{Count: 100, Period: time.Minute}, // of each
//		Key:   RemoteIP,                        // address
//		Next:  api,
//	})
package throttlehttp
