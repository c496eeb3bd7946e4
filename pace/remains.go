package pace

import "math"

// leaps finds when fixed windows end, for a server that states their length and not their end.
// At an end what remains leaps up, by more than a bucket of that policy would refill; at no
// other time it rises. Each answer is compared with the last one that came before its request
// was sent, so the end lies between the start of that one and this answer.
type leaps struct {
	r        float64 // remaining by the last answer compared,
	sent, at float64 // when its request was sent, and when it came; zero: none
	from, to float64 // a window ended between these instants, or whole windows before or after
	agree    int     // answers in a row that agree on that
	long     float64 // length of a window, seconds
	dry      float64 // share of answers after which nothing remained
	held     bool    // known was true at the last answer
}

const (
	leapPart   = 0.5 // a leap is at least this part of the quota,
	leapLeast  = 2.0 // so many requests,
	leapTimes  = 1.3 // and so many times what the policy refills meanwhile
	leapWithin = 0.9 // part of a window in which answers can be compared,
	sureWithin = 0.7 // and in which a smaller rise confirms the end
	agreeing   = 3   // answers, for the end to be known
	endsOf     = 8.0 // requests in a window of a second or so, for its end to be of use

	freshPart = 0.85 // in such a window, if so much of the quota remains,
	dryShare  = 0.25 // and nothing did by this share of the answers,
	dryOver   = 16.0 // over so many of them,
	freshAge  = 0.25 // a window ended within this part of it before the request was sent
)

// observe learns that r of the quota remained by the answer at s to a request sent at sent;
// windows are long seconds.
func (x *leaps) observe(s, sent, r, quota, long float64) {
	if long != x.long {
		*x = leaps{long: long, held: x.held}
	}
	if sent < x.at {
		return
	}
	was := *x
	x.r, x.sent, x.at = r, sent, s
	x.dry -= x.dry / dryOver
	if r < 1 {
		x.dry += 1 / dryOver
	}
	// Clients that ask too seldom to see a leap would get only what those leave that know the end.
	if long <= briefest && !x.seen() && r >= freshPart*quota && x.dry >= dryShare {
		x.from, x.to, x.agree = sent-freshAge*long, s, agreeing
		return
	}
	gap, rise := s-was.sent, r-was.r
	if was.at == 0 || gap > leapWithin*long || rise < 0.5 {
		return
	}
	leap := rise >= max(leapLeast, leapPart*quota, leapTimes*quota/long*gap)
	shift := long * math.Floor((s-x.from)/long)
	from, to := max(x.from+shift, was.sent), min(x.to+shift, s)
	switch {
	case x.agree > 0 && from <= to: // this may be the same end
		x.from, x.to = from, to
		if leap || gap < sureWithin*long {
			x.agree++
		}
	case leap:
		x.from, x.to, x.agree = was.sent, s, 1
	default:
		x.agree = 0
	}
}

// seen reports whether enough leaps agree on when windows end.
func (x *leaps) seen() bool { return x.agree >= agreeing }

// last returns when the last window before s had ended at the latest.
func (x *leaps) last(s float64) float64 { return x.to + x.long*math.Floor((s-x.to)/x.long) }

// known reports whether the client goes by the ends that leaps show. Not where its own starts
// explain what remains, as in a log. Nor in windows of few requests: clients that see too few
// answers to find the end would get only what the others leave. In windows of a second or so all
// see enough.
func (l *level) known() bool {
	enough := l.quota >= crowdedOf || l.briefly() && l.quota >= endsOf
	return enough && l.leaps.seen() && !l.kept.agrees
}

// briefly reports whether the stated window is too short for resets in whole seconds.
func (l *level) briefly() bool { return l.length > 0 && l.length < briefest }

// misled reports whether what remains comes too late, says too little or misleads, so that the
// law by refusals does better.
func (a *Adaptive) misled() bool {
	l := &a.level
	switch {
	case l.known():
		return a.stale()
	case a.stock.steady(): // a dear request takes the level far down, and is refused for long
		return a.stale() || l.company.crowded
	}
	return a.stale() || l.scant() || l.small() && (!l.window || l.othersFor > 0) || l.company.crowded || a.divisible()
}

// withoutLevel leaves the level, or begins to pace once nothing of a policy remains: no refusal is
// needed to show the limit.
func (a *Adaptive) withoutLevel(s, sent float64, kept bool, o *Outcome) {
	l := &a.level
	switch {
	case l.on:
		a.leaveLevel(s)
	case !a.on && (kept || l.scant()) && l.r < 1 && o.Verdict == Served:
		rate := l.policy * (1 - jitterShare)
		if o.Request.Since.Before(o.Sent) && !l.alone() { // it waited: this client asked for more than its part
			rate = a.partOfBurst(sent, a.first.served+1, rate)
		}
		a.begins(s, rate)
	}
}

const (
	forEach     = 40.0 // requests in a window for each client: with fewer, refusals share it better
	closedOften = 2    // ends in a row, named by refusals, after which little remained: they are no window's
	dryPart     = 0.25 // part of a window; a limit that refills steadily does not refuse for so long
)

// divisible reports whether clients share a stated policy better by refusals than by what
// remains: where there are few requests for each, or where the limit gave nothing back for
// long, like a log or a window that is used up. There what remains makes all wait, and the
// first client to come takes all of it, and keeps it.
func (a *Adaptive) divisible() bool {
	l := &a.level
	if l.othersFor <= 0 || l.quota == 0 || l.window || l.capacity() > l.quota+1 || a.share.agreed > 0 {
		return false
	}
	if l.ends.longestAfter > 0 && l.ends.closed < closedOften && l.seenAt >= l.noWindowUntil {
		return false // these may name the end of a window
	}
	return l.quota < forEach*max(l.peers, 1) || l.longestRefusal >= dryPart*l.length
}

const (
	muchTimes = 3.0 // times h that must remain where another limit refuses
	othersUse = 8.0 // times the rate of a policy that its other clients may use
)

// elsewhere reports whether an answer refused while much remained: another limit refused,
// of which what remains says nothing.
func (l *level) elsewhere(a *Adaptive, o *Outcome) bool {
	r := float64(o.Hints.Remaining.V)
	return o.Verdict == Throttled && r >= charged(o.Request.Cost) && r/a.costs.unit() >= muchTimes*max(l.h, smallest)
}

// ample reports whether much remains at s, by an answer a moment ago: other clients cannot have used
// it up since, even at several times the rate of the policy. So a refusal that does not say what
// remains was by another limit, too.
func (l *level) ample(s float64, flying int) bool {
	return l.seenAt > 0 && l.shown-float64(flying)-muchTimes*max(l.h, smallest) > othersUse*l.policy*(s-l.seenAt)
}

// binding returns the stated policy in requests a second where it is what limits, else zero: while
// the last refusal was by another limit, its mean rate must not hold back requests of which much
// remains.
func (l *level) binding() float64 {
	if l.unstated {
		return 0
	}
	return l.policy
}

// capacityTimes is how many times the quota must once have remained to show a larger bucket, where
// no burst is stated: less may be left of a larger quota stated before.
const capacityTimes = 1.5

// capacity returns how many requests the limit allows at once: the quota, or the size of a bucket
// that is larger.
func (l *level) capacity() float64 {
	if l.most+1 < capacityTimes*l.quota {
		return max(l.quota, l.full+1)
	}
	return max(l.full, l.most) + 1
}

// stale reports whether answers take too large a part of the window, as stated or as resets have
// shown: then it has changed too much when they come. While the level sets the rate they must
// take clearly longer, as rtt varies. The window of a bucket larger than its quota is the time in
// which it fills, and so is that of a limit whose window is not known at all.
func (a *Adaptive) stale() bool {
	l := &a.level
	// Only buckets state a share.
	long, surely := l.length, l.window || a.share.agreed > 0
	if deep := l.capacity(); l.quota > 0 && deep > l.quota+1 {
		long, surely = long*deep/l.quota, true
	}
	if long == 0 {
		long = l.provenAhead
	}
	most := long / answersPer
	switch {
	case long == 0:
		long, most = l.fillsIn, l.fillsIn/answersPerKnown
	case l.known(), surely && l.on:
		most = long / answersPerKnownOn
	case surely:
		most = long / answersPerKnown
	case l.on:
		most = long / answersPerOn
	}
	return long > 0 && a.rtt > most
}

// scant reports whether the stated policy is of so few requests, in a window that is not short,
// that it says more than what remains.
func (l *level) scant() bool {
	least := fewRequests
	if l.on {
		least *= 0.7 // the mean cost varies
	}
	return l.length > shortWindow && l.capacity() < least
}

// divided estimates how many clients share a limit, by how far what remains falls for each answer
// to this one. As answers overtake each other, only a new low counts.
type divided struct {
	peers       float64 // clients, this one included; zero: not known
	shown       float64 // what the last answer said remains
	bottom      float64 // the lowest since the last refill
	flight      float64 // requests in flight lately, by which answers may overtake each other
	sinceLow    float64 // answers since then
	weight      float64 // answers that peers is a mean over
	refillLevel float64 // what remained after the last refill
	refilledAt  float64 // when it showed
	spent       float64 // charged to own requests since then
	fell        float64 // how far what remains fell lately,
	answers     float64 // for so many answers
	othersFor   int     // answers for which other clients still count as noticed
	sole        bool    // the last answer was to the only request in flight
	begun       bool
	toldFrom    float64 // when the first answer that told came
	twice       bool    // another told, of a request sent since: what others sent at first shows in it
}

const (
	odds        = 2.0   // for the last r requests, each client tries with probability r / (odds × clients)
	singlePeer  = 1.1   // peers below this: the client is alone
	sharedBy    = 1.25  // times what own requests were charged: if more is gone, others took it
	othersKept  = 1000  // answers for which others count as noticed
	flightFade  = 0.5   // by each answer: slower than a flight ends
	steadied    = 8.0   // answers that peers is a mean over, or those since the last low
	longAnswers = 512.0 // answers that fell counts for,
	longLeast   = 64.0  // and from which it says anything
)

// divide updates the estimate by an answer that came at s to a request sent at sent: r remain, it was
// charged took, and flying are in flight, it included; sole reports that it was the only one from its
// start on. One sent before the last refill showed may tell what remained before it.
func (d *divided) divide(s, sent, r, took float64, flying int, sole bool) {
	before := sent < d.refilledAt
	if d.othersFor--; d.sole && sole && r < d.shown-took-0.5 { // more is gone than this client sent
		d.othersFor = othersKept
	}
	d.sole = sole
	d.shown = r
	if d.spent += took; d.begun && !before && d.refillLevel-r > sharedBy*(d.spent+float64(flying))+1 {
		d.othersFor = othersKept // or the client that sends most just now would think itself alone
	}
	d.sinceLow++
	d.flight = max(float64(flying), d.flight-flightFade)
	switch {
	case !d.begun || r > d.bottom+2*d.flight: // the first, or a refill
		if d.begun {
			d.refilledAt = s
		}
		d.begun, d.bottom, d.sinceLow = true, r, 0
		d.refillLevel, d.spent = r, 0
	case r < d.bottom:
		d.weight = min(d.weight+d.sinceLow, max(steadied, d.sinceLow))
		d.peers += ((d.bottom-r)/d.sinceLow - d.peers) * d.sinceLow / d.weight
		if !before {
			fade := 1 / (1 + d.sinceLow/longAnswers)
			d.fell, d.answers = (d.fell+d.bottom-r)*fade, (d.answers+d.sinceLow)*fade
		}
		d.bottom, d.sinceLow = r, 0
	}
}

// round notes that an answer at s told what remains, to a request sent at sent.
func (d *divided) round(s, sent float64) {
	if d.toldFrom == 0 {
		d.toldFrom = s
	}
	d.twice = d.twice || sent >= d.toldFrom
}

// unsaid counts an answer that does not say what remains, to a request that was charged took.
func (d *divided) unsaid(took float64) {
	d.sinceLow++
	d.spent += took
}

// alone reports whether nobody else uses the limit, as far as is known; false until it is: own
// requests explain how far what remains falls.
func (d *divided) alone() bool { return d.peers > 0 && d.peers < singlePeer && d.othersFor <= 0 }

// longAlone reports whether the client has been alone for long, in a window: peers varies, as answers
// overtake each other, and a limit that refills all the time hides what others take.
func (d *divided) longAlone() bool {
	return d.answers >= longLeast && d.fell < singlePeer*d.answers && d.othersFor <= 0
}

// keep returns h, the level to keep free; shared reports whether a share is stated.
func (l *level) keep(shared bool) float64 {
	most := widest
	if shared { // theta follows the share, whatever the swing
		most = widestPart
	}
	h := min(max(0.7*l.swing, smallest), most)
	if l.quota > 0 {
		h = min(h, max(l.capacity()/quotaPerH, leastQuotaH))
	}
	if l.opens >= opensLeast && l.longAlone() { // of each window h is lost, which is left to nobody
		h = min(h, max(l.most/quotaPerH, smallest))
	}
	if l.tiny {
		h = min(h, max(l.most/1.5, 0.5))
	}
	return h
}

// apportion subtracts the requests on the way from what remains, for all clients of the window.
// Those that take longer than usual were counted by the server already. Where fewer are left
// than odds for each client, each tries with the probability of its part: if all tried for the
// last one, all but one would be refused.
func (l *level) apportion(flying int, o *Outcome) {
	usually := l.rtt / max(l.meanGap, 1e-9)
	theirs, each := float64(flying), l.peers
	if l.anyRefused {
		theirs, each = theirs+1, odds*each
	}
	if o.Hints.Remaining.OK { // else r is as it was, less those sent since
		l.r = max(l.r-min(float64(flying), usually)-min(theirs, usually)*max(l.peers-1, 0), 0)
	}
	if o.Hints.Remaining.OK && o.Verdict == Served {
		l.passOver = !l.alone() && l.r < each && o.Request.Luck.Unit(4)*each > l.r
	}
}

// fits reports whether one more request fits beside flying others, before the first refusal:
// within this client's part of what remains. Where what remains is not known or too old, it does.
func (l *level) fits(s, rtt float64, flying int) bool {
	if l.most < 1 || l.length > 0 && rtt > l.length/answersPerKnownOn || l.resetAt > 0 && l.resetAt-s < rtt {
		return true
	}
	return float64(flying) < max(1, l.shown/max(1, l.peers))
}

const (
	leadOf      = 8.0  // a first flight may be 1/8 of what remains,
	leadOfFew   = 3.0  // a third of that where fewer than 64 are let through at once,
	leadOfQuota = 64.0 // or 1/64 of the quota, where no answer says what remains,
	leadMost    = 16.0 // requests: more would set clients that start together far apart
	leadWithin  = 1.0  // seconds: so long answers take at most, or only a client alone has a lead
	leadLeaves  = 0.5  // part of the most that remained, which a client alone does not take at once
)

// lead returns how many requests the hints let be in flight before the first refusal: a part of
// what remains, or else of the quota, so that clients that start together all have room. Of a
// small policy it is a smaller part, or the first client would take several times as much as the
// others, and keep it. Where answers take longer than a second the flight grows as fast by time.
// There a client alone may take half of what it found, once a request that it sent after the first
// answer shows nobody else either; where they take less the gain would be small, and a hidden limit
// might refuse all of them.
func (l *level) lead(rtt float64) float64 {
	part := l.quota / leadOfQuota
	if l.seenAt > 0 {
		part = l.shown / leadOf / max(1, l.peers)
		if l.quota > 0 && l.capacity() < leadOfQuota {
			part /= leadOfFew
		}
	}
	switch {
	case rtt <= leadWithin:
		return min(part, leadMost)
	case l.twice && l.alone():
		return max(0, l.shown-leadLeaves*l.most)
	}
	return 0
}
