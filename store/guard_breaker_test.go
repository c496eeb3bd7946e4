package store

import (
	"testing"
	"time"
)

// A Store that was slow is away once it fails, or has answered nothing since the last
// probe.
func TestBreakerSlowOrAway(t *testing.T) {
	now := time.Unix(1000, 0)
	rules := breakerRules{failures: 5, timeout: 20 * time.Millisecond, minRest: time.Second, maxRest: time.Second}
	late := failure{began: now, probe: true, late: true, waits: true, err: ErrSlow}
	for _, c := range []struct {
		name   string
		happen func(*breaker)
		slow   bool
	}{
		{"a late probe", func(b *breaker) { b.failed(now, late, rules) }, true},
		{"two late probes, and no answer", func(b *breaker) { b.failed(now, late, rules); b.failed(now, late, rules) }, false},
		{"two late probes, and an answer", func(b *breaker) {
			b.failed(now, late, rules)
			b.answeredLate(30*time.Millisecond, false)
			b.failed(now, late, rules)
		}, true},
		{"a probe that fails", func(b *breaker) { b.failed(now, failure{began: now, probe: true, waits: true, err: errBoom}, rules) }, false},
		{"a late call that fails", func(b *breaker) { b.failedLate(errBoom) }, false},
	} {
		b := breaker{open: true, slow: true, heard: true, since: now, row: 5, late: 5, lateFrom: now, took: 30 * time.Millisecond}
		if c.happen(&b); !b.open || b.slow != c.slow {
			t.Errorf("after %s: open %t, slow %t; want true, %t", c.name, b.open, b.slow, c.slow)
		}
	}
}

// A Store is away, or slow, since the breaker opened first after an answer in time,
// however often it closes for a while.
func TestBreakerSince(t *testing.T) {
	began := time.Unix(1000, 0)
	now := began
	rules := breakerRules{failures: 1, timeout: 20 * time.Millisecond, minRest: time.Second, maxRest: time.Second}
	var b breaker
	for range 3 {
		b.failed(now, failure{began: now, waits: true, err: errBoom}, rules)
		if !b.open || !b.since.Equal(began) {
			t.Errorf("open %t since %v, want since %v", b.open, b.since, began)
		}
		now = now.Add(time.Second)
		if b.answeredLate(30*time.Millisecond, true); b.open {
			t.Error("it is open after a late answer")
		}
	}
	if b.answered(false); !b.since.IsZero() {
		t.Errorf("after an answer in time it is away since %v", b.since)
	}
}

// A Store that answers late counts as slow when no answer was in time for ten Timeouts,
// and no sooner.
func TestBreakerSlowAfterTenTimeouts(t *testing.T) {
	const timeout = 20 * time.Millisecond
	began := time.Unix(1000, 0)
	rules := breakerRules{failures: 5, timeout: timeout, minRest: time.Second, maxRest: time.Second}
	var b breaker
	late := func(after time.Duration) {
		b.failed(began.Add(after), failure{began: began.Add(after - timeout), late: true, waits: true, err: ErrSlow}, rules)
		b.answeredLate(30*time.Millisecond, false)
	}
	for i := range 10 {
		late(time.Duration(i) * timeout)
	}
	if late(slowAfter*timeout - 1); b.open {
		t.Errorf("just before ten Timeouts: %+v, want it closed", b)
	}
	b.failed(began.Add(slowAfter*timeout), failure{began: began, late: true, waits: true, err: ErrSlow}, rules)
	if !b.open || !b.slow {
		t.Errorf("after ten Timeouts: %+v, want it open, as slow", b)
	}
}

// What shows that a Store is away: a run of errors, or of late calls one of which began
// after the first ended, and that took twice as long as its last late answer did.
func TestBreakerAway(t *testing.T) {
	const ms = time.Millisecond
	began := time.Unix(1000, 0)
	rules := breakerRules{failures: 3, timeout: 20 * ms, minRest: time.Second, maxRest: time.Second}
	for _, c := range []struct {
		name  string
		late  bool
		ends  [3]time.Duration // of calls that wait 20 ms each
		took  time.Duration    // by a late answer before
		opens bool
	}{
		{"three errors, together", false, [3]time.Duration{20 * ms, 20 * ms, 20 * ms}, 0, true},
		{"three late, together", true, [3]time.Duration{20 * ms, 20 * ms, 20 * ms}, 0, false},
		{"three late, within the first", true, [3]time.Duration{20 * ms, 20 * ms, 40*ms - 1}, 0, false},
		{"three late, the last after the first", true, [3]time.Duration{20 * ms, 20 * ms, 40 * ms}, 0, true},
		{"three late, sooner than two answers", true, [3]time.Duration{20 * ms, 60 * ms, 120*ms - 1}, 50 * ms, false},
		{"three late, as long as two answers", true, [3]time.Duration{20 * ms, 60 * ms, 120 * ms}, 50 * ms, true},
	} {
		b := breaker{took: c.took}
		for _, end := range c.ends {
			at := began.Add(end)
			b.failed(at, failure{began: at.Add(-20 * ms), late: c.late, waits: true, err: errBoom}, rules)
		}
		if b.open != c.opens || b.slow {
			t.Errorf("%s: open %t, slow %t; want %t, and not slow", c.name, b.open, b.slow, c.opens)
		}
	}
	var calm breaker
	if calm.answeredLate(50*ms, false); !calm.calm() {
		t.Errorf("a late answer that is older than the last in time: %+v, want nothing noted", calm)
	}
}
