package pace

import (
	"math"
	"time"
)

// company finds out whether the other clients of the bucket yield. The law of
// level slows down as the bucket runs low. Clients that push on until they are
// refused keep it low for good, and one that yields to them would be left with
// nothing: as TCP Vegas beside TCP Reno. Among clients that all yield, the
// bucket is hardly ever empty, and the marks that balance growth stay below
// marked; where either is not so for a long time, others do not yield, and the
// law without hints, which is a match for them, takes over.
//
// As two clients that had both given up on each other would never notice, every
// half an hour by the wall clock all clients that can yield do so for a while,
// at the same time, and see.
type company struct {
	crowded       bool    // the others do not yield
	misled        bool    // what remains does not tell what is refused
	refused       float64 // share of the answers that are the first refusal of a row
	soundAt       float64 // when that was last no more than misledMost
	empty         float64 // share of the answers that saw the bucket empty
	marks         float64 // mean of 1 - r/h, where above zero
	best          float64 // highest theta lately
	strainedSince float64 // since when it looks so
	seenAt        float64
	answers       float64 // since then
}

const (
	emptyShare   = 0.05  // more than so many see an empty bucket
	marked       = 0.6   // or marks are above this, which growth alone hardly asks for
	leastAnswers = 60    // answers, at least: of few one is chance
	misledOver   = 24    // answers
	misledMost   = 0.06  // of them the first refusal of a row
	misledFor    = 240.0 // for so long, seconds
	crowdedOf    = 24.0  // in a window of fewer requests
	crowdedBy    = 0.2   // of the answers may be that
	sustained    = 120.0 // for so long, seconds
	recentOver   = 60.0  // time constant of the two shares, seconds
	bestOver     = 600.0 // and of best
	// Where the level swings far by itself, an empty bucket proves nothing.
	steady = widest / 8

	limitFall   = 32.0 // by which what remains falls at once where it is of another limit,
	limitFactor = 6.0  // and by which factor

	trialEvery = 30 * time.Minute
	trialFor   = 2 * time.Minute
	// What remains misleads as long as the server is what it is.
	misledEvery = 12 * trialEvery
)

// observe notes an answer at s, after the level has.
func (c *company) observe(a *Adaptive, s float64, v Verdict) {
	l := &a.level
	if c.refusals(l, s, v); v != Served {
		return // an outage refuses all; it says nothing of the others
	}
	dt := max(s-c.seenAt, 0)
	c.seenAt = s
	if c.crowded {
		every := trialEvery
		if c.misled {
			every = misledEvery
		}
		if trial(a.epoch.Add(seconds(s)), every) {
			*c = company{strainedSince: s, seenAt: s, best: c.best}
		}
		return
	}
	empty := 0.0
	if l.r < 1 {
		empty = 1
	}
	weight := dt / (recentOver + dt)
	c.empty += (empty - c.empty) * weight
	c.marks += (max(0, 1-l.r/l.h) - c.marks) * weight
	c.best = max(c.best*bestOver/(bestOver+dt), l.theta)
	if l.window || l.h >= steady || c.empty < emptyShare && c.marks < marked {
		c.strainedSince, c.answers = s, 0
	}
	c.answers++
	c.crowded = s-c.strainedSince >= sustained && c.answers >= leastAnswers
}

// trial reports whether at now all clients yield, as they do once in every. Whole seconds
// count from any time on, where nanoseconds do for 292 years before and after 1970.
func trial(now time.Time, every time.Duration) bool {
	most := int64(every.Seconds())
	return (now.Unix()%most+most)%most < int64(trialFor.Seconds())
}

// refusals finds out whether what remains misleads: a client that follows it is
// hardly ever refused, where others do not empty the bucket. The further refusals
// of a row do not count, as an outage is one row. Of a window of few requests a crowd
// sends as many as there are clients as soon as it opens.
func (c *company) refusals(l *level, s float64, v Verdict) {
	if !l.on || v == Throttled && l.row > 0 {
		return
	}
	most := misledMost
	if l.window { // one refusal at the end of each is what it costs to use it up
		if most = crowdedBy; l.brim()+1 >= crowdedOf {
			c.soundAt = s
			return
		}
	}
	share := 0.0
	if v == Throttled {
		share = 1
	}
	c.refused += (share - c.refused) / misledOver
	if c.refused <= most {
		c.soundAt = s
	}
	if s-c.soundAt > misledFor {
		c.crowded, c.misled = true, true
	}
}

// turns notices that an answer tells of another limit than the last one: of several a server
// tells of the one that binds, now of this and now of that. How far what remains leaps then is
// no swing, which would leave the level of the smaller one below h for good.
func (l *level) turns(o Outcome, unit float64) {
	h, k := o.Hints, &l.kept
	r, quota := float64(h.Remaining.V)/unit, float64(h.Limit.V)
	if k.length > 0 && quota > 0 && h.Window.V > 0 && (h.Window.V.Seconds() != k.length || max(quota, k.quota) >= 2*min(quota, k.quota)) {
		l.swing, l.buckets, l.divided = 0, buckets{}, divided{}
	}
	if h.Remaining.OK && o.Verdict == Served && r >= smallest && l.shown-r >= limitFall && l.shown >= limitFactor*r {
		l.swing = 0
	}
}

// leaveLevel goes on without hints. Where the others do not yield it begins
// at twice the best rate of late, as it was held down by them, and grows
// steeply; one throttled answer puts that right.
func (a *Adaptive) leaveLevel(s float64) {
	l := &a.level
	if !a.on {
		a.born = s
	}
	l.on, a.on = false, true
	a.base = max(l.theta, l.company.best, slowest)
	if a.divisible() && l.peers >= 1 { // what each has of it is chance so far: half way to an even part
		a.base = math.Sqrt(a.base * l.policy / l.peers)
	}
	a.refused, a.trust = 0, leastTrust
	if l.company.crowded && !l.company.misled {
		a.base, a.trust = max(a.base, 2*l.company.best), mostTrust
	}
	a.cut(s)
	if l.company.crowded && !l.company.misled {
		a.resumedAt = s - a.period // as if a period had passed
		a.base *= math.Exp(-growthPerT)
	}
}

// share is this caller's fair part according to the server, a second. It is not
// obeyed: the rate is drawn to it, and the law goes on from there, since a
// caller that leaves a part unused leaves it to others, and since a server may
// be wrong. A part that is new becomes the rate at once, by a factor of leap at
// most; it is new when two answers in a row agree on it, and differ from the
// last that was so agreed. From then on theta is drawn to below times the part,
// with the time constant drawn, against growth and marks.
type share struct{ said, agreed, at float64 }

const (
	sameShare = 1.1  // factor within which shares are the same
	leap      = 10.0 // factor by which a rate changes at most
	below     = 0.6  // of its part a client aims at; f makes up the rest: r stands at 1.7 h
	drawn     = 5.0  // seconds
)

// follow takes in the share that an answer at s states.
func (a *Adaptive) follow(s float64, said Opt[float64]) {
	if !said.OK || a.Blind || !(said.V > 0) {
		return
	}
	said.V /= a.costs.unit()
	h := &a.share
	again, fresh, dt := same(said.V, h.said), !same(said.V, h.agreed), max(s-h.at, 0)
	h.said, h.at = said.V, s
	if !again {
		return
	}
	h.agreed = said.V
	target := min(max(below*said.V*a.weight(), slowest), fastest)
	switch l := &a.level; {
	case l.on && l.window: // it says all there is to know
	case l.on:
		now, pull := l.theta, dt/(dt+drawn)
		if fresh {
			pull = 1
		}
		change := min(max(math.Log(target/now), -math.Log(leap)), math.Log(leap))
		l.theta = now * math.Exp(pull*change)
		l.grownAt = s
	case a.on && fresh:
		now := a.rate(s)
		a.base = min(max(target, now/leap), now*leap)
		a.cut(s)
	}
}

// same reports whether two rates are about equal; nothing is the same as zero.
func same(a, b float64) bool { return a <= b*sameShare && b <= a*sameShare }
