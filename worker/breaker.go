package worker

import (
	"time"

	"github.com/throttle-go/throttle/pace"
)

// probes is the time between the probes of an open circuit breaker.
var probes = pace.Backoff{Base: 100 * time.Millisecond, Cap: 500 * time.Millisecond, Jitter: pace.EqualJitter}

// breaker is a circuit breaker. It decides by values alone. Each record counts
// once in a row of failures, so that a poison record alone does not open it.
type breaker struct {
	most    int    // failures that open it; below 1: it never opens
	row     uint64 // number of the row of failures, less 1
	failed  int    // records that failed in this row
	probed  int    // probes since it opened
	open    bool
	probing bool      // a probe waits or is in flight
	until   time.Time // when the next probe may start
}

// wait returns how long until a try may start: zero or below, at once; Never: not
// before the probe has ended.
func (b *breaker) wait(now time.Time) time.Duration {
	switch {
	case !b.open:
		return 0
	case b.probing:
		return pace.Never
	}
	return b.until.Sub(now)
}

// probe reports whether the try that starts now is a probe.
func (b *breaker) probe() bool {
	b.probing = b.open
	return b.open
}

// release ends a probe, however it went.
func (b *breaker) release() { b.probing = false }

// failure notes that a record failed, in row *seen before. It reports whether
// that opens the breaker. probe says that it was one.
func (b *breaker) failure(now time.Time, seen *uint64, probe bool, luck pace.Luck) (opens bool) {
	if !b.counted(*seen) {
		*seen = b.row + 1
		b.failed++
	}
	opens = !b.open && b.most > 0 && b.failed >= b.most
	if opens {
		b.open, b.probed = true, 0
	}
	if opens || probe {
		b.until = now.Add(probes.Delay(b.probed, 0, luck))
		b.probed++
	}
	return opens
}

// counted reports whether a record that failed last in row seen has failed since
// the last answer.
func (b *breaker) counted(seen uint64) bool { return seen == b.row+1 }

// answer notes that the service has answered. It reports whether that closes the
// breaker.
func (b *breaker) answer() (closes bool) {
	b.row++
	closes = b.open
	b.failed, b.open = 0, false
	return closes
}
