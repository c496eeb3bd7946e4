package pace

import "math"

// level is the law by level, for a server that tells how many requests remain. All clients of
// a bucket see the same level r, so they slow down together before any is refused, and a
// newcomer is equal at once.
//
//	rate = theta × f(r)
//	f(r) = exp((r-h)/h), at least 1/2: nobody is paced at a full bucket
//	each answer with r < h:         theta × exp(-kappa/weight (1 - r/h) / max(1, F/4))
//	each answer at a full bucket:   theta × exp(0.2 / max(1, F/4))
//	all the time, but in a window:  theta × exp(g) a second
//
// An answer with r < h is a mark, as in explicit congestion notification. F is the number in
// flight when the first answer of the round came: all answers of a round are one piece of news.
// theta grows by time, not by answers, so that all clients grow alike.
//
//   - f is at most 1 with r or more in flight, of all clients: those will take what
//     remains. Above theta, the rate is at most r over the longest Retry-After, as a log gives
//     nothing back for so long; not where a reset came with it, or a share is stated.
//   - A full bucket raises theta only while requests wait for the rate, and at most × e a
//     second: more answers are no reason to grow faster. Where full, as seen or stated, is 3
//     or less, three answers in a row must see it; each then raises theta by twice that,
//     without the bound.
//
// h, the level to keep free, follows the swing of r, not the limit: 3 for a quiet bucket, more
// where many requests are in flight, less for a bucket that holds at most 4. With a stated
// policy h is at most 1/8 of the quota, or 2, and theta at most the policy while r < h; for a client
// alone in windows h is at most 1/8 of the most that remained. A fixed window shows by resets that
// name the same instant in answer after answer; in it the rate is what remains over the time left.
//
// What remains is not acted on where it comes late or says too little, see misled, nor after a refusal
// by another limit, see elsewhere. A refusal also cuts theta to base, as refusals measure it.
type level struct {
	on          bool    // the level sets the rate
	anyServed   bool    // a request was served since it was turned on, or several before
	freeStart   bool    // the last start had not waited for the rate
	weight      float64 // of the Adaptive
	burst       bool    // of the Adaptive
	theta       float64 // requests a second at r = h
	grownAt     float64 // until when theta has grown
	meanGap     float64 // mean seconds from start to start
	cutAt       float64 // refusals of requests sent before belong to the last cut
	depth       float64 // of the last cut, in ln(theta)
	served      float64 // requests served since the last cut
	row         int     // refusals since a request was served
	thetaBefore float64 // theta at the first of them

	r, low, swing float64 // last level, trough and swing, requests
	seenAt        float64 // when the last answer came
	answerGap     float64 // seconds between the last two answers
	toldAt        float64 // when the last answer with a hint came
	h             float64 // level to keep free, requests

	buckets
	windows
	leaps leaps
	divided
	longestRefusal float64 // longest row, or Retry-After, seconds
	anyRefused     bool    // a request was refused
	unstated       bool    // the last refusal was by another limit than the one that is stated
	policy         float64 // stated quota over its window, requests a second; zero: none is stated
	quota          float64 // as stated, requests; zero: not stated
	length         float64 // stated window, seconds; zero: not stated
	roundFlight    float64 // F: in flight when the first answer of the round came
	roundAt        float64 // when that answer came
	company        company
	kept           kept
}

const (
	smallest          = 3.0    // least h; a bucket whose r is never higher is small
	widest            = 128.0  // most h,
	widestPart        = 300.0  // and where a share is stated
	swingMemory       = 60.0   // seconds over which a swing fades
	firstSwing        = 6.0    // requests, swing of r at first
	rushTrips         = 100.0  // round trips that an unpaced swing counts for, as more was in flight then
	longestLook       = 3660.0 // seconds that one wait for the end of a window lasts at most
	hintsKept         = 3600.0 // seconds without hints until they are forgotten; the window if longer, up to a day
	away              = 7      // refusals in a row after which the server counts as down
	mostGrowth        = 0.07   // most g, a second
	kappa             = 0.4    // ln(theta) taken by an answer at an empty bucket
	fullRise          = 0.2    // rise of ln(theta) by an answer at a full bucket,
	mostFullRise      = 1.0    // and by all in a second at most;
	smallRise         = 0.4    // by one that sees a low level stand still
	quotaPerH         = 8      // h is at most 1/8 of the quota,
	leastQuotaH       = 2.0    // or so many requests
	shortWindow       = 10.0   // seconds; in a longer window a policy of fewer than
	fewRequests       = 12.0   // requests is kept to by refusals
	answersPer        = 20.0   // round trips that must fit in a window for what remains to be acted on;
	answersPerOn      = 15.0   // once it is,
	answersPerKnown   = 10.0   // where the limit is known,
	answersPerKnownOn = 4.0    // and there once it is
	briefest          = 3.0    // seconds: resets in whole seconds say nothing of shorter windows
)

// rate returns the rate at s, in requests a second, with flying requests in flight.
func (l *level) rate(s float64, flying int) float64 {
	if l.window {
		if left := l.resetAt - s; left > 0 {
			if l.burst || l.alone() {
				left = min(left, rush)
			}
			if l.known() { // leave something to clients that do not know the end yet
				left *= 1 + max(l.peers-1, 0)/2
			}
			return max(l.r, 0.01) / left
		}
		return 1 / max(l.rtt, 0.2) // until the new window shows itself
	}
	f := 0.5
	if r := l.r; r > l.h*(1-math.Ln2) { // below, f is at its least
		if float64(flying)*max(l.peers, 1) >= r { // those in flight, of all clients, take what remains: no rush
			r = min(r, l.h)
		}
		f = math.Exp(min(30, (r-l.h)/l.h))
	}
	if long := l.ends.longestAfter; f > 1 && long > 0 {
		return min(l.theta*f, max(l.theta, l.r/long), fastest)
	}
	return min(l.theta*f, fastest)
}

// tell records the stated policy. Where answers have lacked hints for long, it forgets the
// policy and the level.
func (l *level) tell(a *Adaptive, s float64, o *Outcome) {
	h, unit := &o.Hints, a.costs.unit()
	policy := h.Limit.OK && h.Window.OK && h.Limit.V > 0 && h.Window.V > 0
	l.switched(o, unit)
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

// observe learns from an answer; false leaves it to the law by refusals.
func (l *level) observe(a *Adaptive, s, sent float64, o *Outcome) bool {
	h := o.Hints
	if !h.Remaining.OK && !l.on {
		if o.Verdict == Throttled && a.refused == 0 {
			l.unstated = l.ample(s, a.flying)
		}
		return false
	}
	if o.Verdict == Ignored || o.Verdict == Failed {
		return true
	}
	if l.elsewhere(a, o) {
		l.anyRefused, l.unstated = true, true
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
		a.withoutLevel(s, sent, kept, o)
		return false
	}
	if !l.on {
		if a.on && (a.refused > 1 || a.refused > 0 && o.Verdict == Throttled) {
			return false // the server may be down: refusals ask whether it is back
		}
		if a.on && a.flood > 0 && l.length == 0 && l.resetAt == 0 && !l.alone() {
			return false // what remains does not tell when the limit comes back
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

// look updates r, its swing and h by an answer.
func (l *level) look(a *Adaptive, s, sent float64, o *Outcome) {
	if l.window && o.Hints.Reset.OK && o.Verdict == Served && s+o.Hints.Reset.V.Seconds() < l.resetAt-l.tolerance() {
		return // it was overtaken, and is of the window before
	}
	dt, seen, unit := max(s-l.seenAt, 0), l.seenAt, a.costs.unit()
	l.seenAt, l.answerGap = s, dt
	remaining := o.Hints.Remaining
	// A fixed window gives nothing back before it ends, and ends no later than its length.
	// Two counters do both.
	rose := remaining.OK && sent >= seen && s < l.resetAt-slack && float64(remaining.V)/unit > l.shown+0.5
	if remaining.OK && o.Verdict != Throttled {
		l.open(s, float64(remaining.V)/unit)
		l.divide(s, sent, float64(max(remaining.V, 0))/unit, charged(max(o.Cost, o.Request.Cost))/unit, a.flying+1, sent >= seen && a.flying == 0)
		l.round(s, sent)
	}
	l.reset(a.rtt, s, sent, rose, o)
	switch {
	case o.Verdict == Throttled:
		l.r, l.anyRefused, l.unstated = 0, true, false
	case remaining.OK:
		r := l.shown
		if l.swing == 0 { // the first answer
			l.low, l.swing = r, firstSwing
		}
		if l.row > 0 && l.alone() { // a refill while nobody sent is no swing
			l.low = r
		}
		l.top(r, l.on)
		l.r = r
		fade := swingMemory / (swingMemory + dt)
		l.low = min(r, l.low+(r-l.low)*(1-fade))
		l.swing = max(l.swing*fade, r-l.low)
	}
	most := float64(o.Hints.Burst.V-1) / unit // so many remain after one request of a full bucket
	if o.Hints.Burst.OK && most >= 0 && most < smallest {
		l.most, l.tiny = max(l.most, most), true
	}
	if a.share.agreed > 0 {
		l.ends.longestAfter = 0 // a share is stated of buckets, and none of a log
	}
	l.h = max(l.keep(a.share.agreed > 0), a.stock.reserve()/unit)
	l.returnDelay = 0.02 * (1 + o.Request.Luck.Unit(3))
	if l.single() { // others may come back too, so spread as after a Retry-After
		l.returnDelay += min(jitterShare*max(l.resetAt-s, 0), 2) * o.Request.Luck.Unit(6)
	}
}

// turnOn lets the level set the rate from here on, starting at the best estimate so far.
func (l *level) turnOn(a *Adaptive, s, sent float64, o *Outcome) {
	served := a.accepted
	if o.Verdict == Served {
		a.accepted++
		served = a.accepted + float64(a.flying)/2 // half of those in flight, as nothing was refused yet
	}
	switch {
	case a.refused > 0:
		l.theta = a.base
	case a.on:
		l.theta = a.rate(s)
	default: // base starts there too
		l.theta = a.measured(s, sent, served)
		a.begins(s, l.theta)
	}
	a.refused, l.row = 0, 0
	l.anyServed = o.Verdict == Served || a.first.served >= sampleOf
	l.on, l.unstated, a.restored = true, false, false
	l.theta = max(l.theta, l.floor())
	l.weight, l.burst = a.weight(), a.Burst
	l.swing = max(l.swing*min(1, rushTrips*a.rtt/swingMemory), min(l.swing, firstSwing))
	l.grownAt, l.cutAt, l.served, l.depth = s, s, 0, a.cutDepth()
	a.last = s
	l.meanGap = 1 / l.theta
}

// awayFrom leaves a long row of refusals to the law by refusals, which asks whether the server
// is back, and returns to the rate of before.
func (a *Adaptive) awayFrom(s float64) {
	l := &a.level
	l.on = false
	a.base, a.trust = max(l.thetaBefore, l.company.best, slowest), leastTrust
	a.cut(s)
	a.refused = l.row // it need not learn how long rows are
}

// floor returns the lowest theta, in requests a second: 1/100 of a stated policy, within one
// request in two hours and one in two minutes; slowest without a policy.
func (l *level) floor() float64 {
	if l.policy > 0 {
		return min(1.0/120, max(l.policy/100, 1/mostHeld))
	}
	return slowest
}

// grows returns g, in ln(theta) a second. Marks of mean size m take kappa m x a second from a
// rate x, so growth is balanced by m = g/(kappa x). That must stay below 1 at low rates, and
// fall with x: if every x were balanced by the same m, shares would drift apart.
func (l *level) grows() float64 {
	x := l.theta / l.weight
	if x < usualRate {
		return kappa / 4 * x * math.Pow(x/usualRate, -0.15)
	}
	return min(mostGrowth, kappa/4*math.Sqrt(usualRate*x))
}

// grow grows theta by the time since it last grew; time in a fixed window does not count, as
// theta does not pace there.
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

// learn updates theta by an answer while the level sets the rate.
func (l *level) learn(a *Adaptive, s, sent float64, o *Outcome) {
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
		l.window = l.window && s < l.resetAt // after its end, a refusal shows no new window
		if l.row >= away && l.anyServed && !l.window {
			a.awayFrom(s)
			return
		}
		switch {
		case !l.anyServed: // far too fast, as in a crowd that starts
			l.depth = deepestCut
		case l.served < 10:
			l.depth = min(deepestCut, 2*l.depth)
		default:
			l.depth = a.cutDepth()
		}
		a.observe(s, sent, Throttled) // first, as it cuts base by theta as it was
		if !l.window {
			if l.theta *= math.Exp(-l.depth); a.refused == 1 {
				l.theta = min(l.theta, a.base)
			}
			l.theta = max(l.theta, l.floor())
		}
		l.cutAt, l.served = s, 0
		return
	}
	a.observe(s, sent, Served)
	l.served++
	l.anyServed, l.row = true, 0
	if !o.Hints.Remaining.OK || l.window {
		if l.hidden(s, sent, o) {
			a.leaveLevel(s)
		}
		return // this answer does not say what remains
	}
	l.follow(s, sent, a.flying)
}

// follow updates theta by the level r of an answer.
func (l *level) follow(s, sent float64, flying int) {
	// Divide by the flight at the start of the round: by what is in flight at its end, the
	// last answers of a large round would count the most.
	if sent >= l.roundAt {
		l.roundAt, l.roundFlight = s, float64(flying+1)
	}
	flight, full := max(1, l.roundFlight/4), l.fullLevel()
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
