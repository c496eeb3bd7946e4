package pace

import "math"

// kept keeps a client to the policy that the server states: it logs the client's own
// starts, and admits no more of them than the quota in any time as long as the window.
// That is all that a server grants which counts this client alone, in a log, in slots,
// or in a window that the first request opens; in windows at fixed times it loses
// nothing in the long run.
//
// The log holds while it explains what the server does, that is, while the client is
// refused after it has used the quota, or while what remains of the quota, where the server
// says so, falls by no more than the client used. A client that is refused earlier shares
// the limit with others; one that is served beyond the quota has more than was stated,
// such as a bucket's burst. Both go by the law without hints, or by the level.
//
// The log keeps the end of each of 32 groups of starts, so that any quota needs the
// same room. It counts costs, in the unit of the policy.
type kept struct {
	quota, length float64                // the policy; zero: none is stated
	long          float64                // seconds for which the server counts a start, as learnt
	ends          [groups + late]float64 // when the last start of each group was, in turn
	full          int                    // groups so far, but the last
	filled        float64                // of the last
	sure          int                    // refusals that it explained, less what contradicted
	mismatchAt    float64                // when what remains last was not what it has
	agrees        bool                   // that was a window ago, and most of the quota was used since
	holds         bool                   // it is kept to
	round         float64                // what was sent before, and refused, is of the refusals so far
}

const (
	groups     = 32
	late       = 8 // groups that may start beyond the quota, and be taken back
	convinced  = 2 // what makes it hold
	mostSure   = 4
	leastSure  = -16
	unlikely   = -3   // at which nothing is held back for it before the first refusal
	inTurn     = 16   // answers, one after another, that fit in a window,
	inTime     = 8    // and at least, that what they say remains is compared
	nearly     = 0.9  // of the quota
	atRest     = 1.5  // less than that, as the level leaves so much of a small one
	longerBy   = 0.05 // of the window, where the server counts longer: in slots, or whole seconds
	longerMost = 0.25
)

// size is how much a group is of, and how many of them are a quota.
func (k *kept) size() (of float64, n int) {
	of = max(math.Ceil(k.quota/groups), 1)
	return of, max(int(k.quota/of), 1)
}

// follow takes in the policy as stated, and goes on with the log.
func (k *kept) follow(quota, length, rtt float64) {
	if quota == k.quota && length == k.length {
		return
	}
	old := *k
	of, _ := old.size()
	*k = kept{quota: quota, length: length, long: length + rtt/4, sure: old.sure, mismatchAt: old.mismatchAt, agrees: old.agrees, holds: old.holds, round: old.round}
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

// forget takes back so much of what was started last.
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

// used is what was started in so many seconds until s.
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

// free is when the next may start.
func (k *kept) free() float64 {
	_, n := k.size()
	if k.length == 0 || k.full < n {
		return 0
	}
	return k.ends[(k.full-n)%len(k.ends)] + k.long
}

// spent reports whether the quota is used up at s, as far as is known. Where answers
// take a large part of the window, it says no: sent one at a time, too few would fit
// in a window to show that the server grants more.
func (k *kept) spent(s, rtt float64) bool {
	return k.sure > unlikely && k.free() > s && rtt <= k.length/inTurn
}

// ended settles what a request was said to cost when it started, and what it did: a
// refusal is not charged.
func (k *kept) ended(s float64, o Outcome) {
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

// observe learns from the answer at s to what was sent then. A refusal may say after
// how many seconds to come back; zero: it does not. What remains is believed only while
// the client is alone, as far as is known.
func (k *kept) observe(s, sent, rtt, after float64, alone bool, o Outcome) {
	switch {
	case k.length == 0:
	case o.Verdict == Throttled && sent >= k.round:
		k.round = s
		k.refused(s, sent, after, charged(o.Request.Cost))
	case o.Verdict == Served && k.used(sent, nearly*k.length-rtt)-charged(o.Request.Cost) >= k.quota:
		k.sure--
	case o.Verdict == Served && o.Hints.Remaining.OK && rtt <= k.length/inTime:
		k.told(s, sent, k.quota-float64(max(o.Hints.Remaining.V, 0)), alone)
	}
	k.sure = min(max(k.sure, leastSure), mostSure)
	k.holds = k.sure >= convinced || k.agrees || k.holds && k.sure > 0
}

// told learns from the answer at s to what was sent then, which says that so much of the
// quota was used. That is what the log has, give or take a group, where it is that of a client
// alone; a bucket shows less in the long run.
func (k *kept) told(s, sent, counted float64, alone bool) {
	// A start is counted at some time of its round trip, and until a window after that: those
	// within a round trip of either end of the window may be counted or not.
	rtt := s - sent
	of, _ := k.size()
	least := k.used(sent-rtt, k.length-2*rtt) - (of - 1)
	most := k.used(s, max(k.long, k.length+rtt)+rtt) + of - 1
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
	used, longer := k.used(sent, k.long), k.used(sent, most)
	switch {
	case used+cost <= k.quota && longer > used && longer >= nearly*k.quota && k.long < most:
		k.sure++
		k.long = min(k.long+longerBy*k.length, most)
	case used >= nearly*k.quota:
		k.sure++
	default:
		k.sure--
		k.mismatchAt, k.agrees = s, false
	}
	switch {
	case after <= 0:
	case s+after < free-longerBy*k.length: // a window ends, and with it what was used
		k.full, k.filled = 0, 0
	case s+after < free+max(slack, longerBy*k.length): // the server says the same
		k.sure++
	}
}
