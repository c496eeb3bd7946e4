package pace

import "math"

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

// observe learns from the answer at s to a request sent at sent; after is its Retry-After in
// seconds, zero if none. What remains is compared only while the client is alone.
func (k *kept) observe(s, sent, rtt, after float64, alone bool, o Outcome) {
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
