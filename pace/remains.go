package pace

import "math"

// leaps finds out when fixed windows end, where the server states their length and not their
// end: what remains leaps up then, by more than a bucket of that policy gives back meanwhile,
// and rises at no other time. It compares an answer with the last one that had come before its
// request was sent, whatever other clients did between.
type leaps struct {
	r        float64 // what remained by the last answer that was compared,
	sent, at float64 // when that was sent, and seen; zero: there was none
	from, to float64 // a window ended between these instants,
	agree    int     // as so many answers in a row showed
	long     float64 // seconds a window takes
	held     bool    // the limit was taken for a window by them
}

const (
	leapPart   = 0.5 // of the quota, which leaps are of at least,
	leapLeast  = 2.0 // and so many requests,
	leapTimes  = 1.3 // and so many times what the policy gives back
	leapWithin = 0.9 // of the window, in which an answer must follow the last to be compared,
	sureWithin = 0.7 // and to count, where it is no leap
	agreeing   = 3   // answers
)

// observe learns that r remained of the quota by the answer at s to what was sent then.
func (x *leaps) observe(s, sent, r, quota, long float64) {
	if long != x.long {
		*x = leaps{long: long, held: x.held}
	}
	if sent < x.at {
		return
	}
	was := *x
	x.r, x.sent, x.at = r, sent, s
	gap, rise := s-was.sent, r-was.r
	if was.at == 0 || gap > leapWithin*long || rise < 0.5 {
		return
	}
	leap := rise >= max(leapLeast, leapPart*quota, leapTimes*quota/long*gap)
	shift := long * math.Floor((s-x.from)/long)
	from, to := max(x.from+shift, was.sent), min(x.to+shift, s)
	switch {
	case x.agree > 0 && from <= to: // it may be the same end
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

// seen reports whether leaps agree on when windows end.
func (x *leaps) seen() bool { return x.agree >= agreeing }

// last returns when the last window ended before s, or a little later.
func (x *leaps) last(s float64) float64 { return x.to + x.long*math.Floor((s-x.to)/x.long) }

// known reports whether the client goes by the ends that leaps tell. It does not where its own
// starts explain what remains, as in a log, nor in windows of few requests: some clients see too
// few answers of these to find the end, and would get only what the others leave.
func (l *level) known() bool {
	return l.leaps.seen() && l.quota >= crowdedOf && !l.kept.agrees
}

// briefly reports whether the stated window is too short for resets in whole seconds to say
// when it ends.
func (l *level) briefly() bool { return l.length > 0 && l.length < briefest }

// misled reports whether what remains misleads or says too little, so that the law without
// hints does better.
func (a *Adaptive) misled() bool {
	l := &a.level
	if l.known() {
		return a.stale()
	}
	return l.leaps.seen() && !l.window || a.stale() || l.scant() || l.small() && !l.window || l.company.crowded || a.divisible()
}

const (
	forEach     = 20.0 // requests in a window for each client, below which they go by the policy alone;
	closedOften = 2    // ends that refusals named, in a row, after which little remained: they are no window's
	dryPart     = 0.25 // of a window, for which a limit that gives something back all the time refuses none
)

// divisible reports whether clients that share a policy share it better by refusals than by
// what remains: where there are few requests for each, and where the limit has given nothing
// back for long, as a log or a window does once it is used up. What remains of these tells all
// to wait, and then the first to come takes all there is, and keeps it.
func (a *Adaptive) divisible() bool {
	l := &a.level
	if l.othersFor <= 0 || l.quota == 0 || l.length < shortWindow || l.window || l.deep() > l.quota+1 || a.share.agreed > 0 {
		return false
	}
	if l.ends.longestAfter > 0 && l.ends.closed < closedOften && l.seenAt >= l.noWindowUntil {
		return false // refusals may name when a window ends
	}
	return l.quota < forEach*max(l.peers, 1) || l.anyRefused && l.longestRefusal >= dryPart*l.length
}

// elsewhere reports whether an answer refused while much remained: by another limit, of
// which what remains says nothing.
func (l *level) elsewhere(a *Adaptive, o Outcome) bool {
	r := float64(o.Hints.Remaining.V)
	return o.Verdict == Throttled && r >= charged(o.Request.Cost) && r/a.costs.unit() >= 3*max(l.h, smallest)
}

// deeper is how many times the quota must have remained, where no burst is stated, to be taken for a
// bucket's: less may be of a larger quota that was stated before.
const deeper = 1.5

// deep returns how many requests the limit lets through at once: its quota, or what a bucket holds
// that is deeper.
func (l *level) deep() float64 {
	if l.most+1 < deeper*l.quota {
		return max(l.quota, l.full+1)
	}
	return max(l.quota, l.full+1, l.most+1)
}

// stale reports whether answers come when too much of the window, as stated
// or as its resets have shown, is over for what they say to be acted on; what is acted on
// already, only when that is clearly so, as rtt varies. The window of a bucket that is deeper than
// its quota is the time in which it fills.
func (a *Adaptive) stale() bool {
	l := &a.level
	// A share is stated of buckets only.
	long, surely := l.length, l.window || a.share.agreed > 0
	if deep := l.deep(); l.quota > 0 && deep > l.quota+1 {
		long, surely = long*deep/l.quota, true
	}
	if long == 0 {
		long = l.provenAhead
	}
	most := long / answersPer
	switch {
	case l.known(), surely && l.on:
		most = long / answersPerKnownOn
	case surely:
		most = long / answersPerKnown
	case l.on:
		most = long / answersPerOn
	}
	return long > 0 && a.rtt > most
}

// scant reports whether the stated policy is of so few requests, in a window that
// is not short, that what remains says less than the policy itself.
func (l *level) scant() bool {
	least := fewRequests
	if l.on {
		least *= 0.7 // the mean cost varies
	}
	return l.length > shortWindow && l.deep() < least
}

// divided estimates among how many what remains is divided: how many requests it falls
// by for each answer of ours. As answers overtake each other, only a new low counts.
type divided struct {
	peers       float64 // how many; zero: not known
	shown       float64 // the last that was shown, own requests since not counted
	bottom      float64 // the lowest
	sinceLow    float64 // answers since then
	weight      float64 // answers that peers is the mean of
	refillLevel float64 // what remained when something was last given back,
	spent       float64 // and what was charged to own requests since then
	othersFor   int     // answers to come for which others are known to use it too
	sole        bool    // the last answer was to the only request on its way
	begun       bool
}

const (
	odds       = 2.0  // for the last r requests a client tries with probability r / (odds × clients)
	singlePeer = 1.1  // by fewer than so many requests for each answer of ours what remains falls where nobody shares it
	sharedBy   = 1.25 // times as much as was charged to own requests is gone, if others use it
	othersKept = 1000 // answers for which it is remembered that others use it
	steadied   = 8.0  // answers over which that is averaged
)

// divide updates the estimate by an answer that says r remains, with flying requests in flight,
// its own among them, which took so much; sole: it was the only one from its start on.
func (d *divided) divide(r, took float64, flying int, sole bool) {
	if d.othersFor--; d.sole && sole && r < d.shown-took-0.5 { // by more than this client sent
		d.othersFor = othersKept
	}
	d.sole = sole
	d.shown = r
	if d.spent += took; d.begun && d.refillLevel-r > sharedBy*(d.spent+float64(flying))+1 {
		d.othersFor = othersKept // else the client that sends most of what is sent now would take itself for the only one
	}
	d.sinceLow++
	switch {
	case !d.begun || r > d.bottom+2*float64(flying): // the first, or it was given back
		d.begun, d.bottom, d.sinceLow = true, r, 0
		d.refillLevel, d.spent = r, 0
	case r < d.bottom:
		d.weight = min(d.weight+d.sinceLow, max(steadied, d.sinceLow))
		d.peers += ((d.bottom-r)/d.sinceLow - d.peers) * d.sinceLow / d.weight
		d.bottom, d.sinceLow = r, 0
	}
}

// alone reports whether nobody else uses it; false until that is known. What remains falls by
// own requests alone on the mean, and did not once fall by more for long.
func (d *divided) alone() bool { return d.peers > 0 && d.peers < singlePeer && d.othersFor <= 0 }

// apportion subtracts from what remains the requests on the way, of all clients that share
// the window. The server has counted those already that take longer than usual. When fewer
// are left than odds for each client, each tries for one with the probability of its part:
// if all tried for the last one, all but one would be refused.
func (l *level) apportion(flying int, o Outcome) {
	usually := l.rtt / max(l.meanGap, 1e-9)
	theirs, each := float64(flying), l.peers
	if l.anyRefused {
		theirs, each = theirs+1, odds*each
	}
	l.r = max(l.r-min(float64(flying), usually)-min(theirs, usually)*max(l.peers-1, 0), 0)
	if o.Hints.Remaining.OK && o.Verdict == Served {
		l.passOver = !l.alone() && l.r < each && o.Request.Luck.Unit(4)*each > l.r
	}
}

// fits reports whether one more fits beside flying others: nothing was refused yet, and no
// more would be in flight than this client's part of what remains. Where nothing is known to
// remain, or answers take too long for it to tell, all do.
func (l *level) fits(s, rtt float64, flying int) bool {
	if l.anyRefused || l.most < 1 || l.length > 0 && rtt > l.length/answersPerKnownOn || l.resetAt > 0 && l.resetAt-s < rtt {
		return true
	}
	return float64(flying) < max(1, l.shown/max(1, l.peers))
}
