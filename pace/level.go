package pace

import "math"

// level is the law of an Adaptive whose server tells how much remains. The level
// r of the bucket looks the same to all clients that share it, so all can act on
// it alike: they slow down together before any of them is refused, and a
// newcomer is equal at once.
//
//	rate = theta × f(r),  f(r) = exp((r-h)/h), at least 1/2: no client is paced at a full bucket,
//	                      and at most 1 while it has r in flight; above theta no more than r
//	                      in the longest Retry-After, as a log gives nothing back for so long,
//	                      where no reset was stated with that, nor a share
//	each answer below h:  theta × exp(-kappa/weight (1 - r/h) / max(1, F/4))
//	each one at the top:  theta × exp(0.2 / max(1, F/4)), while requests wait for the rate, and at
//	                      most by a factor of e a second: more answers are no reason to grow faster; where the
//	                      top, seen or stated, is 3 or less and was seen three times in a row, twice that and unbounded
//	all the time:         theta grows by g a second, in time and not by answers, hence fairly;
//	                      not in a fixed window
//
// F is what was in flight when the first answer of the round came.
//
// h is a multiple of how far r swings, not of the limit: 3 for a quiet bucket, more
// where many requests are in flight, less where the bucket is known to hold no more
// than 4, and at most an eighth of a stated policy or 2, whichever is more; the policy
// also bounds theta while r < h. A fixed window is known by its reset, the same instant
// in answer after answer; there the rate is what is left over the time left.
//
// What remains is not acted on where it is too late or says too little: see misled;
// nor after a refusal by another limit: see elsewhere. The rows of refusals of estimate bound theta.
type level struct {
	on          bool
	anyServed   bool    // something was served since
	freeStart   bool    // the last start had not waited for the rate
	weight      float64 // of the Adaptive
	burst       bool    // of the Adaptive
	theta       float64 // the rate at r = h, a second
	grownAt     float64
	meanGap     float64 // mean seconds from start to start
	cutAt       float64
	depth       float64 // of the last cut, natural logarithm
	served      float64 // since the last cut
	row         int     // refusals since anything was served
	thetaBefore float64 // theta at the first of them

	r, low, swing float64 // last seen, its trough, its swing
	seenAt        float64 // an answer
	answerGap     float64 // seconds from the one before to it
	toldAt        float64 // an answer with a hint
	h             float64

	buckets
	windows
	leaps leaps
	divided
	longestRefusal float64 // the longest that refusals went on, or said that they would, seconds
	anyRefused     bool    // something was refused
	policy         float64 // limit over window as the server states it, a second
	quota          float64 // the limit as stated
	length         float64 // the window as stated
	roundFlight    float64 // what was in flight when the first of it was answered
	roundAt        float64 // when that was
	company        company
	kept           kept
}

const (
	smallest          = 3.0   // h at least
	widest            = 128.0 // h at most,
	widestPart        = 300.0 // and where a share is stated
	swingMemory       = 60.0  // seconds over which a swing is forgotten
	firstSwing        = 6.0
	rushTrips         = 100.0  // round trips for which a swing of before it paced is remembered, when more was in flight
	longestLook       = 3660.0 // seconds: no window is waited out for longer at a time
	hintsKept         = 3600.0 // seconds, or the window up to a day: hints are forgotten where answers lack them for so long
	away              = 7      // refusals in a row, after which the server is taken to be away
	mostGrowth        = 0.07   // g at most, a second
	kappa             = 0.4
	fullRise          = 0.2  // growth with an answer that sees the bucket full,
	mostFullRise      = 1.0  // and at most so much a second
	smallRise         = 0.4  // growth with an answer that sees a low level stand still
	quotaPerH         = 8    // h is at most this part of a stated policy,
	leastQuotaH       = 2.0  // or so much
	shortWindow       = 10.0 // seconds
	fewRequests       = 12.0 // requests in a stated policy, of which what remains says too little
	answersPer        = 20.0 // times in a window answers must be able to come, that what remains is acted on,
	answersPerOn      = 15.0 // and, once it is;
	answersPerKnown   = 10.0 // where it is known what the limit is,
	answersPerKnownOn = 4.0  // and, once it is acted on
	briefest          = 3.0  // seconds: shorter windows are not known by resets in whole seconds
)

// rate is the rate a second at s, with flying requests in flight.
func (l *level) rate(s float64, flying int) float64 {
	if l.window {
		if left := l.resetAt - s; left > 0 {
			if l.burst || l.alone() {
				left = min(left, rush)
			}
			if l.known() { // clients that do not know the end yet find something left
				left *= 1 + max(l.peers-1, 0)/2
			}
			return max(l.r, 0.01) / left
		}
		return 1 / max(l.rtt, 0.2) // until the new window has shown itself
	}
	f := 0.5
	if r := l.r; r > l.h*(1-math.Ln2) { // below it f is at its least
		if float64(flying) >= r { // what remains is on its way: no rush
			r = min(r, l.h)
		}
		f = math.Exp(min(30, (r-l.h)/l.h))
	}
	if long := l.ends.longestAfter; f > 1 && long > 0 {
		return min(l.theta*f, max(l.theta, l.r/long), fastest)
	}
	return min(l.theta*f, fastest)
}

// tell learns the policy, and forgets it and the level where the server has stated
// neither for long.
func (l *level) tell(a *Adaptive, s float64, o Outcome) {
	h, unit := o.Hints, a.costs.unit()
	policy := h.Limit.OK && h.Window.OK && h.Limit.V > 0 && h.Window.V > 0
	l.turns(o, unit)
	switch {
	case policy || h.Remaining.OK:
		l.toldAt = s
	case o.Verdict == Served && l.toldAt > 0 && s-l.toldAt > min(max(l.length, hintsKept), 86400):
		if l.on {
			l.company = company{best: l.company.best}
			a.leaveLevel(s)
		}
		*l, a.period = level{theta: l.theta}, min(a.period, longestT)
	}
	if !policy {
		return
	}
	l.quota, l.length = float64(h.Limit.V)/unit, h.Window.V.Seconds()
	if l.full = l.quota - 1; h.Burst.OK && h.Burst.V > 0 {
		l.full = float64(h.Burst.V-1) / unit
	}
	was := l.policy
	if l.policy = max(l.quota/l.length, 1.0/86400); a.on && !l.on && was > 0 && l.policy != was {
		a.scale(s, l.policy/was)
	}
	l.kept.follow(float64(h.Limit.V), l.length, a.rtt)
}

// observe learns from an answer; false leaves it to the law without hints.
func (l *level) observe(a *Adaptive, s, sent float64, o Outcome) bool {
	h := o.Hints
	if !h.Remaining.OK && !l.on {
		return false
	}
	if o.Verdict == Ignored || o.Verdict == Failed {
		return true
	}
	if l.elsewhere(a, o) {
		l.anyRefused = true
		if l.on {
			a.leaveLevel(s)
		}
		return false
	}
	l.look(a, s, sent, o)
	l.longestRefusal = max(l.longestRefusal, a.lastRow)
	if o.Verdict == Throttled {
		l.longestRefusal = max(l.longestRefusal, o.After.Seconds())
	}
	if l.window {
		l.apportion(a.flying, o)
	}
	l.company.observe(a, s, o.Verdict)
	kept := l.kept.agrees && (!l.window || l.leaps.seen())
	if kept || a.misled() {
		switch {
		case l.on:
			a.leaveLevel(s)
		case !a.on && (kept || l.scant()) && l.r < 1 && o.Verdict == Served:
			a.begins(s, l.policy*(1-jitterShare)) // nothing is left: no refusal is needed to say so
		}
		return false
	}
	if !l.on {
		if a.on && (a.refused > 1 || a.refused > 0 && o.Verdict == Throttled) {
			return false // the server is away, or as good as that
		}
		if a.on && a.lastRow > sustained && s-a.resumedAt < rowTimes*a.lastRow && l.length == 0 && l.resetAt == 0 && !l.alone() {
			return false // what remains does not tell when it comes back, as in a window
		}
		if o.Verdict == Throttled || l.r < 3*l.h || a.restored {
			l.turnOn(a, s, sent, o)
			return true
		}
		return false
	}
	l.learn(a, s, sent, o)
	return true
}

// look takes in what an answer shows.
func (l *level) look(a *Adaptive, s, sent float64, o Outcome) {
	dt, seen, unit := max(s-l.seenAt, 0), l.seenAt, a.costs.unit()
	l.seenAt, l.answerGap = s, dt
	remaining := o.Hints.Remaining
	// Neither is a fixed window that gives back before it ends, nor one that ends
	// later than it is long, as two counters do.
	rose := remaining.OK && sent >= seen && s < l.resetAt-slack && float64(remaining.V)/unit > l.shown+0.5
	if remaining.OK && o.Verdict != Throttled {
		l.divide(float64(max(remaining.V, 0))/unit, charged(max(o.Cost, o.Request.Cost))/unit, a.flying+1, sent >= seen && a.flying == 0)
	}
	l.reset(a.rtt, s, sent, rose, o)
	switch {
	case o.Verdict == Throttled:
		l.r, l.anyRefused = 0, true
	case remaining.OK:
		r := l.shown
		if l.swing == 0 { // the first seen
			l.low, l.swing = r, firstSwing
		}
		if l.row > 0 && l.alone() { // what came back while nobody sent is no swing
			l.low = r
		}
		l.top(r, l.on)
		l.r = r
		fade := swingMemory / (swingMemory + dt)
		l.low = min(r, l.low+(r-l.low)*(1-fade))
		l.swing = max(l.swing*fade, r-l.low)
	}
	most := float64(o.Hints.Burst.V-1) / unit // it is full when so many remain after one
	if o.Hints.Burst.OK && most >= 0 && most < smallest {
		l.most, l.tiny = max(l.most, most), true
	}
	most = widest
	if a.share.agreed > 0 { // theta is drawn to it, and does not fall while a wide swing lasts
		most, l.ends.longestAfter = widestPart, 0 // and no log, which gives nothing back for long, states one
	}
	l.h = min(max(0.7*l.swing, smallest), most)
	if l.quota > 0 {
		l.h = min(l.h, max(l.deep()/quotaPerH, leastQuotaH))
	}
	if l.tiny {
		l.h = min(l.h, max(l.most/1.5, 0.5))
	}
	l.returnDelay = 0.02 * (1 + o.Request.Luck.Unit(3))
}

// turnOn begins to pace.
func (l *level) turnOn(a *Adaptive, s, sent float64, o Outcome) {
	served := a.accepted
	if o.Verdict == Served {
		a.accepted++
		served = a.accepted + float64(a.flying)/2 // half of what is on the way, which nothing refused yet
	}
	switch {
	case a.refused > 0:
		l.theta = a.base
	case a.on:
		l.theta = a.rate(s)
	default: // rows of refusals measure the rate as without hints
		l.theta = a.measured(s, sent, served)
		a.begins(s, l.theta)
	}
	a.refused, l.row = 0, 0
	l.anyServed = o.Verdict == Served
	l.on, a.restored = true, false
	l.theta = max(l.theta, l.floor())
	l.weight, l.burst = a.weight(), a.Burst
	l.swing = max(l.swing*min(1, rushTrips*a.rtt/swingMemory), min(l.swing, firstSwing))
	l.grownAt, l.cutAt, l.served, l.depth = s, s, 0, a.cutDepth()
	a.last = s
	l.meanGap = 1 / l.rate(s, a.flying)
}

// awayFrom leaves a row of refusals to the law without hints, which comes back to
// the rate of before when anything is served again.
func (a *Adaptive) awayFrom(s float64) {
	l := &a.level
	l.on, a.on = false, true
	a.base, a.trust = max(l.thetaBefore, l.company.best, slowest), leastTrust
	a.cut(s)
	a.refused = l.row // how long rows are, it knows already
}

// floor is the lowest theta: a hundredth of a stated policy, at least one request
// in two hours and at most one in two minutes; slowest without one.
func (l *level) floor() float64 {
	if l.policy > 0 {
		return min(1.0/120, max(l.policy/100, 1/mostHeld))
	}
	return slowest
}

// grows is g in use. Marks take kappa × m × x a second from a rate x, so growth
// is balanced by marks of m = g/(kappa x), which must stay below 1 at low rates
// too, and yet fall with the rate: were they the same for all, shares would drift.
func (l *level) grows() float64 {
	x := l.theta / l.weight
	return min(mostGrowth, kappa*math.Sqrt(usualRate*x)/4, 0.1*x*math.Pow(x/usualRate, -0.15))
}

// grow grows theta by the time since it last did. The time in a fixed window,
// where theta does not pace, is none.
func (l *level) grow(s float64) {
	dt := s - l.grownAt
	if dt <= 0 {
		return
	}
	l.grownAt = s
	if !l.window {
		l.theta = min(l.theta*math.Exp(min(l.grows()*dt, 1)), fastest)
	}
}

// learn learns from an answer while the level paces.
func (l *level) learn(a *Adaptive, s, sent float64, o Outcome) {
	l.grow(s)
	if l.policy > 0 && l.r < l.h {
		l.theta = min(l.theta, l.policy)
	}
	if o.Verdict == Throttled {
		if sent < l.cutAt {
			return
		}
		if l.row++; l.row == 1 {
			l.thetaBefore = l.theta
		}
		l.window = l.window && s < l.resetAt // else no new one has shown itself
		if l.row >= away && l.anyServed && !l.window {
			a.awayFrom(s)
			return
		}
		switch {
		case !l.anyServed: // it is far too fast, as in a crowd that starts
			l.depth = deepestCut
		case l.served < 10:
			l.depth = min(deepestCut, 2*l.depth)
		default:
			l.depth = a.cutDepth()
		}
		a.observe(s, sent, Throttled) // before the cut, which it makes too
		if !l.window {
			if l.theta *= math.Exp(-l.depth); a.refused == 1 {
				l.theta = min(l.theta, a.base)
			}
			l.theta = max(l.theta, l.floor())
		}
		l.cutAt, l.served, a.last = s, 0, s
		return
	}
	a.observe(s, sent, Served)
	l.served++
	l.anyServed, l.row = true, 0
	if !o.Hints.Remaining.OK || l.window {
		if l.hidden(s, sent, o) {
			a.leaveLevel(s)
		}
		return // it did not say this time
	}
	l.follow(s, sent, a.flying)
}

// follow moves theta by what an answer said that remains.
func (l *level) follow(s, sent float64, flying int) {
	// Many answers of one round tell the same: share the change among them. By what is
	// in flight at its end, the last of a large one would count the most.
	if sent >= l.roundAt {
		l.roundAt, l.roundFlight = s, float64(flying+1)
	}
	flight, full := max(1, l.roundFlight/4), l.brim()
	switch {
	case full > smallest || l.tiny || l.topsInRow < topsToRise:
		l.theta *= math.Exp(-kappa / l.weight * max(0, 1-l.r/l.h) / flight)
		if l.r >= full && l.r >= l.h && (l.tiny || l.r > smallest) && !l.freeStart {
			rise := fullRise / flight
			if full > smallest {
				rise = min(rise, mostFullRise*l.answerGap)
			}
			l.theta *= math.Exp(rise)
		}
	case !l.freeStart: // a small bucket that is full looks like a large one that is nearly empty
		l.theta *= math.Exp(smallRise / flight)
	}
	l.theta = min(max(l.theta, l.floor()), fastest)
}
