package store

import "time"

// A breaker is the state of the circuit breaker of a [Guard]. Its methods read
// no clock: they are called with the instant. The Guard holds its lock.
//
//	closed   the Store is called
//	away     open: the Store fails, or does not answer
//	slow     the Store answers, later than the Timeout: open, and closed for a
//	         while after each late answer, to see whether others are in time
type breaker struct {
	open    bool
	slow    bool
	since   time.Time // when it opened, the first time since an answer in time
	err     error     // of the last failure
	probing bool      // a caller waits for a probe
	next    time.Time // of the next probe
	rest    time.Duration
	heard   bool // the Store has answered since the last probe
	untold  bool // it has closed without OnState

	row    int       // failures since the last answer
	errors int       // those of them that are errors
	first  time.Time // the first of them

	late     int           // late calls since the last answer in time
	lateFrom time.Time     // the first of them
	took     time.Duration // by the last late answer since the last in time; zero: none came
}

// breakerRules are what a breaker goes by.
type breakerRules struct {
	failures         int
	timeout          time.Duration
	minRest, maxRest time.Duration // between probes
	jitter           float64       // drawn from 0 to 1
}

// A failure is a call that the Store did not decide in time.
type failure struct {
	began time.Time
	probe bool
	late  bool // not an error
	waits bool // its caller waited long enough to prove something
	err   error
}

// slowAfter is how many Timeouts without an answer in time make a Store slow
// that does answer.
const slowAfter = 10

// calm reports whether an answer in time changes nothing.
func (b *breaker) calm() bool {
	return !b.open && b.row == 0 && b.late == 0 && b.took == 0 && !b.untold
}

// probe reports whether a call may probe the Store now, and begins the probe.
func (b *breaker) probe(now time.Time) bool {
	if b.probing || now.Before(b.next) {
		return false
	}
	b.probing = true
	return true
}

// answered records a decision in time. tell reports whether it ends an absence,
// or is the first since one ended without OnState.
func (b *breaker) answered(probe bool) (tell bool) {
	tell = !b.since.IsZero() || b.untold
	*b = breaker{err: b.err, probing: b.probing && !probe}
	return tell
}

// answeredAlone records a decision in time that no caller waited for, so that
// the next one calls OnState.
func (b *breaker) answeredAlone() { b.untold = b.answered(false) }

// answeredLate records a decision that took longer than the Timeout. The Store
// is not away, and may have made a connection by now, so it is called again: if
// the callers then wait in vain, it is slow. If it is known to be, only the
// answer to a probe counts.
func (b *breaker) answeredLate(took time.Duration, probe bool) {
	b.row, b.errors, b.heard = 0, 0, true
	if b.open || b.late > 0 { // otherwise it is older than the last answer in time
		b.took = took
	}
	if b.open && (probe || !b.slow) {
		b.open, b.slow, b.late = false, true, 0
	}
}

// failedLate records the error of a call that was counted as late before.
func (b *breaker) failedLate(err error) {
	b.err = err
	if b.open {
		b.slow = false
	}
}

// failed records a failure, and opens the breaker if it is one too many.
func (b *breaker) failed(now time.Time, f failure, r breakerRules) {
	b.err = f.err
	if f.probe {
		b.probing = false
		if b.open {
			b.failedProbe(now, f, r)
			return
		}
	}
	if !f.waits {
		return
	}
	if b.row++; b.row == 1 {
		b.first = now
	}
	if !f.late {
		b.errors++
	} else if b.late++; b.late == 1 {
		b.lateFrom = now
	}
	if away, slow := b.away(now, f, r), b.late >= r.failures && b.isSlow(now, r); !b.open && (away || slow) {
		b.open, b.untold = true, false
		b.slow, b.heard = !away, !away
		if b.since.IsZero() {
			b.since = now
		}
		b.again(now, f, r)
	}
}

// away reports whether the failures show that the Store is away: a run of
// errors, or silence: a run of failures, the last of which waited since the
// first, and for twice as long as the last late answer took.
func (b *breaker) away(now time.Time, f failure, r breakerRules) bool {
	return b.errors >= r.failures ||
		b.row >= r.failures && (b.row == 1 || !f.began.Before(b.first) && now.Sub(b.first) >= 2*b.took)
}

// isSlow reports whether the Store answers, but no answer was in time for
// slowAfter Timeouts.
func (b *breaker) isSlow(now time.Time, r breakerRules) bool {
	return b.took > 0 && now.Sub(b.lateFrom) >= slowAfter*r.timeout
}

// failedProbe records a failure of a probe of an open breaker.
func (b *breaker) failedProbe(now time.Time, f failure, r breakerRules) {
	if !f.late || !b.heard {
		b.slow = false
	}
	b.heard = false
	if f.late {
		b.late++
	}
	b.again(now, f, r)
}

// again sets the instant of the next probe: after a random part of the rest, at
// least half, which doubles each time that a failure proves something.
func (b *breaker) again(now time.Time, f failure, r breakerRules) {
	if f.waits {
		b.rest *= 2
	}
	b.rest = min(max(b.rest, r.minRest), r.maxRest)
	b.next = now.Add(b.rest/2 + time.Duration(r.jitter*float64(b.rest/2)))
}
