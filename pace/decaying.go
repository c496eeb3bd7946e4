package pace

import (
	"time"

	"github.com/throttle-go/throttle/pace/internal/schedule"
)

// DecayingBackoff is an exponential backoff that all calls share and that
// decays: each throttled answer raises its level by one, which doubles the rest
// before the retry, and each ten served ones lower it by one, until nothing is
// left. A throttled call rests for the level that all calls have reached,
// instead of starting over, so it deals with seconds of overload as well as
// minutes.
//
//	rest = Backoff.Delay(level - 1)    with a level of 1 after the first refusal
//
// Where every try is refused for load or served, about one in eleven is refused
// while the level is constant. It paces nothing: calls that were not throttled
// start at once. Combine it with a rate by [All]:
//
//	Control: pace.All{&pace.Fixed{Rate: 4}, &pace.DecayingBackoff{}}
//
// It was proposed for callers of cloud APIs, with Amazon EMR's DescribeCluster as
// the example: "after 10 un-throttled API requests that we can discount our
// retry, ultimately getting back to our 0 retry state". Where tries overlap, it
// differs in one thing: refusals of tries that were sent before the level last
// rose belong to that rise, so ten calls that are refused together raise it by
// one, not by ten.
//
// By itself it is driven by Throttled and Served. The zero DecayingBackoff is
// ready; it is not safe for concurrent use.
type DecayingBackoff struct {
	// Backoff gives the rest at each level, and the Tries of a call. If zero,
	// 100 ms at the first level, doubled up to 20 s. If its Jitter is zero,
	// FullJitter: calls that were throttled together would be retried together.
	Backoff Backoff
	// Successes is the number of served answers that lower the level by one. If
	// zero or below, 10.
	Successes int

	level  int
	served int       // since the level last changed
	raised time.Time // when it last rose
}

// mostLevel bounds the level where the Backoff has no Cap that it could reach.
const mostLevel = 64

var _ Controller = (*DecayingBackoff)(nil)

// Level returns the level: the number of refusals not yet made up for. It rises
// only until the Backoff reaches its Cap, at most to 64, so that it falls from
// there as soon as the service recovers.
func (d *DecayingBackoff) Level() int { return d.level }

// Throttled takes a throttled answer to a try that was sent at the time sent,
// zero if that is not known, and returns how long the call rests before its
// retry. The same luck gives the same jitter.
func (d *DecayingBackoff) Throttled(now, sent time.Time, luck Luck) (rest time.Duration) {
	return d.throttled(now, sent, 0, luck)
}

// Served takes an answer that was not throttled.
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

// Observe returns the rest after a throttled try, Never after the last of the
// Backoff's Tries. Tries that failed for another reason change nothing.
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
