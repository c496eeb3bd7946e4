package throttleredis

import (
	"sync/atomic"
	"time"
)

// Stats are what a [Store] has noticed since its first use.
type Stats struct {
	// Replaced is how often another process has answered than before, in a
	// Cluster for each of the Slots that are in use: after a fail-over, a
	// restart, or a move of slots. Unless it was expected, keys began empty.
	Replaced int64
	// Full is how many calls were refused as the memory of Redis was full.
	Full int64
	// Ahead is how far the clock of Redis was ahead of that of this process
	// when it answered last, and how long it took to. Below zero it was behind.
	// Decisions depend on the former alone; a step of it is worth an alarm, as
	// one forward grants what refills in that time.
	Ahead time.Duration
}

// Stats returns the numbers since first use. It is safe for concurrent use.
func (s *Store) Stats() Stats {
	return Stats{Replaced: s.replaced.Load(), Full: s.full.Load(), Ahead: time.Duration(s.ahead.Load())}
}

// tally is what is counted.
type tally struct {
	replaced, full atomic.Int64
	ahead          atomic.Int64 // how far the clock of Redis is, in nanoseconds
}
