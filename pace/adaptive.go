package pace

import (
	"math"
	"time"
)

// Adaptive is an adaptive rate limit: it learns the limit of a server and stays just below it.
// It starts unpaced, so a server that does not throttle is not slowed down. A throttled answer
// cuts the rate at once, and from there the rate grows slowly, until the next one. Use one
// Adaptive for all callers of one limit in a process.
//
// Without hints it knows only served and throttled answers, and is throttled about once in a
// time T. The number served from one refusal to the next measures the limit, base. From there
//
//	rate(t) = base × exp(ψ(u)),  u = t/T
//	ψ(u)    = G u                    for u <= 1, slow growth
//	        = G u + 0.55 (u-1)²      beyond, with a slope of at most 4 doublings a T
//
// t counts only time in which requests waited for the rate: a rate that holds nothing back is
// not tested, and does not grow. In equilibrium rate × T × (share throttled) is about G/L for
// every client, so rates become equal. See docs/control.md for the law.
//
// Where the server states how many requests remain, the rate follows that instead, unless
// answers take too long or the stated policy is of few requests. A client that the server
// counts alone keeps to a stated policy by a log of its own starts. If a server has several limits and
// states in each answer the one that binds, each is paced, up to three.
//
// Requests may differ in Cost: after one that costs twice the mean the next waits twice as
// long, and one that costs more than is left waits until so much has come back. The server's
// numbers are divided by the mean cost.
//
// The zero Adaptive is ready.
type Adaptive struct {
	// Probe sets T, the time from one probe for more capacity to the next, which is about
	// Probe × (0.55/rate)^0.2 for a rate a second. A shorter one finds new capacity sooner
	// and is throttled more often. If zero, a minute. Where several clients share a stated
	// policy, T is of about 50 requests at least.
	Probe time.Duration
	// Blind ignores all hints of a server but its Retry-After.
	Blind bool
	// Weight is how many ordinary clients this one counts as: each refusal cuts its rate by
	// L/Weight. Where the server says what remains, its rate settles at Weight times that of
	// a client with Weight 1; without hints, below that. If zero or below, 1; values are kept
	// within 0.01 and 100.
	Weight float64
	// Burst spends what remains of a fixed window, or of the quota that a server states where
	// it counts this client alone, as fast as the server allows. If false, it is spread evenly
	// over the time left. Either way, a window whose rest and end the server states and that
	// nobody else uses is spent as calls come.
	Burst bool

	epoch  time.Time // all instants below are seconds since then
	began  bool
	flying int

	on       bool  // false until the first sign of a limit: unpaced; true where level.on is
	first    first // bounds the first flight
	restored bool  // on because of a Learnt
	estimate
	rtt float64 // mean round trip, seconds; zero: not known

	costs    costs
	stock    stock
	last     float64 // when the last start was due; intervals count from it
	startAt  float64 // when it started
	jitter   float64 // factor of the next interval
	undo     undo
	block    float64 // no start before it, by Retry-After and jitter
	closed   bool    // and nothing started since has been answered
	probed   float64 // when a request was sent to see; zero: none is in flight
	next     time.Duration
	paced    time.Duration // next, without the wait for the answer to that request
	nextRate float64       // requests a second when next was set; zero: unpaced

	turns   turns
	level   level
	share   share
	heard   heard
	doubt   doubt
	refill  refill
	brief   brief
	perCall perCall
}

// undo holds what the last start changed, as it was before.
type undo struct {
	valid                               bool
	last, jitter, took, idle, r, probed float64
	grownAt, startAt                    float64
}

const (
	patience    = 5.0 // seconds to wait for the answer to a request sent to see
	jitterShare = 0.1 // part of an interval by which it varies, up and down
	fastest     = 1e9 // requests a second
)

var _ Controller = (*Adaptive)(nil)

// wait does what Wait does, for one of the limits.
func (a *Adaptive) wait(now time.Time, r Request) time.Duration {
	at, next, ahead := time.Duration(0), a.next, time.Duration(0)
	if a.began {
		at = now.Sub(a.epoch)
	}
	switch {
	case !a.on:
		next = max(next, seconds(a.unpaced(at.Seconds(), max(r.Place-1, 0))))
	case r.Place > 1:
		k := float64(r.Place - 1)
		ahead = seconds(min(a.level.beyond(at.Seconds(), k, a.interval(), float64(a.heard.limit.V)/a.costs.unit()), a.level.atOnce(at.Seconds(), a.rtt, k, a.flying)))
	}
	enough := seconds(a.enough(r.Cost))
	if r.Place == 0 {
		return max(next, enough) - at
	}
	// The forecast leaves out the wait for the answer to a request sent to see. It usually
	// comes before next, and callers with less time than that must not be turned away.
	wait := max(max(a.paced-at, 0)+ahead, enough-at)
	if wait == 0 && next > at {
		return Never
	}
	return wait
}

// unpaced returns the earliest start, before the limit is known, of a request ahead of which
// others in line start now. An answer may let it start sooner.
func (a *Adaptive) unpaced(s float64, others int) float64 {
	first, last, flying := a.first, a.last, a.flying+others
	if others > 0 {
		last = s
		if a.flying == 0 {
			first.began, first.roundAt = s, s
		}
	}
	if flying > 0 && a.level.kept.spent(s, a.rtt) { // the quota is used up: one request at a time
		return min(last+patience, a.level.kept.free())
	}
	next := first.next(flying, a.level.lead(a.rtt), a.level.policy, a.rtt)
	if !a.level.fits(s, a.rtt, flying) { // one beyond waits for an answer, but not for long
		next = max(next, last+min(patience, 4*a.rtt))
	}
	return next
}

// start does what Start does, for one of the limits.
func (a *Adaptive) start(now time.Time, r Request) {
	if !a.began {
		a.begin(now)
	}
	s := now.Sub(a.epoch).Seconds()
	if a.flying == 0 && !a.on {
		a.first.began, a.first.roundAt = s, s
		a.first.idle += max(s-a.first.endedAt, 0)
	}
	a.flying++
	r.Since = a.unheld(&r)
	took, l := a.weigh(r.Cost), &a.level
	a.undo = undo{true, a.last, a.jitter, a.costs.took, a.idle, l.r, a.probed, l.grownAt, a.startAt}
	if a.closed && s >= a.block {
		a.probed = s
	}
	rate, rested := 0.0, false
	if a.on {
		rate = a.rate(s) // with the idle time, as services of few calls would wait longer
		rested = a.rested(s, &r, 1/rate)
		interval := a.costs.took * a.jitter / rate
		// Idle time saves up requests, but not while the server forbids to send.
		a.last = min(max(a.last+interval, s-a.saved()*interval, a.block), s)
	} else {
		a.last = s
	}
	a.jitter, a.costs.took = 1-jitterShare+2*jitterShare*r.Luck.Unit(0), took
	a.level.sent(took)
	a.level.kept.start(s, charged(r.Cost))
	a.stock.start(s, charged(r.Cost), a.rtt)
	if l.on || rested { // less remains than a moment ago, or idle time has raised nothing
		rate = a.rate(s)
	}
	a.schedule(s, rate)
}

// rested excludes the time before a start at s in which no request waited from the time in
// which the rate grows, and reports whether there was such time. even is the interval at the
// present rate, in seconds.
func (a *Adaptive) rested(s float64, r *Request, even float64) bool {
	l, since, next := &a.level, r.Since.Sub(a.epoch).Seconds(), a.next.Seconds()
	// After idle time, next may lie before the last start.
	idle := max(since-max(next, a.startAt), 0)
	a.idle += idle
	l.grownAt += idle // it may lie ahead of s, as an answer may have counted part of it meanwhile
	l.freeStart = since > next
	l.meanGap += (min(even, s-a.startAt) - l.meanGap) / 16
	a.startAt = s
	return idle > 0
}

func (a *Adaptive) begin(now time.Time) {
	a.began, a.epoch, a.jitter, a.costs.took = true, now, 1, 1
	a.period = a.probe()
}

// saved returns how many requests idle time saves up: one, or what r has above h.
func (a *Adaptive) saved() float64 {
	if a.level.on {
		return max(1, a.level.r-a.level.h)
	}
	return 1
}

// divides reports whether this client, which goes by refusals, shares a stated policy with others.
func (a *Adaptive) divides() bool {
	return a.level.binding() > 0 && !a.level.kept.holds
}

// giveBack undoes the start of a request that was never sent. If another has started since, it
// credits the cost at the present rate.
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

// ended does what Observe does, for one of the limits.
func (a *Adaptive) ended(now time.Time, o *Outcome) (rest time.Duration) {
	a.flying--
	s, sent := now.Sub(a.epoch).Seconds(), o.Sent.Sub(a.epoch).Seconds()
	a.first.endedAt = s
	a.take(sent, o)
	rest = a.setApart(sent, o)
	a.excuse(s, o)
	if o.Sent.IsZero() {
		a.giveBack(o.Request.Cost)
		a.level.kept.forget(charged(o.Request.Cost))
		a.settle(s)
		return 0
	}
	if sent >= a.first.roundAt {
		a.first.roundAt = s
	}
	a.bill(s, sent, o)
	a.level.kept.ended(s, o)
	if took := now.Sub(o.Sent).Seconds(); o.Verdict != Ignored || o.TimedOut { // else it may not have been sent
		if a.rtt == 0 {
			a.rtt = took
		}
		a.rtt += (took - a.rtt) / 8
	}
	a.learn(now, s, sent, o)
	return rest
}

// learn learns from the answer at s, which is now, to a request sent at the time sent, or from a
// report that belongs to none.
func (a *Adaptive) learn(now time.Time, s, sent float64, o *Outcome) {
	a.undo.valid = false
	if sent >= a.rowAt && (o.Verdict == Ignored || o.Verdict == Failed) {
		a.failed++
	}
	a.heard.note(now, o)
	a.follow(s, o.Hints.Share)
	if a.closed && sent >= a.block { // by any answer since, not only that to the request sent to see
		a.closed, a.probed = o.Verdict != Served && o.Verdict != Throttled, 0
	}
	if !a.Blind {
		a.infer(s, o)
		a.level.tell(a, s, o)
		if !o.Hints.Remaining.OK || o.Verdict == Failed || o.Verdict == Ignored {
			a.level.sole = false // it may be charged, unseen
		}
		o.After = a.level.after(o)
		a.level.kept.observe(s, sent, a.rtt, o.After.Seconds(), a.level.alone(), o)
	}
	if before := a.refused; a.Blind || !a.level.observe(a, s, sent, o) {
		a.observe(s, sent, o.Verdict)
		if a.refused > before && a.divides() {
			// Another client has this turn, so move a little. Once each has found a turn of
			// its own, clients with about equal intervals stay clear of each other.
			a.last += o.Request.Luck.Unit(5) / 2 * min(1/a.rate(s), mostHeld)
		}
	}
	if o.After > 0 {
		// Nothing starts before it is over; jitter spreads the return, against a thundering herd.
		u, v := o.Request.Luck.Unit(1), o.Request.Luck.Unit(2)
		from, after := max(a.block, s), o.After.Seconds()
		// The first goes alone, unless waiting for its answer costs more than it saves.
		if after > 4*a.rtt || after > a.rtt && a.refused > 1 {
			a.closed, a.probed = true, 0
		}
		rate := max(a.base, a.level.theta, 0.01)
		a.statedOpening = s + after
		a.block = max(a.block, s+after+min(jitterShare*after, 2)*u+min(v/rate, max(after, 10)))
		// The rate does not grow while the server forbids to send, nor in a row of refusals.
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

// rate returns the rate at s, in requests a second.
func (a *Adaptive) rate(s float64) float64 {
	if a.level.on {
		return a.level.rate(s, a.flying)
	}
	if c := a.level.binding(); c > 0 {
		switch {
		case !a.level.kept.holds || a.refused > 0:
			return min(max(a.rateByRefusals(s), a.partLeft(s)), c)
		case a.Burst:
			return fastest
		}
		return c
	}
	return min(a.rateByRefusals(s), fastest)
}

// interval returns the mean seconds between starts, for forecasts. By the level, the rate of
// this moment says little of the next fifty starts.
func (a *Adaptive) interval() float64 {
	l, rate := &a.level, a.nextRate
	switch {
	case l.on && !l.window && l.policy > 0: // it comes back to its part of that
		return min(l.meanGap, max(1, l.peers)/l.policy)
	case l.on && !l.window:
		return l.meanGap
	case !l.on: // a row ends, and the rate is back at base soon
		rate = max(rate, a.base)
		// At first base is a guess, between nothing and a rate that is stated.
		if c := l.binding(); c > rate && a.evidence < span {
			rate = math.Sqrt(rate * c)
		}
	}
	return 1 / rate
}

// atOnce returns the seconds in which a client alone would start k requests of what remains, if an
// answer just said that as many remain: so soon they may start, whatever the rate is now. Else it
// is endless.
func (l *level) atOnce(s, rtt, k float64, flying int) float64 {
	if left := l.shown - float64(flying); l.r > 0 && l.seenAt > 0 && s-l.seenAt <= max(rush, 4*rtt) && k <= left {
		return rush * k / left
	}
	return math.Inf(1)
}

// settle sets the rate at s, and the instant of the next start.
func (a *Adaptive) settle(s float64) {
	rate := 0.0
	if a.on {
		rate = a.rate(s)
	}
	a.schedule(s, rate)
}

// schedule sets the instant of the next start at that rate, which holds until the next event.
func (a *Adaptive) schedule(s, rate float64) {
	at := a.block
	a.nextRate = rate
	if a.nextRate > 0 && !a.exact() {
		at = max(at, a.level.within(s, a.last+a.gap(), a.startAt, a.flying))
		if a.level.kept.holds { // but one try every two hours, however long the stated window
			at = max(at, min(a.level.kept.free(), a.last+mostHeld))
		}
	}
	a.paced = seconds(at)
	if a.probed > 0 {
		at = max(at, a.probed+patience)
	}
	a.next = seconds(at)
}

// seconds returns s seconds as a Duration, saturating.
func seconds(s float64) time.Duration {
	if s > math.MaxInt64/2e9 {
		return math.MaxInt64 / 2
	}
	return time.Duration(math.Ceil(s * 1e9))
}
