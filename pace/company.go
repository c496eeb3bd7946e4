package pace

import (
	"math"
	"time"
)

// company finds out whether the other clients of the bucket yield. The law by level slows down
// as the bucket runs low. Clients that push on until they are refused keep it low for good, and
// starve one that yields, as TCP Reno does TCP Vegas. Among clients that all yield the bucket is
// hardly ever empty, and marks stay near what balances growth. Where either is not so for long,
// others do not yield, and the law by refusals takes over, which holds its own against them.
//
// Two clients that had both given up on each other would never find out. So every half an hour
// by the wall clock all of them go by the level for two minutes, at the same time, and see.
type company struct {
	crowded       bool    // the others do not yield, or misled
	misled        bool    // what remains does not foretell refusals
	refused       float64 // share of answers that are the first refusal of a row
	soundAt       float64 // when that share last was low enough
	empty         float64 // share of answers that saw the bucket empty
	marks         float64 // mean mark 1 - r/h; an answer above h counts as 0
	best          float64 // highest theta lately, requests a second
	strainedSince float64 // since when either looks as if others do not yield
	seenAt        float64 // when the last request was served
	answers       float64 // since strainedSince, those that saw it empty thrice
}

const (
	emptyShare   = 0.05  // share of answers that see an empty bucket,
	marked       = 0.6   // or mean mark, above which others do not yield: balancing growth takes less
	leastAnswers = 60    // answers at least, as few may be chance; those that see it empty count thrice
	misledOver   = 24    // answers that refused is a mean over
	misledMost   = 0.06  // highest share that is sound,
	misledFor    = 240.0 // seconds for which it may be above
	crowdedOf    = 24.0  // in a window of fewer requests,
	crowdedBy    = 0.2   // it may be this
	sustained    = 120.0 // seconds, for others to count as not yielding
	recentOver   = 60.0  // time constant of empty and marks, seconds
	bestOver     = 600.0 // time constant of best, seconds
	// From this h on the level swings far by itself, so an empty bucket proves nothing.
	steady = widest / 8

	limitFall   = 32.0 // requests by which what remains falls at once where it is of another limit,
	limitFactor = 6.0  // and by this factor

	trialEvery = 30 * time.Minute
	trialFor   = 2 * time.Minute
	// What remains misleads for as long as the server is what it is.
	misledEvery = 12 * trialEvery
)

// observe learns from the answer at s, once r and h are up to date.
func (c *company) observe(a *Adaptive, s float64, v Verdict) {
	l := &a.level
	if a.stock.varies && a.stock.known { // a dear request swings the level, and is refused where others are not
		c.soundAt, c.strainedSince = s, s
	}
	if c.refusals(l, s, v); v != Served {
		return // an outage refuses all, and says nothing of other clients
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
	c.answers += 1 + 2*empty
	c.crowded = s-c.strainedSince >= sustained && c.answers >= leastAnswers
}

// trial reports whether now is in the two minutes, once in every, in which all clients go by the
// level. It counts in seconds, as nanoseconds since 1970 overflow after 292 years.
func trial(now time.Time, every time.Duration) bool {
	most := int64(every.Seconds())
	return (now.Unix()%most+most)%most < int64(trialFor.Seconds())
}

// refusals finds out whether what remains misleads: a client that follows it is hardly ever
// refused, unless others empty the bucket. Further refusals of a row do not count, as an outage
// is one row. In a window of few requests all clients of a crowd send as soon as it opens.
func (c *company) refusals(l *level, s float64, v Verdict) {
	if !l.on || v == Throttled && l.row > 0 {
		return
	}
	most := misledMost
	if l.window { // one refusal at its end is the price of using it up
		if most = crowdedBy; l.fullLevel()+1 >= crowdedOf {
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

// switched notices an answer that tells of another limit than the last, as a server with several
// limits tells of the one that binds. The jump of what remains is no swing of the level: it
// would keep h above the level of the smaller limit.
func (l *level) switched(o *Outcome, unit float64) {
	h, k := o.Hints, &l.kept
	r, quota := float64(h.Remaining.V)/unit, float64(h.Limit.V)
	if k.length > 0 && quota > 0 && h.Window.V > 0 && (h.Window.V.Seconds() != k.length || max(quota, k.quota) >= 2*min(quota, k.quota)) {
		l.swing, l.buckets, l.divided = 0, buckets{}, divided{}
	}
	if h.Remaining.OK && o.Verdict == Served && r >= smallest && l.shown-r >= limitFall && l.shown >= limitFactor*r {
		l.swing = 0
	}
}

// leaveLevel goes on by refusals. Where others do not yield it starts at twice the best rate of
// late, as they held it down, and grows steeply at once; the next refusal corrects that.
func (a *Adaptive) leaveLevel(s float64) {
	l := &a.level
	l.on = false
	a.base = max(l.theta, l.company.best, slowest)
	if a.divisible() && l.peers >= 1 { // parts are chance so far: start half way to an even part
		a.base = math.Sqrt(a.base * l.policy / l.peers)
	}
	a.refused, a.trust = 0, leastTrust
	if l.company.crowded && !l.company.misled {
		a.base, a.trust = max(a.base, 2*l.company.best), mostTrust
	}
	a.cut(s)
	if l.company.crowded && !l.company.misled {
		a.resumedAt = s - a.period // growth starts one T ahead
		a.base *= math.Exp(-growthPerT)
	}
}

// share is this caller's fair share, as the server states it, in requests a second. It does not
// bind, as callers that leave some unused leave it to others, and as servers may be wrong: it
// only draws theta to itself, while the law goes on. A share on which two answers agree, and
// which differs from the last such, becomes the rate at once, by a factor of leap at most. From
// then on theta is drawn to below times the share, against growth and marks.
type share struct{ said, agreed, at float64 }

const (
	sameShare = 1.1  // factor within which shares are equal
	leap      = 10.0 // largest change of a rate by a share, as a factor
	below     = 0.6  // part of the share that theta aims at; f makes up the rest, so r stands near 1.5 h
	drawn     = 5.0  // time constant, seconds
)

// follow records the share that an answer at s states, and draws theta to it.
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

// same reports whether two rates are about equal; none is to zero.
func same(a, b float64) bool { return a <= b*sameShare && b <= a*sameShare }
