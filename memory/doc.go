// Package memory keeps rate limits in this process: a [Store] decides as package
// limit does, in a bounded table of 32 bytes a key. Use it with package store:
//
//	var s memory.Store
//
//	d, err := store.Take(ctx, &s, "user:42", perMinute, 1)
//
// # Memory
//
// The table has a bounded size and no pointers: 32 bytes a key, which the
// garbage collector does not scan. It starts with at most 16 KiB and doubles as
// keys come. Up to half a MiB it also doubles if earlier keys have expired, as a
// key that finds its own slot again is faster; beyond that only if the other
// keys owe something. It never shrinks, and while it doubles, the old half is
// kept besides. A key is found by 56 bits of a keyed hash: the probability that
// any two of a million keys share one is 10^-5.
//
// On Linux a table of 4 MiB and more asks for pages of 2 MiB where it fills
// whole ones, which takes no more memory. While it grows it may wait for such a
// page, if /sys/kernel/mm/transparent_hugepage/defrag lets the kernel look for
// one; where none is found, or they are switched off, the pages are small.
//
// # What is forgotten
//
// Expired entries are reused in place: a full bucket equals an unknown key, so
// no sweeper is needed, and keys that owe nothing take no room from others. A
// key owes while it has used some of its limit. Of MaxKeys keys that all owe,
// about one in a million is forgotten, and starts with a full bucket. Beyond
// MaxKeys a new key, which is never refused for lack of room, takes the place of
// one of the eight in the two lines of the table where it may be: the one that
// has used the smallest share of its limit or, among equal shares, the fewest
// events. The two newest keys of each line are spared until all others in both
// are refused. So a flood of made-up keys, whatever their limits are, frees no
// key that is over its own limit, as long as far fewer than MaxKeys are. A key
// below its limit can be forgotten. To free more, the flood must use limits up,
// one of its keys for each key freed.
//
// # Changing limits
//
// A key may be asked for with another limit than before: [limit.Change] carries
// over what it owes, also where it is refused; a peek changes nothing. A Store
// distinguishes 4094 limits; it reads states written under further ones as if
// they had been written under the limit of the ask, or, if that is a log or
// slots, under a TokenBucket of the same Count and Period.
//
// # Logs and slots
//
// Sliding logs and slots keep more than a State, so they are kept apart, for at
// most MaxKeys keys and in at most MaxBytes besides, or what the key asked about
// last takes if that is more; see [limit.Log] and [limit.Slots]. Beyond that, of
// eight picked at random, the key that has used the smallest share of its limit is
// reduced to a FirstHitWindow in the table.
// That window ends when all its events would have left the log, or, if the key
// is refused, when it would have passed again; then the key is a new one. Logs
// and slots share one lock. A key that changes to one of these kinds, or from
// one to any other, is charged what it has used, at the time of the change.
//
// # Clock
//
// The clock is the wall clock at first use and monotonic from then on, so a step
// of the wall clock grants nothing. Fixed windows end by that clock.
package memory
