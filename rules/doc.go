// Package rules states which requests are subject to which limits: which
// requests a rule is for, by which key they are counted, and how much each key
// may use. Rules are Go values with a JSON form, and can be swapped while the
// program runs.
//
//	c, err := rules.Parse([]byte(`{"rules": [
//		{"name": "per-address", "key": "address", "limits": "10/s burst 20"}
//	]}`))
//	a, err := c.Decide(ctx, s, rules.Request{Path: "/", Address: from})
//	if !a.OK { /* a.Rule refuses; come again after a.Decision.RetryAfter */ }
//
// A [Set] is the content of a file. [Parse] and [Compile] check it as a whole,
// and [Compiled.Decide] asks a [store.Store] about all rules for a request at
// once: all are charged, or none. [Live] holds the version in use, and a
// [Source] refreshes it from a URL, a file or a function. A [Stack] puts several
// sources on top of each other, and on top of them an [Overlay]: changes by hand,
// such as a raise for an hour, that all instances share. [ParseNode] reads other
// formats than JSON.
//
// Most owners do not call Decide themselves: they give a Live to
// throttlehttp.Handler, which fills in the Request. A program with a single
// limit needs no rules, only package store.
//
// This package keeps no state for keys; the Store does.
package rules
