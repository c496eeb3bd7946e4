package pace

import (
	"math"
	"time"
)

// Adaptive is an adaptive rate limit: it learns the limit of a server and keeps
// just below it. It combines an adaptive rate with an exponential backoff that
// decays. It starts unpaced, so a server that does not throttle is not slowed
// down; a throttled answer cuts the rate at once; from there the rate grows
// slowly. Use one Adaptive for all callers of one limit in a process.
//
// Without hints it knows only served or throttled, and is throttled about once a
// T to learn the limit. See docs/control.md for the law: the requests served from one
// refusal to the next measure the limit, and from there
//
//	rate(t) = base × exp(ψ(u)),  u = t/T
//	ψ(u)    = G u                    for u <= 1, a slow growth
//	        = G u + 0.55 (u-1)²      beyond, its slope bounded by 4 doublings a T
//
// u counts only the time in which requests had to wait for the rate: a rate
// that does not bind does not grow. In equilibrium rate × T × (share throttled)
// is about G/L for every client, whatever its rate, so shares become equal.
//
// Where the server states how much remains, that is used instead, unless answers
// take too long for it or the stated policy is of few requests. A policy is kept to
// by a log of the starts, where that explains what is refused.
//
// Requests may differ in Cost: after one that costs twice the mean the next
// waits twice as long, and the server's numbers are counted in means.
//
// The zero Adaptive is ready.
type Adaptive struct {
	// Probe sets T, the time from one probe for more capacity to the next: T is
	// about Probe × (0.55/rate)^0.2, with the rate a second. A shorter one finds
	// new capacity sooner and is throttled more often. If zero, a minute. Where a policy is
	// stated and shared, T is of some 50 requests at least.
	Probe time.Duration
	// Blind ignores all hints but the Retry-After of a server.
	Blind bool
	// Weight is the number of ordinary clients that this one counts as: each
	// refusal cuts its rate by L/Weight. Where the server says what remains, its
	// rate settles at Weight times that of a client with Weight 1; without hints,
	// at less than that. If zero or below, 1; at least 0.01 and at most 100.
	Weight float64
	// Burst spends the rest of a fixed window, or of the quota that a server states
	// where it counts this client alone, as fast as the server allows. If false, it
	// is spread evenly over the time left. A window whose rest and end the server states
	// and that nobody else uses is spent as calls come, either way.
	Burst bool

	epoch  time.Time // all instants below are seconds since base
	began  bool
	flying int

	on       bool  // false until the first sign of a limit: unpaced
	first    first // flight: see Wait
	restored bool  // on because of what was learnt before
	estimate
	rtt float64 // mean seconds from start to answer

	costs    costs
	last     float64 // virtual time of the last start
	startAt  float64 // and when it was
	jitter   float64 // of the next interval
	undo     undo
	block    float64 // the server said: not before
	closed   bool    // and nothing has been answered since
	probed   float64 // when one was sent to see; zero: none is out
	next     time.Duration
	paced    time.Duration // next, but for the answer to the one that was sent to see
	nextRate float64       // when next was settled

	level level
	share share
	heard heard
	doubt doubt
}

// undo is what the last start changed, as it was before.
type undo struct {
	valid                               bool
	last, jitter, took, idle, r, probed float64
	grownAt, startAt                    float64
}

const (
	patience    = 5.0 // seconds for which the answer of a probe is waited for
	jitterShare = 0.1 // intervals vary by ± this
	fastest     = 1e9 // a second
)

var _ Controller = (*Adaptive)(nil)

// Wait returns the time until r may start. Until the first throttled answer
// nothing is paced, but the number in flight begins with one and grows with time
// and with each request served: of ten workers that wake together on an exhausted
// quota one is refused where answers take 0.3 s, and five where they take 0.9 s.
func (a *Adaptive) Wait(now time.Time, r Request) time.Duration {
	if !a.began {
		return 0
	}
	at, next, ahead := now.Sub(a.epoch), a.next, time.Duration(0)
	switch {
	case !a.on && !a.level.on:
		next = max(next, seconds(a.unpaced(at.Seconds())))
	case r.Place > 1 && a.nextRate > 0:
		ahead = seconds(a.level.beyond(at.Seconds(), float64(r.Place-1), a.interval()))
	}
	if r.Place == 0 {
		return next - at
	}
	// For an answer one waits at most until next, but mostly as long as answers take:
	// who has less time than until next is not to be turned away.
	wait := max(a.paced-at, 0) + ahead
	if wait == 0 && next > at {
		return Never
	}
	return wait
}

// unpaced returns the earliest start at s until the limit is known, unless an answer comes
// before.
func (a *Adaptive) unpaced(s float64) float64 {
	if a.flying > 0 && a.level.kept.spent(s, a.rtt) { // one goes ahead to see
		return min(a.last+patience, a.level.kept.free())
	}
	return max(a.first.next(a.flying, a.level.lead(a.rtt), a.level.policy, a.rtt), a.room(s))
}

// room returns the earliest start that leaves no more in flight than this client's part of
// what remains, until the limit is known. Beyond that a request waits for an answer, or for
// a moment, as in first.
func (a *Adaptive) room(s float64) float64 {
	if a.level.fits(s, a.rtt, a.flying) {
		return 0
	}
	return a.last + min(patience, 4*a.rtt)
}

// Start records that r starts now.
func (a *Adaptive) Start(now time.Time, r Request) {
	if !a.began {
		a.begin(now)
	}
	s := now.Sub(a.epoch).Seconds()
	if a.flying == 0 {
		a.first.began = s
	}
	a.flying++
	took := a.weigh(r.Cost)
	l := &a.level
	a.undo = undo{true, a.last, a.jitter, a.costs.took, a.idle, l.r, a.probed, l.grownAt, a.startAt}
	if a.closed && s >= a.block {
		a.probed = s
	}
	if a.on || a.level.on {
		even := 1 / a.rate(s)
		a.rested(s, r, even)
		interval := a.costs.took * a.jitter * even
		// A rest saves up requests, but time in which the server forbade to send is none.
		a.last = min(max(a.last+interval, s-a.saved()*interval, a.block), s)
	} else {
		a.last = s
	}
	a.jitter, a.costs.took = 1-jitterShare+2*jitterShare*r.Luck.Unit(0), took
	a.level.sent(took)
	a.level.kept.start(s, charged(r.Cost))
	a.settle(s)
}

// rested leaves out the time before a start at s in which no request waited: it does
// not count as time at the rate of then, even seconds from start to start.
func (a *Adaptive) rested(s float64, r Request, even float64) {
	l, since, next := &a.level, r.Since.Sub(a.epoch).Seconds(), a.next.Seconds()
	// What a rest saved up lets next lie before the last start.
	idle := max(since-max(next, a.startAt), 0)
	a.idle += idle
	l.grownAt += idle // an answer may have counted part of it meanwhile, hence ahead of s
	l.freeStart = since > next
	l.meanGap += (even - l.meanGap) / 16
	a.startAt = s
}

func (a *Adaptive) begin(now time.Time) {
	a.began, a.epoch, a.jitter, a.costs.took = true, now, 1, 1
	a.period = a.probe()
}

// saved is how many requests a rest saves up: one, or what the level has to spare.
func (a *Adaptive) saved() float64 {
	if a.level.on {
		return max(1, a.level.r-a.level.h)
	}
	return 1
}

// divides reports whether this client shares a stated policy with others that it knows of by
// refusals alone.
func (a *Adaptive) divides() bool {
	return a.on && !a.level.on && a.level.policy > 0 && !a.level.kept.holds
}

// giveBack undoes a start that never left; if another came after it, what it
// took at the present rate.
func (a *Adaptive) giveBack(cost int64) {
	switch u := a.undo; {
	case u.valid:
		a.last, a.jitter, a.costs.took, a.idle, a.probed = u.last, u.jitter, u.took, u.idle, u.probed
		a.level.r, a.level.grownAt, a.startAt = u.r, u.grownAt, u.startAt
	case a.nextRate > 0:
		a.last -= a.costs.over(cost) / a.nextRate
	}
	a.undo.valid = false
}

// Observe learns from o. It returns no rest: the rate paces retries like all
// others.
func (a *Adaptive) Observe(now time.Time, o Outcome) (rest time.Duration) {
	a.flying--
	s := now.Sub(a.epoch).Seconds()
	a.excuse(s, &o)
	if o.Sent.IsZero() {
		a.giveBack(o.Request.Cost)
		a.level.kept.forget(charged(o.Request.Cost))
		a.settle(s)
		return 0
	}
	a.bill(s, o)
	a.level.kept.ended(s, o)
	if took := now.Sub(o.Sent).Seconds(); o.Verdict != Ignored || o.TimedOut { // else it may have ended before it was sent
		if a.rtt == 0 {
			a.rtt = took
		}
		a.rtt += (took - a.rtt) / 8
	}
	a.learn(now, o)
	return 0
}

// learn learns from what was said, whatever it was said of.
func (a *Adaptive) learn(now time.Time, o Outcome) {
	s, sent := now.Sub(a.epoch).Seconds(), o.Sent.Sub(a.epoch).Seconds()
	a.undo.valid = false
	if sent >= a.rowAt && (o.Verdict == Ignored || o.Verdict == Failed) {
		a.failed++
	}
	a.heard.note(now, o)
	a.follow(s, o.Hints.Share)
	if a.closed && sent >= a.block { // an earlier probe will do, where answers take longer than patience
		a.closed, a.probed = o.Verdict != Served && o.Verdict != Throttled, 0
	}
	if !a.Blind {
		a.level.tell(a, s, o)
		if !o.Hints.Remaining.OK || o.Verdict == Failed || o.Verdict == Ignored {
			a.level.sole = false // it may be charged, and is not seen to be
		}
		o.After = a.level.after(o)
		a.level.kept.observe(s, sent, a.rtt, o.After.Seconds(), a.level.alone(), o)
	}
	if before := a.refused; a.Blind || !a.level.observe(a, s, sent, o) {
		a.observe(s, sent, o.Verdict)
		if a.refused > before && a.divides() {
			// Another has this turn. Those whose intervals are about even keep clear of each
			// other, once each has found a turn of its own.
			a.last += o.Request.Luck.Unit(5) / 2 * min(1/a.rate(s), mostHeld)
		}
	}
	if o.After > 0 {
		// Never earlier than asked, and not all at once.
		u, v := o.Request.Luck.Unit(1), o.Request.Luck.Unit(2)
		from, after := max(a.block, s), o.After.Seconds()
		// One goes ahead to see, unless that costs more time than it saves requests.
		if after > 4*a.rtt || after > a.rtt && (a.refused > 1 || a.level.row > 1) {
			a.closed, a.probed = true, 0
		}
		rate := max(a.base, a.level.theta, 0.01)
		a.statedOpening = s + after
		a.block = max(a.block, s+after+min(jitterShare*after, 2)*u+min(v/rate, max(after, 10)))
		// Time in which nothing may be sent is no time. In a row of refusals
		// nothing grows.
		if a.refused == 0 {
			a.idle += a.block - from
		}
		a.level.grownAt = max(a.level.grownAt, a.block)
	}
	a.settle(s)
}

func (a *Adaptive) probe() float64 {
	if a.Probe <= 0 {
		return usualProbe
	}
	return a.Probe.Seconds()
}

func (a *Adaptive) weight() float64 {
	if !(a.Weight > 0) {
		return 1
	}
	return min(max(a.Weight, 0.01), 100)
}

// rate is the rate a second at s.
func (a *Adaptive) rate(s float64) float64 {
	if a.level.on {
		return a.level.rate(s, a.flying)
	}
	if c := a.level.policy; c > 0 {
		switch {
		case !a.level.kept.holds || a.refused > 0:
			return min(a.felt(s), c)
		case a.Burst:
			return fastest
		}
		return c
	}
	return min(a.felt(s), fastest)
}

// interval is the mean distance of starts, for forecasts. What the level makes
// of the rate at this very moment says little of the next fifty.
func (a *Adaptive) interval() float64 {
	if a.level.on && !a.level.window {
		return a.level.meanGap
	}
	return 1 / a.nextRate
}

// settle fixes the instant of the next start, until the next event.
func (a *Adaptive) settle(s float64) {
	at := a.block
	a.nextRate = 0
	if a.on || a.level.on {
		a.nextRate = a.rate(s)
		at = max(at, a.level.within(s, a.last+a.gap()))
		if a.level.kept.holds { // but one is tried now and then, as a window may be stated as long as you like
			at = max(at, min(a.level.kept.free(), a.last+mostHeld))
		}
	}
	a.paced = seconds(at)
	if a.probed > 0 {
		at = max(at, a.probed+patience)
	}
	a.next = seconds(at)
}

// seconds is s as a Duration, saturating.
func seconds(s float64) time.Duration {
	if s > math.MaxInt64/2e9 {
		return math.MaxInt64 / 2
	}
	return time.Duration(math.Ceil(s * 1e9))
}
