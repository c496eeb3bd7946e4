package pace

import (
	"math"
	"time"

	"github.com/throttle-go/throttle/pace/internal/schedule"
)

// Jitter is the kind of randomness in a delay v, with a draw U uniform in [0, 1). It keeps clients
// that were refused together from returning together, as a thundering herd. Full, Equal and
// Decorrelated are those of "Exponential Backoff And Jitter" (AWS Architecture Blog, 2015).
type Jitter uint8

const (
	// NoJitter leaves v unchanged.
	NoJitter Jitter = iota
	// FullJitter is v × U.
	FullJitter
	// EqualJitter is v/2 + v/2 × U.
	EqualJitter
	// DecorrelatedJitter is Base + (3 × previous delay - Base) × U: it grows by itself, and
	// neither Factor nor Step counts.
	DecorrelatedJitter
	// PlusMinusJitter is v × (1 ± Spread).
	PlusMinusJitter
	// UpwardJitter is v × (1 + Spread × U). It alone may exceed the Cap, by Spread, so that
	// clients which reached the Cap stay apart.
	UpwardJitter
)

// Backoff rests before each retry, longer each time (exponential backoff). It paces nothing: each
// call starts at once, whatever happened to others. Throttled and failed tries rest alike. It
// keeps no state.
//
// The rest before the n-th retry, n = 0, 1, ..., is
//
//	min(Cap, Base × Factor^n)    or, with a Step,    min(Cap, Base + Step × n)
//
// changed by the Jitter. The zero Backoff doubles from 100 ms up to 20 s.
// The ExponentialBackoff of Ruby's rate_throttle_client is
//
//	Backoff{Base: 800 * time.Millisecond, Factor: 1.2, Cap: -1, Jitter: UpwardJitter}
type Backoff struct {
	// Base is the first rest. If zero or below, 100 ms.
	Base time.Duration
	// Factor multiplies the rest from retry to retry. If zero or below, 2.
	Factor float64
	// Step, if above zero, is added from retry to retry, in place of the Factor.
	Step time.Duration
	// Cap bounds the rest. If zero, 20 s; below zero, there is no bound.
	Cap time.Duration
	// Tries bounds the tries of a call, the first one included; then it is given up. If zero
	// or below, there is no bound.
	Tries int
	// Jitter is the kind of randomness. If zero, none.
	Jitter Jitter
	// Spread is the fraction that PlusMinusJitter and UpwardJitter use. If zero or below, 0.1.
	// PlusMinusJitter uses 1 at most.
	Spread float64
}

// AWS2026Backoff is the backoff of AWS_NEW_RETRIES_2026 for failed calls: 50 ms,
// doubled up to 20 s, with full jitter. The Cap is applied before the jitter.
var AWS2026Backoff = Backoff{Base: 50 * time.Millisecond, Cap: 20 * time.Second, Jitter: FullJitter}

var _ Controller = (*Backoff)(nil)

// Delay returns the rest before retry number retry, counted from 0. prev is the rest before the
// last try, zero if there was none; only DecorrelatedJitter uses it. The same arguments always
// give the same delay.
func (b *Backoff) Delay(retry int, prev time.Duration, luck Luck) time.Duration {
	base, longest, v := float64(b.base()), b.longest(), b.mean(retry)
	u, spread := luck.Unit(0), schedule.Or(b.Spread, 0.1)
	switch b.Jitter {
	case FullJitter:
		v *= u
	case EqualJitter:
		v = v/2 + v/2*u
	case DecorrelatedJitter:
		v = base + (3*max(float64(prev), base)-base)*u
	case PlusMinusJitter:
		spread = min(spread, 1)
		v *= 1 - spread + 2*spread*u
	case UpwardJitter:
		return schedule.Nanoseconds(v * (1 + spread*u))
	}
	return schedule.Nanoseconds(min(v, longest))
}

// base returns the Base.
func (b *Backoff) base() time.Duration { return schedule.Or(b.Base, 100*time.Millisecond) }

// mean returns the rest before the Jitter, in nanoseconds.
func (b *Backoff) mean(retry int) float64 {
	base, n := float64(b.base()), float64(max(retry, 0))
	v := base * math.Pow(schedule.Or(b.Factor, 2), n)
	if b.Step > 0 {
		v = base + float64(b.Step)*n
	}
	return min(v, b.longest())
}

// longest returns the Cap in nanoseconds.
func (b *Backoff) longest() float64 {
	switch {
	case b.Cap < 0:
		return float64(schedule.Longest)
	case b.Cap == 0:
		return float64(20 * time.Second)
	}
	return float64(b.Cap)
}

// Wait returns 0.
func (b *Backoff) Wait(time.Time, Request) time.Duration { return 0 }

// Start does nothing.
func (b *Backoff) Start(time.Time, Request) {}

// Observe returns the rest after a throttled or failed try, Never after the last of Tries.
func (b *Backoff) Observe(_ time.Time, o Outcome) (rest time.Duration) {
	if o.Verdict != Throttled && o.Verdict != Failed {
		return 0
	}
	r := o.Request
	if b.Tries > 0 && r.Try >= b.Tries-1 {
		return Never
	}
	return b.Delay(r.Try, r.Rest, r.Luck)
}

// DecayingBackoff is an exponential backoff that all calls share and that decays. Each throttled
// answer raises its level by one, which doubles the rest before the retry. Each ten served answers
// lower it by one, until it is zero. A throttled call rests for the level that all calls have
// reached, instead of starting over, so it deals with seconds of overload as well as minutes.
//
//	rest = Backoff.Delay(level - 1)    with a level of 1 after the first refusal
//
// Where every try is throttled or served, about one in eleven is throttled while the level is
// constant. It paces nothing: calls that were not throttled start at once. Combine it with a rate
// by [All]:
//
//	Control: pace.All{&pace.Fixed{Rate: 4}, &pace.DecayingBackoff{}}
//
// It was proposed for callers of cloud APIs, with Amazon EMR's DescribeCluster as the example:
// "after 10 un-throttled API requests that we can discount our retry, ultimately getting back to
// our 0 retry state". It differs where tries overlap: refusals of tries sent before the level last
// rose belong to that rise, so ten calls that are refused together raise it by one, not by ten.
//
// Without a Gate, it is driven by Throttled and Served. The zero DecayingBackoff is ready; it is
// not safe for concurrent use.
type DecayingBackoff struct {
	// Backoff gives the rest at each level, and the Tries of a call. If zero, 100 ms at the
	// first level, doubled up to 20 s. If its Jitter is zero, FullJitter: calls that were
	// throttled together would be retried together.
	Backoff Backoff
	// Successes is the number of served answers that lower the level by one. If zero or below,
	// 10.
	Successes int

	level  int
	served int       // answers since the level last changed
	raised time.Time // when the level last rose
}

// mostLevel bounds the level where the Backoff has no Cap to reach.
const mostLevel = 64

var _ Controller = (*DecayingBackoff)(nil)

// Level returns the level: the refusals not yet made up for by served answers. It rises only until
// the Backoff reaches its Cap, and to 64 at most, so that it falls as soon as the service recovers.
func (d *DecayingBackoff) Level() int { return d.level }

// Throttled records a throttled answer to a try that was sent at the time sent, zero if that is
// not known, and returns how long the call rests before its retry. The same luck gives the same
// jitter.
func (d *DecayingBackoff) Throttled(now, sent time.Time, luck Luck) (rest time.Duration) {
	return d.throttled(now, sent, 0, luck)
}

// Served records an answer that was not throttled.
func (d *DecayingBackoff) Served() {
	if d.level == 0 {
		return
	}
	if d.served++; d.served >= schedule.Or(d.Successes, 10) {
		d.level, d.served = d.level-1, 0
	}
}

func (d *DecayingBackoff) throttled(now, sent time.Time, prev time.Duration, luck Luck) time.Duration {
	b := d.Backoff
	if b.Jitter == NoJitter {
		b.Jitter = FullJitter
	}
	if d.level == 0 || sent.IsZero() || !sent.Before(d.raised) {
		d.raised, d.served = now, 0
		if d.level == 0 || d.level < mostLevel && b.mean(d.level-1) < b.longest() {
			d.level++
		}
	}
	return b.Delay(d.level-1, prev, luck)
}

// Wait returns 0.
func (d *DecayingBackoff) Wait(time.Time, Request) time.Duration { return 0 }

// Start does nothing.
func (d *DecayingBackoff) Start(time.Time, Request) {}

// Observe returns the rest after a throttled try, Never after the last of the Backoff's Tries.
// Tries that failed for another reason change nothing.
func (d *DecayingBackoff) Observe(now time.Time, o Outcome) (rest time.Duration) {
	switch o.Verdict {
	case Served:
		d.Served()
	case Throttled:
		rest = d.throttled(now, o.Sent, o.Request.Rest, o.Request.Luck)
		if tries := d.Backoff.Tries; tries > 0 && o.Request.Try >= tries-1 {
			return Never
		}
	}
	return rest
}
