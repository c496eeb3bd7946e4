package signal

import "time"

// Read reads an answer that arrived at now by the general dialect, and returns
// the Signal for a Controller. field is as in [Dialect.Read].
//
//   - Retry-After is seconds, whole or not, a Unix time (a number above 5×10^8),
//     one of the three forms of an HTTP date, the date of an email, RFC 3339 or a
//     duration. Of several, the longest counts.
//     Milliseconds (Retry-After-Ms and similar) come before it.
//   - Of several limits in a RateLimit field the one with the least remaining
//     binds; among equals, the one that resets last. Limits counted in another
//     unit than requests are left to [Dialect.Read].
//   - share is a parameter of ours in a RateLimit field: the caller's fair part
//     of the limit, in requests a second, see Write.
//   - Where RateLimit says nothing, RateLimit-Limit, -Remaining and -Reset are
//     read, each on its own; then the same with X- before it, with and without a
//     dash in Rate-Limit. A reset above 5×10^8 is a Unix time, above 5×10^11 one
//     in milliseconds, anything less is seconds from now; dates and durations
//     are understood too.
//   - Retry-After takes precedence over the reset of a throttled answer. One
//     that has no Retry-After, and no quota left, asks to wait for the reset.
//   - What is malformed is ignored, negative waits included.
func Read(status int, field func(name string) string, now time.Time) Signal {
	d := general
	return d.Read(status, field, nil, now).Signal
}
