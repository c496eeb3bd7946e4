package throttlesql

import (
	"sync/atomic"
	"time"
)

// Stats are what a [Store] has noticed since its first use.
type Stats struct {
	// Lost is how often it has found that what was taken may have been lost, so
	// that all keys began empty: after a crash, or on a promoted standby.
	// Single keys tell when they are refused, or asked for on a new connection.
	Lost int64
	// Ahead is how far the clock of PostgreSQL was ahead of that of this
	// process when it answered last, and how long it took to. Below zero it
	// was behind. Decisions depend on the former alone; a step of it is worth
	// an alarm, as one forward grants what refills in that time.
	Ahead time.Duration
}

// Stats returns the numbers since first use. It is safe for concurrent use.
func (s *Store) Stats() Stats {
	return Stats{Lost: s.lost.times.Load(), Ahead: time.Duration(s.ahead.Load()) * time.Microsecond}
}

// losses are what is known of the fence.
type losses struct {
	times atomic.Int64
	since atomic.Int64 // what it said last, or one of the following
}

const (
	notAsked = 0
	isGone   = -1
)

// meet notes what the fence says, nil if it is gone.
func (l *losses) meet(since *int64) {
	now := int64(isGone)
	if since != nil {
		now = *since
	}
	before := l.since.Swap(now)
	if now != before && before != isGone && (before != notAsked || now == isGone) {
		l.times.Add(1)
	}
}
