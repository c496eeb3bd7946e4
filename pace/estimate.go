package pace

import "math"

// estimate is what an Adaptive without hints knows of its limit. It thinks in
// rows of refusals, between which something was served:
//
//   - The first refusal of a row says that the limit was reached. From the first
//     of one row to the first of the next, n requests were served in t seconds,
//     from empty to empty: n/t is the limit, or this client's part of it, whatever
//     the burst and the latency. The rate x of before counts as trust requests:
//
//     base = exp(-L/weight) × min(x, (n + trust) / (t + trust/x))
//
//     trust is the confidence in x. It begins with a few requests, so that the
//     first rows move the rate far; it adds up what was served, and is halved by a
//     row in which next to nothing was. In n count requests that failed as well, or taught
//     nothing, as they had their turns of t: else an outage would cut base to next to nothing.
//
//   - The further refusals of a row say only that the limit still holds, or that
//     the server is away. They cut base by half of L, and space what is sent to
//     see: each time by 1/0.6, up to Probe, or 8 intervals, or an eighth of this row
//     or the last where those are longer, and 20 minutes, or an interval, at most.
//
//   - The first that is served ends the row. The rate comes back to base by a factor
//     of 3 with each request that is served. A row counts as time in t up to twice the
//     row before, or three times the time of service: windows are used up time after
//     time, an outage comes once. One longer than T that did not come before, in a life
//     longer than it, is an outage, and counts by the row before alone.
//
// T, the time in which the rate feels its way up by G, is Probe at the usual
// rate and falls with the rate to the power of -0.2, so that x T p = G/L still has
// one x for each share p that is throttled, and all come to the same. It is at
// most twice the age of the estimate, which is about the same for all that start
// together, and at least a second, four round trips, half of the last row up to what T
// is in the end, that row whole if the one before was half as long, and as many requests
// as were served since the first refusal, 50 at most. Below 0.35 a second these are
// fewer, by the rate to the power of 0.4: were they as many at any rate, the smaller of
// two shares would come back more slowly than it loses, and be lost in a day. In the long
// run T is of more requests, a twelfth of those served, 90 at most at the usual rate and Probe,
// by the rate to the power of 0.3: with few, chance decides who is refused, and in days takes the
// shares of slow clients; one that has been served for hours can wait longer to find a rise.
// t is at most twice as long as what was served would have taken at base: while the rate
// comes back to base, hardly anything grows.
//
// A fixed window refuses all who share it until it opens again, and gives what was not used
// of the one before to nobody: n/t is too little. Where rows end in a cycle, base is the
// rate at which the row began, less the part of the window in which nothing was served, and
// T is about the window: see spread. In windows below half of T not all are refused in each.
type estimate struct {
	base        float64 // base: the rate a second after the last row
	trust       float64 // in requests, what floor is worth
	period      float64 // T, seconds
	accepted    float64 // how many were sent since the last row began, and served
	failed      float64 // and how many failed instead, or taught nothing
	evidence    float64 // served since it began to learn, less where base fell
	refused     int     // of the row that has not ended; 0: it has
	rowAt       float64 // when the last row began
	roundAt     float64 // what was sent before, and refused, is of the refusals so far
	resumedAt   float64 // when the last row ended
	idle        float64 // seconds since then in which no request waited
	lastRow     float64 // how long the last row was, seconds
	rowBefore   float64 // and the one before
	resumeRate  float64 // the rate at the end of a row of several; zero: none
	born        float64 // when it began to learn
	unpacedRate float64 // rate served in a window of seconds in full, before the first refusal
	cycle
}

// cycle is what the ends of long rows say of a limit that is a fixed window: it opens again
// every so many seconds, for all who share it. A long row in the middle of a window, as of a
// short outage, leaves half of its length, or another part: base is cut too deep from then on.
type cycle struct {
	every         float64 // seconds; zero: not known
	from, to      float64 // the last opening was between these instants; zero: none was seen
	statedOpening float64 // the opening that a Retry-After named last
	rowRate       float64 // the rate a second at which the last row began
}

const (
	growthPerT    = 0.06       // G: growth in the first T
	steep         = 0.55       // of ψ beyond T
	usualCut      = 0.07       // L: how deep an ordinary cut is
	deepestCut    = 0.5        // however small the weight
	leastTrust    = 3.0        // requests
	mostTrust     = 100.0      // requests
	rowSpacing    = 0.6        // of the rate, by each further refusal of a row
	triesPerRow   = 8.0        // tries in the time of a row, once they are far apart
	longRow       = 2.0        // intervals without service, after which a row is long
	mostPhase     = 0.1        // of a window, by which openings may be out of step,
	mostVague     = 0.5        // and to which their distance must be known
	openingError  = 3.0        // seconds by which an opening that is named may be off
	windowSpan    = 50.0       // requests served in a window whose T it is
	catchUp       = 3.0        // factor of the rate by each request served after a row
	rowTimes      = 3.0        // times the time of service that a row counts at once
	probePower    = 0.2        // how T falls with the rate
	usualRate     = 0.55       // the rate a second at which T is Probe
	usualProbe    = 60.0       // seconds, if there is none
	sampleOf      = 10.0       // requests, or seconds, that measure a rate
	span          = 50.0       // requests in T, at most,
	lowRate       = 0.35       // a second; below it fewer,
	shrinks       = 0.4        // by this power of the rate; in the long run
	longSpanPart  = 12.0       // a twelfth of those served, if that is more,
	policyPart    = 1.0 / 16   // of a stated policy: the rate at which T is of span requests,
	policyPower   = 0.6        // and by this power of the rate; in the long run
	floodSpan     = 50.0       // requests of T once the part of a burst is known, that of one
	mostSharers   = 100.0      // of so many clients at most
	longSpan      = 90.0       // at most at the usual rate and Probe,
	longSpanPower = 0.3        // and by this power of the rate
	firstRate     = 1.0        // a second, when the very first answer is a refusal
	slowest       = 1.0 / 7200 // a second: one request in two hours
	slowestInRow  = 1.0 / 1200 // a second: further refusals alone make it no slower
	longestT      = 7200.0     // T at most, seconds
	shortestT     = 1.0        // and at least
)

// observe learns from an answer without hints.
func (a *Adaptive) observe(s, sent float64, v Verdict) {
	switch {
	case v == Served && !a.on:
		a.measure(s)
	case v == Served && sent >= a.rowAt:
		if a.refused > 0 {
			a.resume(sent)
		}
		a.accepted++
		a.evidence++
	case v == Throttled && !a.on:
		a.begins(s, max(a.flooded(sent, a.measured(s, sent, a.accepted))*math.Exp(-a.cutDepth()), slowest))
		a.refused = 1
	case v == Throttled && sent >= a.roundAt:
		a.throttled(s, sent)
	}
}

// begins begins to pace, at that rate a second.
func (a *Adaptive) begins(s, rate float64) {
	a.on = true
	a.base, a.trust, a.born = rate, leastTrust, s
	a.cut(s)
	a.refused, a.lastRow, a.rowBefore = 0, 0, 0
}

// measure counts what is served before the first refusal, in windows of ten
// requests or ten seconds, at least a second.
func (a *Adaptive) measure(s float64) {
	if long := s - a.rowAt; long > 1 && (a.accepted >= sampleOf || long > sampleOf) {
		a.unpacedRate = a.accepted / long
		a.rowAt, a.accepted = s, 0
	}
	a.accepted++
	a.first.served++
}

// measured is the rate to begin with: what was served in a window in full, or
// half of what was served in this one.
func (a *Adaptive) measured(s, sent, served float64) float64 {
	rate := firstRate * a.weight()
	if served > 0 {
		if a.rowAt == 0 {
			s = sent // the first answers took a round trip
		}
		rate = max(a.unpacedRate, 0.5*served/max(s-a.rowAt, a.rtt/2, 0.05))
	}
	if c := a.level.policy; c > 0 {
		if a.unpacedRate == 0 && a.accepted < sampleOf {
			rate = max(rate, c/4)
		}
		rate = min(rate, c)
	}
	if part := a.share.agreed * a.weight(); part > 0 { // but not if it is absurd
		rate = min(max(part, rate/leap), rate*leap)
	}
	return rate
}

// flooded returns the rate to begin with after the first refusal, of what was sent then: this
// client's part of the policy if it helped to empty a full bucket or window, else rate. The
// part is what it was served of the stated burst and of the policy since, as each client
// that came at the same time was served as much.
func (a *Adaptive) flooded(sent, rate float64) float64 {
	c, k := a.level.policy, &a.level.kept
	there, served := a.level.full+1+c*sent, a.first.served
	if c == 0 || served < max(c*sent, there/mostSharers) || k.used(sent, k.length) >= nearly*k.quota {
		return rate
	}
	a.evidence = floodSpan
	return min(rate, c*served/there)
}

// throttled takes a refusal of what was sent after the last that counted.
func (a *Adaptive) throttled(s, sent float64) {
	rate := a.rate(s)
	if a.level.on {
		rate = a.level.theta
	}
	if a.refused++; a.refused > 1 {
		a.roundAt, a.last = s, s
		a.fall(max(a.base*math.Exp(-a.cutDepth()/2), min(a.base, slowestInRow)))
		a.trust = max(leastTrust, a.trust/2)
		return
	}
	live := max(sent-max(a.resumedAt, a.rowAt)-a.idle, 0) // liveAt is earlier where growth began with a lead
	once := rowTimes * live
	if a.lastRow > max(a.period, a.settled()) && a.rowAt-a.born > a.lastRow {
		once = 0 // an outage: a window would have shown itself before
	}
	t := live + min(a.lastRow, max(2*a.rowBefore, 2/rate, once))
	served := (a.accepted + a.failed + a.trust) / (t + a.trust/rate)
	if a.accepted < leastTrust {
		a.trust = max(leastTrust, a.trust/2)
	} else {
		a.trust = min(mostTrust, a.trust+a.accepted)
	}
	a.rowRate = rate
	a.fall(max(min(served, rate)*math.Exp(-a.cutDepth()), slowest))
	a.cut(s)
}

// fall sets base to what a refusal made of it. Requests that were served at a higher rate
// say less of the limit, so the number that T may span falls with the root of base.
func (a *Adaptive) fall(to float64) {
	a.evidence *= min(1, math.Sqrt(to/a.base))
	a.base = to
}

// resume ends a row of refusals: the first that was served after it left at sent.
func (a *Adaptive) resume(sent float64) {
	a.resumeRate = 0
	if a.level.policy > 0 && a.evidence+a.first.served == 0 { // others took all that was there
		a.base = max(min(a.base, 1/sent), slowest)
	}
	if a.refused > 1 {
		a.resumeRate = a.felt(sent)
	}
	a.rowBefore, a.lastRow = a.lastRow, max(sent-a.rowAt-a.idle, 0)
	a.refused, a.resumedAt, a.idle = 0, sent, 0
	if a.lastRow >= longRow/a.base && a.opens(a.opening(sent)) && a.every > max(a.lastRow, a.settled()/2) {
		a.spread()
		return
	}
	// T is no shorter than this, however young the estimate was when the row began. All whom a
	// window shuts out see the same rows, so it is alike for them where rows repeat.
	repeats := min(a.lastRow, 2*a.rowBefore)
	a.period = max(a.period, min(max(a.lastRow/2, repeats), max(a.settled(), repeats), longestT))
}

// opening returns between which instants the limit opened again, when what left at sent is
// the first that was served.
func (a *Adaptive) opening(sent float64) (from, to float64) {
	if a.statedOpening > a.rowAt && sent >= a.statedOpening-openingError {
		return a.statedOpening - openingError, a.statedOpening + openingError
	}
	return a.roundAt - a.rtt, sent
}

// opens takes in that the limit opened between from and to, and reports whether it does so
// in a cycle: the last opening was a whole number of windows before.
func (c *cycle) opens(from, to float64) bool {
	least, most, seen := from-c.to, to-c.from, c.to > 0
	c.from, c.to = from, to
	if !seen {
		return false
	}
	n := max(1, math.Round((least+most)/2/c.every))
	every := min(max(c.every, least/n), most/n)
	if c.every > 0 && n*math.Abs(every-c.every) < mostPhase*c.every && most-least < mostVague*c.every {
		c.every = every
		return true
	}
	c.every = (least + most) / 2
	return false
}

// spread spreads over a window what this client is served of it. All who share it are
// refused at once, so nothing but a slower growth of those who have more makes them equal:
// T goes by the root of the root of what was served, from half a window to two.
func (a *Adaptive) spread() {
	a.base = max(a.rowRate*math.Exp(-a.cutDepth())*max(1-a.lastRow/a.every, 0.1), slowest)
	t := a.every * min(max(math.Pow(a.rowRate*a.every/windowSpan, 0.25), 0.5), 2)
	a.period = min(max(t, shortestT), longestT)
}

// cut begins a new row at floor, or what is as good as one.
func (a *Adaptive) cut(s float64) {
	a.rowAt, a.roundAt, a.resumedAt, a.last, a.accepted, a.failed, a.idle = s, s, s, s, 0, 0, 0
	t := min(2*(s-a.born), a.settled())
	young := span * min(1, math.Pow(a.base/(lowRate*a.weight()), shrinks))
	if c := a.level.policy; c > 0 { // what is stated need not be felt for, however slow it is
		young = span * math.Pow(a.base/(policyPart*c*a.weight()), policyPower)
	}
	old := min(a.evidence/longSpanPart, longSpan*a.probe()/usualProbe*math.Pow(a.base/(usualRate*a.weight()), longSpanPower))
	requests := min(max(a.evidence, 1), max(young, old))
	a.period = min(longestT, max(t, requests/a.base, 4*a.rtt, shortestT))
	if a.level.policy > 0 {
		a.period = max(a.period, requests/a.base) // longer than longest
	}
}

// settled is T of an estimate that is no longer young.
func (a *Adaptive) settled() float64 {
	return a.probe() * math.Pow(usualRate*a.weight()/a.base, probePower)
}

// felt is the rate a second at s, as felt without hints.
func (a *Adaptive) felt(s float64) float64 {
	if a.refused > 0 {
		least := min(1/a.probe(), a.base/8, triesPerRow/max(a.lastRow, a.roundAt-a.rowAt))
		return max(a.base*math.Pow(rowSpacing, float64(a.refused-1)), least, min(a.base, slowestInRow))
	}
	u := a.elapsed(s) / a.period
	const bend = 1 + (4*math.Ln2-growthPerT)/(2*steep) // where ψ' = G + 2 steep (u-1) reaches 4 doublings
	psi := growthPerT * u
	if u > 1 {
		v := min(u, bend)
		psi += steep * ((v-1)*(v-1) + 2*(u-v)*(bend-1))
	}
	rate := a.base * math.Exp(min(psi, 50))
	if a.resumeRate > 0 && a.accepted < 25 { // beyond, catch^accepted is as good as endless
		rate = min(rate, a.resumeRate*math.Pow(catchUp, a.accepted))
	}
	return rate
}

// scale multiplies base by f, as the stated policy became f times as fast at s, and counts
// the time so far in intervals of the policy. Scaled by 1/f it is as it was. When a row began
// stays, as what left before it does not end it.
func (a *Adaptive) scale(s, f float64) {
	a.base = min(max(a.base*f, slowest), fastest)
	times := [...]*float64{&a.resumedAt, &a.born, &a.rowAt}
	row := len(times) - min(a.refused, 1)
	for _, x := range times[:row] {
		*x = s - (s-*x)/f
	}
	for _, x := range [...]*float64{&a.idle, &a.lastRow, &a.rowBefore, &a.period} {
		*x /= f
	}
}

// elapsed is the time since the last row in which the rate was the limit, at most twice what
// the requests served since would have taken at base: while the rate comes back, base does not bind.
func (a *Adaptive) elapsed(s float64) float64 {
	lead := max(a.rowAt-a.resumedAt, 0)
	live := s - max(a.resumedAt, a.rowAt) - a.idle
	return max(lead+min(live, 2*(a.accepted+1)/a.base), 0)
}

// gentle is how deep an ordinary cut is: L for a Weight of 1. With w times the
// requests there are w times the throttled answers, so each cuts by L/w and
// rates per weight behave like those of ordinary clients.
func (a *Adaptive) cutDepth() float64 { return min(usualCut/a.weight(), deepestCut) }

// first bounds what an Adaptive has in flight before anything is known of the limit.
// Hundreds of workers that wake together are not to be refused all at once when they
// meet it; but an answer that is long in coming, a stream or a connection that hangs,
// is no refusal, and holds back the others for a moment only. As many are in flight as
// have been served, or as the server's hints allow, and beyond those one, two, four and
// eight, a doubling every 0.35 s, and then a doubling every 2 s.
type first struct {
	served float64 // requests
	began  float64 // when the flight that is out began
}

const (
	doubling      = 0.35 // seconds, up to
	earlyFlight   = 7.0  // in flight beyond what has been served, and then
	laterDoubling = 2.0  // seconds
)

// next returns the earliest instant for the next start beside flying others; hints allow
// lead of them. Where a policy of so many a second is stated, it allows a quarter of what was
// served, or what the policy serves in a round trip, as others may come to it at the same
// time; beyond, the next waits for an answer for patience, or four round trips.
func (f *first) next(flying int, lead, policy, rtt float64) float64 {
	most, least := max(f.served, lead), 0.0
	if policy > 0 {
		most = max(f.served/4, lead)
		if float64(flying) > max(most, policy*rtt) {
			least = f.began + max(patience, 4*rtt)
		}
	}
	switch beyond := float64(flying) - most; {
	case beyond <= 0:
		return least
	case beyond <= earlyFlight:
		return max(least, f.began+doubling*math.Log2(beyond+1))
	default:
		return max(least, f.began+doubling*math.Log2(earlyFlight+1)+laterDoubling*math.Log2((beyond+1)/(earlyFlight+1)))
	}
}
