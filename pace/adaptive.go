package pace

import (
	"math"
	"time"
)

// Adaptive learns the limit of a server and keeps just below it: an adaptive
// rate and an exponential backoff that decays, in one. It starts unpaced, so a
// server that does not throttle is not slowed down; a throttled answer cuts
// the rate at once; from there it feels its way up. One Adaptive is meant for
// all callers of one limit in a process.
//
// Without hints it knows only throttled or not, and pays for its knowledge
// with about one throttled answer a Probe:
//
//	rate(t) = base × exp(ψ(u) + spring × min(1, max(accepted/10, 4u))),  u = (t - cut)/T
//	ψ(u)    = G u                    for u <= 1, a slow feel upward
//	        = G u + 0.55 (u-1)²      beyond, its slope bounded by 4 doublings a T
//	cut     : base = rate × exp(-c),  c = L, doubling while fewer than 3 were
//	          accepted between two cuts (the exponential backoff); most of what
//	          c exceeds L springs back over 10 accepted requests, or T/4
//
// u counts only the time in which requests had to wait for the rate: a rate
// that does not bind does not grow. Throttled answers to requests sent before
// the last cut belong to that cut. After a rate that had more than doubled was
// cut, G and L are doubled for 4T: whoever found new capacity first has more of
// it than the others, and what is unequal fades with T/L. In equilibrium rate × T × (share throttled)
// is G/L for every client, whatever its rate, so shares become equal.
//
// Where the server tells how much remains, that is used instead: see level.
//
// Requests may differ in Cost: after one that costs twice the mean the next has
// to wait twice as long, and what the server tells is counted in means.
//
// A zero Adaptive is ready.
type Adaptive struct {
	// Probe is T: about how often it tries whether there is more to be had.
	// Shorter finds new capacity sooner and is throttled more often. If zero,
	// a minute.
	Probe time.Duration
	// Blind ignores all hints but the wait that a server asks for.
	Blind bool
	// Weight is how many ordinary clients this one is worth: it comes to so
	// many times the rate of one whose Weight is 1, without knowing of it, by
	// deeper or gentler cuts, L/Weight. If zero or below, 1; at least 0.01 and
	// at most 100.
	Weight float64
	// Burst spends what is left of a fixed window as fast as the server
	// allows. If false, evenly over the time left.
	Burst bool

	base   time.Time // all instants below are seconds since base
	began  bool
	flying int

	on       bool    // false until the first sign of a limit: unpaced
	first    first   // flight: see Wait
	restored bool    // on because of what was learnt before
	floor    float64 // rate right after the last cut, a second
	cutAt    float64
	period   float64 // T in use, seconds
	accepted float64 // sent and served since the last cut
	trust    float64 // in requests, what the rate so far is worth
	liveAt   float64 // when the row of refusals ended
	roundAt  float64
	rowRate float64
	dead, deadBefore float64 // how long the last two rows were
	refused  int     // cuts since anything was served
	born     float64 // when it began to learn
	rtt      float64 // mean seconds from start to answer
	proof    float64 // rate served in the last ten seconds in full, before the first refusal
	idle     float64 // since the last cut, seconds in which nobody waited

	costs    costs
	last     float64 // virtual time of the last start
	jitter   float64 // of the next interval
	undo     undo
	block    float64 // the server said: not before
	closed   bool    // and nothing has been answered since
	probed   float64 // when one was sent to see; zero: none is out
	next     time.Duration
	nextRate float64 // when next was settled

	level level
	share share
	heard heard
}

// undo is what the last start changed, as it was before.
type undo struct {
	valid                               bool
	last, jitter, took, idle, r, probed float64
}

const (
	deepest     = 0.5    // how deep a cut becomes
	firstRate   = 1.0    // a second, when the very first answer is a refusal
	longest     = 3600.0 // T at most, seconds
	usual       = 0.55   // the rate a second at which T is Probe
	slowest     = 1.0 / 120
	patience    = 5.0 // seconds for which the answer of a probe is waited for
	jitterShare = 0.1 // intervals vary by ± this
	fastest     = 1e9 // a second
)

var _ Controller = (*Adaptive)(nil)

// Wait is how long until r may start. Until the first throttled answer nothing
// is paced, but no more are in flight than half of what has been served, plus
// one: ten workers that wake together on an exhausted quota cost one refusal,
// not ten. One that has no answer after a second, or after twice the time of the
// slowest so far (ten seconds at most), counts as served.
func (a *Adaptive) Wait(now time.Time, r Request) time.Duration {
	if !a.began {
		return 0
	}
	at := now.Sub(a.base)
	switch {
	case !a.on && !a.level.on && !a.first.open:
		return max(a.next, seconds(a.first.next(a.flying, a.accepted))) - at
	case r.Place > 1 && a.nextRate > 0:
		return max(a.next-at, 0) + seconds(float64(r.Place-1)*a.interval())
	}
	return a.next - at
}

// Start notes that r starts now.
func (a *Adaptive) Start(now time.Time, r Request) {
	if !a.began {
		a.begin(now)
	}
	s := now.Sub(a.base).Seconds()
	if a.flying == 0 {
		a.first.began = s
	}
	a.flying++
	took := a.weigh(r.Cost)
	a.undo = undo{true, a.last, a.jitter, a.costs.took, a.idle, a.level.r, a.probed}
	if a.closed && s >= a.block {
		a.probed = s
	}
	if a.on || a.level.on {
		// Time in which nobody waited does not count as time at this rate.
		idle := max(r.Since.Sub(a.base).Seconds()-a.next.Seconds(), 0)
		a.idle += idle
		a.level.grownAt += idle
		a.level.free = idle > 0
		even := 1 / a.rate(s)
		interval := a.costs.took * a.jitter * even
		a.level.even += (even - a.level.even) / 16
		a.last = min(max(a.last+interval, s-a.saved()*interval), s)
	} else {
		a.last = s
	}
	a.jitter, a.costs.took = 1-jitterShare+2*jitterShare*r.Luck.Unit(0), took
	a.level.sent(took)
	a.settle(s)
}

func (a *Adaptive) begin(now time.Time) {
	a.began, a.base, a.jitter, a.costs.took = true, now, 1, 1
	a.trust = 1
	a.period = a.probe()
}

// saved is how many requests a rest saves up: one, or what the level has to spare.
func (a *Adaptive) saved() float64 {
	if a.level.on {
		return max(1, a.level.r-a.level.h)
	}
	return 1
}

// giveBack undoes a start that never left; if another came after it, what it
// took at the present rate.
func (a *Adaptive) giveBack(cost int64) {
	switch u := a.undo; {
	case u.valid:
		a.last, a.jitter, a.costs.took, a.idle, a.probed = u.last, u.jitter, u.took, u.idle, u.probed
		a.level.r = u.r
	case a.nextRate > 0:
		a.last -= a.costs.over(cost) / a.nextRate
	}
	a.undo.valid = false
}

// Observe learns. Rests are none: the rate paces retries like all others.
func (a *Adaptive) Observe(now time.Time, o Outcome) (rest time.Duration) {
	a.flying--
	s := now.Sub(a.base).Seconds()
	if o.Sent.IsZero() {
		a.giveBack(o.Request.Cost)
		a.settle(s)
		return 0
	}
	a.bill(s, o)
	took := now.Sub(o.Sent).Seconds()
	if a.rtt == 0 {
		a.rtt = took
	}
	a.rtt += (took - a.rtt) / 8
	a.learn(now, o)
	return 0
}

// learn learns from what was said, whatever it was said of.
func (a *Adaptive) learn(now time.Time, o Outcome) {
	s, sent := now.Sub(a.base).Seconds(), o.Sent.Sub(a.base).Seconds()
	a.undo.valid = false
	a.heard.note(now, o)
	a.heed(s, o.Hints.Share)
	if a.closed && a.probed > 0 && sent >= a.probed {
		a.closed, a.probed = o.Verdict != Served && o.Verdict != Throttled, 0
	}
	if h := o.Hints; !a.Blind && h.Limit.OK && h.Window.OK && h.Limit.V > 0 && h.Window.V > 0 {
		a.level.tell(h, a.costs.unit())
	}
	if a.Blind || !a.level.observe(a, s, sent, o) {
		a.observe(s, sent, o.Verdict)
	}
	if o.After > 0 {
		// Never earlier than asked, and not all at once.
		u, v := o.Request.Luck.Unit(1), o.Request.Luck.Unit(2)
		a.closed, a.probed = true, 0
		from, after := max(a.block, s), o.After.Seconds()
		rate := max(a.floor, a.level.theta, 0.01)
		a.block = max(a.block, s+after+min(jitterShare*after, 2)*u+min(v/rate, max(after, 10)))
		// Time in which nothing may be sent is no time.
		a.idle += a.block - from
		a.level.grownAt = max(a.level.grownAt, a.block)
	}
	a.settle(s)
}

// observe is the law without hints.
func (a *Adaptive) observe(s, sent float64, v Verdict) {
	switch {
	case v == Served && !a.on:
		if s-a.cutAt > 1 && (a.accepted >= fewest || s-a.cutAt > 10) {
			// Measure over the last 10 s only; what has landed stays landed.
			a.proof = a.accepted / (s - a.cutAt)
			a.first.open = a.first.open || a.accepted > 0
			a.cutAt, a.accepted = s, 0
		}
		a.accepted++
		a.first.open = a.first.open || a.accepted > 100
	case v == Served && sent >= a.cutAt:
		if a.refused > 0 {
			a.resume(sent)
		}
		a.accepted++
	case v == Throttled && !a.on:
		a.on, a.first.open = true, true
		a.floor, a.trust, a.born = max(a.measured(s, sent), slowest), minTrust, s
		a.refused = 1
		a.cut(s)
		a.dead, a.deadBefore = 0, 0
	case v == Throttled && sent >= a.roundAt:
		a.throttled(s, sent)
	}
}

// resume ends a row of refusals: the first request that was served after it left
// at sent.
func (a *Adaptive) resume(sent float64) {
	a.rowRate = 0
	if a.refused > 1 {
		a.rowRate = a.rate(sent)
	}
	a.deadBefore, a.dead = a.dead, max(sent-a.cutAt-a.idle, 0)
	a.refused, a.liveAt, a.idle = 0, sent, 0
	a.last = min(a.last, sent)
}

// measured is the rate to begin with: half of what was served.
func (a *Adaptive) measured(s, sent float64) float64 {
	rate := min(firstMost, max(1/max(a.rtt,1e-6), firstRate)) * a.weight()
	if a.accepted > 0 {
		if a.cutAt == 0 {
			s = sent // the first answers took a round trip
		}
		rate = max(a.proof, half*a.accepted/max(s-a.cutAt, a.rtt/2, 0.05))
	}
	if c := a.level.policy; c > 0 {
		rate = min(max(rate, c/4), c)
	}
	if part := a.share.agreed * a.weight(); part > 0 { // but not if it is absurd
		rate = min(max(part, rate/leap), rate*leap)
	}
	return rate
}

// throttled cuts. The first refusal of a row says that the limit was reached:
// what was served since the first refusal of the row before, from empty to
// empty, is a measure of the limit, and the rate so far is worth trust requests.
// The others of the row only say that it still is.
func (a *Adaptive) throttled(s, sent float64) {
	rate := a.rate(s)
	if a.refused++; a.refused > 1 {
		a.roundAt, a.last = s, s
		a.floor = max(a.floor*math.Exp(-lRow), 1.0/3600)
		dbg("%.2f   again %d rate %.4g\n", s, a.refused, a.rate(s))
		a.trust = max(minTrust, a.trust/2)
		return
	}
	live := max(sent-a.liveAt-a.idle, 0)
	t := live + min(a.dead, max(2*a.deadBefore, 2/rate, deadLive*live))
	served := (a.accepted + a.trust) / (t + a.trust/rate)
	if accum == 1 {
		if a.accepted < 3 {
			a.trust = max(minTrust, a.trust/2)
		} else {
			a.trust = min(mostTrust, a.trust+a.accepted)
		}
	} else {
		a.trust = min(mostTrust, max(minTrust, (a.trust+a.accepted)/2))
	}
	a.floor = max(min(served, rate)*math.Exp(-a.gentle()), 1.0/3600)
	dbg("%.2f cut: rate %.4g n %.0f live %.3g t %.3g dead %.3g,%.3g -> floor %.4g trust %.2g\n", s, rate, a.accepted, live, t, a.dead, a.deadBefore, a.floor, a.trust)
	a.cut(s)
}

// slowest is how far down a row of refusals leads.
func (a *Adaptive) slowest() float64 { return min(1/a.probe(), a.floor/8) }

// cut begins a new row at floor. T is Probe at the usual rate, and shorter for
// who is faster, though less so than in proportion: then x p T = G/L still has
// one x for each p, and all come to the same. It is at most twice the age, which
// is about the same for all that start together.
func (a *Adaptive) cut(s float64) {
	a.cutAt, a.roundAt, a.liveAt, a.last, a.accepted, a.idle = s, s, s, s, 0, 0
	e := bends
	if a.floor < usual*a.weight() {
		e = bendsLow
	}
	t := min(youth*(s-a.born), a.probe()*math.Pow(usual*a.weight()/a.floor, e))
	a.period = min(longest, max(t, youngest, tfew*min(a.trust, 10)/a.floor, 4*a.rtt))
}

func (a *Adaptive) probe() float64 {
	if a.Probe <= 0 {
		return 60
	}
	return a.Probe.Seconds()
}

func (a *Adaptive) weight() float64 {
	if !(a.Weight > 0) {
		return 1
	}
	return min(max(a.Weight, 0.01), 100)
}

// gentle is how deep an ordinary cut is: L for a Weight of 1. With w times the
// requests there are w times the throttled answers, so each cuts by L/w and
// rates per weight behave like those of ordinary clients.
func (a *Adaptive) gentle() float64 { return min(gentle/a.weight(), deepest) }

// rate is the rate a second at s.
func (a *Adaptive) rate(s float64) float64 {
	if a.level.on {
		return a.level.rate(s)
	}
	if a.refused > 0 {
		return max(a.floor*math.Pow(inRow, float64(a.refused-1)), a.slowest())
	}
	most := a.most()
	if a.rowRate > 0 {
		most = min(most, a.rowRate*math.Pow(catch, a.accepted))
	}
	u := a.elapsed(s) / a.period
	bend := 1 + (4*math.Ln2-growthPerT)/(2*steep) // where ψ' = G + 2 steep (u-1) reaches 4 doublings
	psi := growthPerT * u
	if u > 1 {
		v := min(u, bend)
		psi += steep * ((v-1)*(v-1) + 2*(u-v)*(bend-1))
	}
	return min(a.floor*math.Exp(min(psi, 50)), most)
}

// most is the fastest that makes sense.
func (a *Adaptive) most() float64 {
	if c := a.level.policy; c > 0 && !a.Blind {
		return c
	}
	return fastest
}

// elapsed is the time since the row of refusals in which the rate was the limit.
func (a *Adaptive) elapsed(s float64) float64 { return max(s-a.liveAt-a.idle, 0) }

// interval is the mean distance of starts, for forecasts. What the level makes
// of the rate at this very moment says little of the next fifty.
func (a *Adaptive) interval() float64 {
	if a.level.on && !a.level.window {
		return a.level.even
	}
	return 1 / a.nextRate
}

// settle fixes the instant of the next start, until the next event.
func (a *Adaptive) settle(s float64) {
	at := a.block
	if a.probed > 0 {
		at = max(at, a.probed+patience)
	}
	a.nextRate = 0
	if a.on || a.level.on {
		a.nextRate = a.rate(s)
		at = max(at, a.level.within(s, a.last+a.costs.took*a.jitter/a.nextRate))
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
