package throttleredis

import (
	"sync/atomic"
	"time"
)

// Stats are the numbers of a [Store] since its first use.
type Stats struct {
	// Replaced counts, for each of the Slots in use, how often the answer came from
	// another server process than before (a fail-over, a restart, a move of slots),
	// or from the same one after it was a replica and may have lost writes. Unless
	// Expect announced it, keys then started used up.
	Replaced int64
	// Flushed counts how often all keys of one of the Slots were gone while its
	// process ran on, as after FLUSHALL. Keys started full, or used up with Strict.
	Flushed int64
	// Full counts calls that Redis refused because its memory was full.
	Full int64
	// Ahead is how far the clock of Redis was ahead of that of this process
	// when it answered last, plus the time the answer took. Below zero it was
	// behind. Decisions depend on the clock of Redis alone; alarm on a step of
	// it, as one forward grants what refills in that time.
	Ahead time.Duration
}

// Stats returns the numbers since first use. It is safe for concurrent use.
func (s *Store) Stats() Stats {
	return Stats{Replaced: s.replaced.Load(), Flushed: s.flushed.Load(), Full: s.full.Load(), Ahead: s.offset()}
}

// counters are the Stats while they change.
type counters struct {
	replaced, flushed, full atomic.Int64
	clockOffset             atomic.Int64 // of Redis from this process, nanoseconds
	latest                  atomic.Int64 // since when the latest fence counts, microseconds
}

func (c *counters) offset() time.Duration     { return time.Duration(c.clockOffset.Load()) }
func (c *counters) setOffset(d time.Duration) { c.clockOffset.Store(int64(d)) }
