// Package memory keeps rate limits in this process: a [Store] decides by package
// limit, in a bounded table of 32 bytes a key that the garbage collector does not
// look into. Use it with package store:
//
//	var s memory.Store
//
//	d, err := store.Take(ctx, &s, "user:42", perMinute, 1)
package memory
