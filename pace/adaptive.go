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
	stretch  float64 // how long T may be
	accepted float64 // sent and served since the last cut
	depth    float64 // c of the last cut, natural logarithm
	spring   float64 // what will spring back of it
	refused  int     // cuts since anything was served
	before   float64 // the rate at the first of them
	haste    float64 // G and L in use, over their usual values
	hasteEnd float64 // until when a cut makes it 2

	idle float64 // since the last cut, seconds in which nobody waited

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
	valid                                     bool
	last, jitter, took, idle, r, grew, probed float64
}

const (
	growthPerT  = 0.08  // G: growth in the first T after a cut
	steep       = 0.55  // of ψ beyond T
	gentle      = 0.1   // L: how deep an ordinary cut is
	deepest     = 0.5   // how deep a cut becomes
	springs     = 0.7   // the share of a deep cut that springs back
	firstRate   = 1.0   // a second, when the very first answer is a refusal
	fewest      = 10    // requests in a T, at least
	longest     = 600.0 // T at most, seconds
	slowest     = 1.0 / 120
	patience    = 5.0 // seconds for which the answer of a probe is waited for
	outage      = 7   // cuts in a row without anything served
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
	case a.gated() && r.Place > 0:
		return Never // unknown: an answer may come at any time
	case a.gated():
		return max(a.next, seconds(a.last+a.first.patience())) - at
	case r.Place > 1 && a.nextRate > 0:
		return max(a.next-at, 0) + seconds(float64(r.Place-1)*a.interval())
	}
	return a.next - at
}

// gated reports whether the first flight is still out.
func (a *Adaptive) gated() bool {
	return !a.on && !a.level.on && a.first.shut(a.flying, a.accepted)
}

// Start notes that r starts now.
func (a *Adaptive) Start(now time.Time, r Request) {
	if !a.began {
		a.begin(now)
	}
	s := now.Sub(a.base).Seconds()
	a.first.start(s, a.last, a.flying)
	a.flying++
	took := a.weigh(r.Cost)
	a.undo = undo{true, a.last, a.jitter, a.costs.took, a.idle, a.level.r, a.level.grownAt, a.probed}
	if a.closed && s >= a.block {
		a.probed = s
	}
	if a.on || a.level.on {
		// Time in which nobody waited does not count as time at this rate.
		if idle := r.Since.Sub(a.base).Seconds() - a.next.Seconds(); idle > 0 {
			a.idle += idle
			a.level.grownAt += idle
		}
		even := 1 / a.rate(s)
		interval := a.costs.took * a.jitter * even
		a.level.even += (even - a.level.even) / 16
		// At most one interval of credit: a rest does not save up a burst.
		a.last = min(max(a.last+interval, s-interval), s)
	} else {
		a.last = s
	}
	a.jitter, a.costs.took = 1-jitterShare+2*jitterShare*r.Luck.Unit(0), took
	a.level.sent(took)
	a.settle(s)
}

func (a *Adaptive) begin(now time.Time) {
	a.began, a.base, a.haste, a.jitter, a.costs.took = true, now, 1, 1, 1
	a.depth = a.gentle()
	a.period = a.probe()
}

// giveBack undoes a start that never left; if another came after it, what it
// took at the present rate.
func (a *Adaptive) giveBack(cost int64) {
	switch u := a.undo; {
	case u.valid:
		a.last, a.jitter, a.costs.took, a.idle, a.probed = u.last, u.jitter, u.took, u.idle, u.probed
		a.level.r, a.level.grownAt = u.r, u.grew
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
		a.first.quiet = min(a.first.quiet, a.flying)
		a.settle(s)
		return 0
	}
	a.bill(s, o)
	a.first.ended(s, o.Sent.Sub(a.base).Seconds(), o.Verdict == Served || o.Verdict == Throttled)
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
	if a.Blind || !a.level.observe(a, s, sent, o) {
		a.observe(s, sent, o.Verdict)
	}
	if o.After > 0 {
		// Never earlier than asked, and not all at once.
		u, v := o.Request.Luck.Unit(1), o.Request.Luck.Unit(2)
		a.closed, a.probed = true, 0
		a.block = max(a.block, s+o.After.Seconds()*(1+jitterShare*u)+v/max(a.floor, a.level.theta, 0.1))
	}
	a.settle(s)
}

// observe is the law without hints.
func (a *Adaptive) observe(s, sent float64, v Verdict) {
	switch v {
	case Served:
		if !a.on && s-a.cutAt > 10 {
			// Measure over the last 10 s only; what has landed stays landed.
			a.first.open = a.first.open || a.accepted > 0
			a.cutAt, a.accepted = s, 0
		}
		if a.refused >= outage {
			a.recover(s)
		}
		a.refused = 0
		if !a.on || sent >= a.cutAt {
			a.accepted++
		}
		a.first.open = a.first.open || a.accepted > 100
	case Throttled:
		if a.on {
			a.throttled(s, sent)
			return
		}
		a.on, a.first.open = true, true
		a.floor, a.depth, a.spring = max(a.measured(s), slowest), a.gentle(), 0
		a.cut(s)
	}
}

// measured is the rate to begin with: half of what was served.
func (a *Adaptive) measured(s float64) float64 {
	rate := firstRate * a.weight()
	switch {
	case a.accepted > 0:
		rate = 0.5 * a.accepted / max(s-a.cutAt, 0.05)
	case a.level.policy > 0:
		rate = min(a.level.policy, rate)
	}
	if part := a.share.agreed * a.weight(); part > 0 { // but not if it is absurd
		rate = min(max(part, rate/leap), rate*leap)
	}
	return rate
}

func (a *Adaptive) throttled(s, sent float64) {
	if sent < a.cutAt {
		return // it left before the last cut, which was for it too
	}
	elapsed, rate := a.elapsed(s), a.rate(s)
	if a.accepted < 3 {
		a.depth = min(deepest, 2*a.depth)
	} else {
		a.depth = a.gentle()
	}
	// What has sprung back is part of the rate by now; the rest still may.
	a.spring = min(1.4, a.spring*(1-a.sprung(s))+springs*max(a.depth-a.gentle(), 0))
	if elapsed > a.period && a.accepted*a.gentle() > 1 {
		// The steep part overshoots; what was really served since the last
		// cut, from empty to empty, is a measure of the limit.
		if rate > 2*a.floor {
			a.hasteEnd = s + 4*a.period
		}
		served := max(a.accepted/elapsed, a.floor)
		rate = math.Sqrt(served * max(served, rate))
	}
	if a.refused == 0 {
		a.before = rate
	}
	a.refused++
	a.floor = max(rate*math.Exp(-a.depth), slowest)
	if elapsed >= a.period {
		a.stretch = 2 * a.period
	}
	a.cut(s)
}

// recover begins anew after an outage, in which a row of cuts had nothing
// served between them: that was no limit to be learnt. Half of the rate of
// before comes back with what is served, unless a refusal says that it was a
// limit after all.
func (a *Adaptive) recover(s float64) {
	a.floor = a.rate(s)
	a.cut(s)
	a.stretch, a.period = 0, a.probe()
	a.spring = max(0, math.Log(a.before/2/a.floor))
	a.depth = a.gentle()
}

// cut begins a new round at floor. T is long enough for a few requests, but
// grows only when it has passed in full: a rate that fell by bad luck is not to
// be kept down by a long T.
func (a *Adaptive) cut(s float64) {
	a.cutAt, a.last, a.accepted, a.idle = s, s, 0, 0
	a.haste = 1
	if s < a.hasteEnd {
		a.haste = 2
	}
	a.period = min(longest, max(a.probe(), min(fewest/a.floor, a.stretch)))
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
func (a *Adaptive) gentle() float64 { return min(a.haste*gentle/a.weight(), deepest) }

// rate is the rate a second at s.
func (a *Adaptive) rate(s float64) float64 {
	if a.level.on {
		return a.level.rate(s)
	}
	u := a.elapsed(s) / a.period
	const bend = 1 + (4*math.Ln2-growthPerT)/(2*steep) // where ψ' = G + 2 steep (u-1) reaches 4 doublings
	psi := a.haste * growthPerT * u
	if u > 1 {
		v := min(u, bend)
		psi += steep * ((v-1)*(v-1) + 2*(u-v)*(bend-1))
	}
	psi += a.spring * a.sprung(s)
	return min(a.floor*math.Exp(min(psi, 50)), fastest)
}

// elapsed is the time since the last cut in which the rate was the limit.
func (a *Adaptive) elapsed(s float64) float64 { return max(s-a.cutAt-a.idle, 0) }

// sprung is the share of the spring that is back at s.
func (a *Adaptive) sprung(s float64) float64 {
	return min(1, max(a.accepted/10, 4*a.elapsed(s)/a.period))
}

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
