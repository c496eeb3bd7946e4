package throttlesql

import (
	"sync/atomic"
	"time"
)

// Stats are the numbers of a [Store] since its first use.
type Stats struct {
	// Lost counts the times that charges may have been lost, so that all keys
	// started used up: after a crash, on a promoted standby, or if the clock of
	// PostgreSQL was put back to before such a loss. The Store notices it when a
	// key is refused, or on a new connection.
	Lost int64
	// Ahead is how far the clock of PostgreSQL was ahead of that of this process
	// when it answered last, plus the time the answer took. Below zero it was
	// behind. Decisions depend on the clock of PostgreSQL alone; alarm on a step
	// of it, as one forward grants what refills in that time.
	Ahead time.Duration
}

// Stats returns the numbers since first use. It is safe for concurrent use.
func (s *Store) Stats() Stats {
	return Stats{Lost: s.lost.count.Load(), Ahead: time.Duration(s.offset()) * time.Microsecond}
}

// counters are the Stats while they change.
type counters struct {
	lost        losses
	clockOffset atomic.Int64 // of PostgreSQL from this process, microseconds
}

func (c *counters) offset() int64      { return c.clockOffset.Load() }
func (c *counters) setOffset(us int64) { c.clockOffset.Store(us) }

// losses count by the fence, the row that says since when nothing was lost.
type losses struct {
	count atomic.Int64
	since atomic.Int64 // what the fence said last, or one of these:
}

const (
	notSeen = 0
	isGone  = -1
)

// note notes what the fence says, nil if it is gone. One that is gone, or says
// something else than before, is a loss; one that was gone has been counted.
func (l *losses) note(since *int64) {
	now := int64(isGone)
	if since != nil {
		now = *since
	}
	before := l.since.Swap(now)
	if now != before && before != isGone && (before != notSeen || now == isGone) {
		l.count.Add(1)
	}
}
