package pace

import (
	"math"
	"time"
)

// kept is the law by policy: a log of the client's own starts, which admits no more than the
// stated quota in any time as long as the window. That is all that a server grants a client that
// it counts alone, in a log, in slots, or in a window that the first request opens. In windows
// at fixed times it loses nothing in the long run.
//
// The log holds while it explains the server: refusals come once it has the quota as used up,
// or what the server says is used agrees with it. A client that is refused earlier shares the
// limit with others. One that is served beyond the quota has more than was stated, such as the
// burst of a bucket. Both go by refusals or by the level.
//
// Starts are kept in 32 groups, of which the last start counts, so that any quota needs the same
// room. Costs are in the unit of the policy.
type kept struct {
	quota, length float64                // the policy, in its unit and seconds; zero: none is stated
	countedFor    float64                // seconds for which the server counts a start, as learnt
	ends          [groups + late]float64 // last start of each group, a ring
	full          int                    // full groups so far
	filled        float64                // cost in the group that is not full
	balance       int                    // refusals explained, less contradictions
	mismatchAt    float64                // when what remains last differed from the log
	agrees        bool                   // it has not for a window, and most of the quota was used since
	holds         bool                   // the log sets the rate
	round         float64                // refusals of requests sent before belong to the last that counted
}

const (
	groups       = 32
	late         = 8 // groups beyond the quota that may start, and be taken back
	holdsFrom    = 2 // balance from which it holds
	mostBalance  = 4 // bounds of the balance
	leastBalance = -16
	unlikely     = -3   // balance at which nothing waits for it before the first refusal
	inTurn       = 16   // answers, one after another, that must fit in a window for that,
	inTime       = 8    // and for what remains to be compared
	nearly       = 0.9  // part of the quota that counts as all of it,
	atRest       = 1.5  // less so many requests, which the level keeps free of a small one
	longerBy     = 0.05 // part of the window by which countedFor grows, as for slots or whole seconds,
	longerMost   = 0.25 // up to this part
	byChance     = 2.0  // requests served in a window by which a client's part may seem larger than it is
	together     = 0.25 // part of the window in which a crowd that starts at once meets its limit
)

// size returns the cost of a group, and how many groups are a quota.
func (k *kept) size() (of float64, n int) {
	of = max(math.Ceil(k.quota/groups), 1)
	return of, max(int(k.quota/of), 1)
}

// follow takes over the stated policy; the starts logged so far stay.
func (k *kept) follow(quota, length, rtt float64) {
	if quota == k.quota && length == k.length {
		return
	}
	old := *k
	of, _ := old.size()
	*k = kept{quota: quota, length: length, countedFor: length + rtt/4, balance: old.balance, mismatchAt: old.mismatchAt, agrees: old.agrees, holds: old.holds, round: old.round}
	for i := max(old.full-groups, 0); i < old.full; i++ {
		k.start(old.ends[i%len(k.ends)], of)
	}
	if old.filled > 0 {
		k.start(old.ends[old.full%len(k.ends)], old.filled)
	}
}

// start logs a start of that cost at s.
func (k *kept) start(s, cost float64) {
	of, n := k.size()
	for k.filled += min(cost, of*float64(n+1)); k.filled >= of; k.filled -= of {
		k.ends[k.full%len(k.ends)] = s
		k.full++
	}
	if k.filled > 0 {
		k.ends[k.full%len(k.ends)] = s
	}
}

// forget takes back that cost from the latest starts.
func (k *kept) forget(cost float64) {
	of, n := k.size()
	for k.filled -= min(cost, of*float64(n+1)); k.filled < 0; k.filled += of {
		if k.full == 0 {
			k.filled = 0
			return
		}
		k.full--
	}
}

// used returns the cost of starts in the long seconds until s.
func (k *kept) used(s, long float64) float64 {
	of, _ := k.size()
	sum := 0.0
	if k.filled > 0 && k.ends[k.full%len(k.ends)] <= s {
		sum = k.filled
	}
	for i := k.full - 1; i >= max(k.full-groups-late+1, 0); i-- {
		at := k.ends[i%len(k.ends)]
		if at <= s-long {
			break
		}
		if at <= s {
			sum += of
		}
	}
	return sum
}

// free returns when the next request may start.
func (k *kept) free() float64 {
	_, n := k.size()
	if k.length == 0 || k.full < n {
		return 0
	}
	return k.ends[(k.full-n)%len(k.ends)] + k.countedFor
}

// spent reports whether the log has the quota as used up at s. It says no where answers take a
// large part of the window: one request at a time would then be too few to show that the server
// grants more.
func (k *kept) spent(s, rtt float64) bool {
	return k.balance > unlikely && k.free() > s && rtt <= k.length/inTurn
}

// ended corrects the log from the estimated to the actual cost; a refusal costs nothing.
func (k *kept) ended(s float64, o *Outcome) {
	said := charged(o.Request.Cost)
	switch {
	case o.Verdict == Throttled:
		k.forget(said)
	case o.Cost <= 0:
	case charged(o.Cost) > said:
		k.start(s, charged(o.Cost)-said)
	default:
		k.forget(said - charged(o.Cost))
	}
}

// observe learns from the answer at s to a request sent at sent; after is its Retry-After in
// seconds, zero if none. What remains is compared only while the client is alone.
func (k *kept) observe(s, sent, rtt, after float64, alone bool, o *Outcome) {
	switch {
	case k.length == 0:
	case o.Verdict == Throttled && sent >= k.round:
		k.round = s
		k.refused(s, sent, after, charged(o.Request.Cost))
	case o.Verdict == Served && k.used(sent, nearly*k.length-rtt)-charged(o.Request.Cost) >= k.quota:
		k.balance--
	case o.Verdict == Served && o.Hints.Remaining.OK && rtt <= k.length/inTime:
		k.told(s, sent, k.quota-float64(max(o.Hints.Remaining.V, 0)), alone)
	}
	k.balance = min(max(k.balance, leastBalance), mostBalance)
	k.holds = k.balance >= holdsFrom || k.agrees || k.holds && k.balance > 0
}

// told compares the log with an answer at s, to a request sent at sent, by which counted of the
// quota is used. Of a client alone they agree, give or take a group; a bucket has less as used.
func (k *kept) told(s, sent, counted float64, alone bool) {
	// The server counts a start at some time of its round trip and for a window from then on, so
	// starts within a round trip of either end of the window may be counted or not.
	rtt := s - sent
	of, _ := k.size()
	least := k.used(sent-rtt, k.length-2*rtt) - (of - 1)
	most := k.used(s, max(k.countedFor, k.length+rtt)+rtt) + of - 1
	switch {
	case counted <= 0:
	case !alone || counted < least || counted > most:
		k.mismatchAt, k.agrees = s, false
	case counted >= nearly*k.quota-atRest && s-k.mismatchAt >= k.length:
		k.agrees = true
	}
}

// refused learns from the first refusal of a round, of a request of that cost.
func (k *kept) refused(s, sent, after, cost float64) {
	free, most := k.free(), (1+longerMost)*k.length
	used, longer := k.used(sent, k.countedFor), k.used(sent, most)
	switch {
	case used+cost <= k.quota && longer > used && longer >= nearly*k.quota && k.countedFor < most:
		k.balance++
		k.countedFor = min(k.countedFor+longerBy*k.length, most)
	case used >= nearly*k.quota:
		k.balance++
	default:
		k.balance--
		k.mismatchAt, k.agrees = s, false
	}
	switch {
	case after <= 0:
	case s+after < free-longerBy*k.length: // a window ends, and all is free again
		k.full, k.filled = 0, 0
	case s+after < free+max(slack, longerBy*k.length): // the server names the same instant
		k.balance++
	}
}

// infer adds to the hints of o, an answer at s, the policy that resets show where none is stated.
// Refusals do not count, as their reset may be when the next request may come.
func (a *Adaptive) infer(s float64, o *Outcome) {
	h := &o.Hints
	if !h.Remaining.OK || !h.Reset.OK || h.Window.OK || o.Verdict != Served {
		return
	}
	r, reset, had := float64(max(h.Remaining.V, 0)), h.Reset.V.Seconds(), a.refill.limit
	a.refill.observe(r, reset)
	a.brief.observe(s, r, reset)
	switch {
	case a.refill.limit > 0:
		h.Limit, h.Window = Some(a.refill.limit), Some(a.refill.window)
	case a.brief.seen():
		h.Window = Some(seconds(a.brief.top))
		if !h.Limit.OK {
			h.Limit = Some(int64(a.brief.most) + 1)
		}
	case had > 0: // the limit has changed
		a.level.forget()
	}
}

// forget drops a policy that was inferred and holds no longer.
func (l *level) forget() {
	l.policy, l.quota, l.length, l.buckets, l.kept = 0, 0, 0, buckets{}, kept{}
}

// refill is what resets tell of a token bucket, of a server that says when it would be full: what
// remains and reset × rate add up to the burst in every answer, to any client. So while the reset
// moves away two answers far enough apart state the policy, though the server does not. The reset of
// a window comes nearer until the window is over.
type refill struct {
	nearR, near float64       // what remained, and the reset in seconds, of the answer nearest to a full bucket
	farR, far   float64       // the same of the answer farthest from it, later
	rises       int           // times that the reset rose clearly,
	roseTo      float64       // to this at last
	fits        int           // answers in a row that fit
	limit       int64         // as inferred: the burst; zero: nothing is
	window      time.Duration // in which it is refilled
}

const (
	refillFits   = 8   // answers that must fit,
	refillRises  = 4   // while the reset rises so often, as it does but once when a window ends,
	refillRise   = 0.5 // by more than so many seconds, as answers overtake each other,
	refillSpread = 8.0 // over so many seconds of resets, which may come in whole seconds,
	refillUsed   = 8.0 // and so many requests
)

// observe learns that r remain, and infers the policy once enough answers fit. It begins again with
// an answer that does not fit.
func (x *refill) observe(r, reset float64) {
	switch {
	case x.fits == 0 || !x.fit(r, reset) || x.limit == 0 && reset < x.near-slack:
		*x = refill{nearR: r, near: reset, farR: r, far: reset, roseTo: reset}
	case reset < x.near:
		x.nearR, x.near = r, reset
	case reset > x.far:
		if reset > x.roseTo+refillRise {
			x.rises++
			x.roseTo = reset
		}
		x.farR, x.far = r, reset
	}
	x.fits++
	used, spread := x.nearR-x.farR, x.far-x.near
	if x.limit == 0 && x.fits >= refillFits && x.rises >= refillRises && used >= refillUsed && spread >= refillSpread {
		burst := math.Round(x.nearR + used/spread*x.near)
		x.limit, x.window = int64(burst), seconds(burst*spread/used)
	}
}

// fit reports whether r and the reset may be of the same bucket as the answers before.
func (x *refill) fit(r, reset float64) bool {
	used, spread := x.nearR-x.farR, x.far-x.near
	if spread <= 2*slack {
		return math.Abs(reset-x.near) <= slack || (r-x.nearR)*(reset-x.near) <= 0
	}
	rate := used / spread
	off := (rate*slack + 1) * (1 + math.Abs(reset-x.near)/spread)
	return rate > 0 && math.Abs(x.nearR-rate*(reset-x.near)-r) <= off
}

// brief is what resets tell of a fixed window that is too short for them to name its end: it is as
// long as the longest of them, if what remains leaps up about as often.
type brief struct {
	most, last float64 // what remained at most, and last
	top        float64 // longest reset, seconds
	leaps      float64 // times that what remains rose by half of most at once
	first      float64 // when it first did,
	leapt      float64 // and last, of those that were not at once after another, as answers overtake each other
}

const (
	briefLeaps = 3.0 // at least,
	briefApart = 0.4 // parts of the longest reset,
	briefPart  = 0.7 // part of the longest reset from one to the next, at least
)

// observe learns that r remain by an answer at s.
func (x *brief) observe(s, r, reset float64) {
	if x.most >= fellBy && r > x.last+x.most*fallen && (x.leaps == 0 || s >= x.leapt+briefApart*x.top) {
		if x.leaps == 0 {
			x.first = s
		}
		x.leapt = s
		x.leaps++
	}
	x.most, x.last, x.top = max(x.most, r), r, max(x.top, reset)
}

// seen reports whether there are such windows, of most and one in top seconds.
func (x *brief) seen() bool {
	return x.leaps >= briefLeaps && x.top > 0 && x.top <= briefest && x.leapt-x.first >= briefPart*x.top*(x.leaps-1)
}

// scale multiplies base by f, as the stated policy has become f times as fast at s, and divides
// all times by f, so that they stay the same in intervals of the policy. The start of an open
// row stays: requests sent before it must not end it.
func (a *Adaptive) scale(s, f float64) {
	a.base = min(max(a.base*f, slowest), fastest)
	times := [...]*float64{&a.resumedAt, &a.born, &a.rowAt}
	row := len(times) - min(a.refused, 1)
	for _, x := range times[:row] {
		*x = s - (s-*x)/f
	}
	for _, x := range [...]*float64{&a.idle, &a.lastRow, &a.rowBefore, &a.flood, &a.period} {
		*x /= f
	}
}

// partOfBurst returns the rate to start with, served requests after the start, once an answer to a
// request sent at sent shows an empty limit: this client's part of a stated policy if it helped to
// empty a full bucket or window, else rate. All clients that came at the same time were served
// alike, so its part is what it was served, of the burst and what the policy has refilled since.
func (a *Adaptive) partOfBurst(sent, served, rate float64) float64 {
	c, k := a.level.binding(), &a.level.kept
	sent = max(sent, 0) // it may have left before this began, as where an answer names a scope
	there := a.level.full + 1 + c*sent
	if c == 0 || served < there/mostSharers || served < c*sent && sent > together*a.level.length || k.used(sent, k.length) >= nearly*k.quota {
		return rate
	}
	a.evidence = mostPartSpan
	if a.level.full+1 >= a.level.quota { // no smaller burst is stated, but there may be one
		a.evidence = min(mostPartSpan, partSpan*served)
	}
	return min(rate, c*served/there)
}

// lately returns the rate at which this client was served in the stated window until s, less byChance
// requests. A log or a window refuses when so much was served in that time, so this is the client's
// part of the quota, however little it was served before. It is zero where no policy is stated.
func (a *Adaptive) lately(s float64) float64 {
	if a.level.binding() == 0 {
		return 0
	}
	n := a.level.kept.used(s, a.level.length) / a.costs.unit()
	return max(n-byChance, 0) / a.level.length
}

// partLeft returns the rate at which all clients together would spend what remains in one stated
// window, this client's part of it: zero if that is not known, or too little to be divided so.
func (a *Adaptive) partLeft(s float64) float64 {
	l := &a.level
	each := l.shown / max(1, l.peers)
	if a.refused > 0 || l.seenAt == 0 || s-l.seenAt > l.length/4 || a.rtt > l.length/answersPerKnown || each < forEach {
		return 0
	}
	return each / l.length
}
