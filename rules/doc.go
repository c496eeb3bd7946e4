// Package rules says who is limited by what: which requests a rule is for, on
// whose account they go, and how much each account may use. Rules are Go values
// with a JSON form, and are swapped while the program runs.
//
//	c, err := Parse([]byte(`{"rules": [
//		{"name": "per-address", "key": "address", "limits": "10/s burst 20"}
//	]}`))
//	a, err := c.Decide(ctx, store, Request{Path: "/", Address: from})
//	if !a.OK { /* a.Rule refuses; come again after a.Decision.RetryAfter */ }
//
// A [Set] is the content of a file, [Parse] and [Compile] check one whole, and
// [Compiled.Decide] asks a [store.Store] about all the rules that are for a
// request at once: all are charged, or none. [Live] holds the version in use,
// and a [Source] keeps it fresh from a URL, a file or a function.
//
// Nothing in this package is kept for each key; that is the Store's business.
package rules
