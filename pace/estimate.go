package pace

import "math"

// estimate is the law by refusals: what an Adaptive learns of its limit from served and
// throttled answers alone. docs/control.md derives it. A row is a run of refusals between
// which nothing is served.
//
//   - The first refusal of a row shows an empty bucket. From the first refusal of one
//     row to that of the next, from empty to empty, n requests were served in d seconds:
//     n/d is the limit, or this client's part of it, whatever the burst and the latency.
//     The rate x so far weighs as much as trust requests:
//
//     base = exp(-L/weight) × min(x, (n + trust) / (d + trust/x))
//
//     L is up to half as deep where no request waited for the rate.
//     trust, the confidence in x, starts low, so that the first rows move the rate far.
//     A row adds the number served to it, or halves it if next to nothing was served.
//     Requests that failed or were ignored count in n, as they used up part of d: else an
//     outage in which calls fail would cut base to next to nothing.
//
//   - Further refusals of a row say only that the limit still holds, or that the server
//     is down. Each cuts base by L/2, halves trust, and multiplies the interval between
//     tries by 1/0.6, up to the longest of Probe, 8 intervals at base, and 1/8 of this row
//     or the last; 20 minutes at most, or one interval at base. A row of eight refusals or more
//     counts as one, see down.
//
//   - A first row much longer than the time before it is a flood: the client used up a window, a
//     log or slots at once. The limit gives what was served before the row in that time and the
//     row together, so base is n over both. From then on each further refusal of a row cuts half
//     as deep, L/4, and leaves trust as it is.
//
//   - The first request served ends the row. Each one served triples the rate, until it
//     is back at base. In d, a row counts for at most twice the row before or three times
//     the serving time, as used-up windows recur and an outage does not. A first row
//     longer than T, in a life longer than it, is an outage: the row before alone counts.
//
// T is the time in which the rate grows by G. It is Probe at the usual rate and goes as
// rate^-0.2: in equilibrium rate × T × (share throttled) = G/L, so one share throttled
// means one rate for all clients. Bounds of T, see cut and resume:
//
//   - At most twice the age of the estimate, which is alike for clients that start together.
//   - At least a second, four round trips, half of the last row (up to the settled T), and
//     all of that row if the one before was at least half as long.
//   - At least the duration of a flood, or the age of the estimate if that is less: a log shows
//     only after its length what a rate was worth.
//   - At least as many requests as were served since the first refusal, up to 50. Below
//     0.35/s that bound falls as rate^0.4: with the same number at any rate, the smaller of
//     two shares would recover more slowly than it is cut, and vanish in a day.
//   - In the long run, at least 1/12 of the requests served, up to 90 × (rate/usual)^0.3:
//     with few requests in T, chance decides who is refused, and takes the shares of slow
//     clients in days. A client that has run for hours can find a rise later.
//
// A fixed window refuses all its clients until it opens again, and what one window leaves
// unused is lost, so n/d is too low. Where rows end in a cycle, spread sets base and T by the
// window, if it is longer than half of T: in shorter ones not all clients are refused each time.
type estimate struct {
	base        float64 // requests a second after the last row
	trust       float64 // confidence in base, requests
	period      float64 // T, seconds
	accepted    float64 // requests sent since the last row began, and served
	failed      float64 // the same, failed or ignored
	evidence    float64 // requests served since the first refusal, discounted as base falls: they bound T
	refused     int     // refusals in the current row; 0: in none
	rowAt       float64 // when the last row began
	roundAt     float64 // refusals of requests sent before belong to the last that counted
	resumedAt   float64 // when the last row ended; earlier, where growth has a lead
	idle        float64 // seconds since then in which no request waited
	lastRow     float64 // duration of the last row, seconds
	rowBefore   float64 // of the row before it
	flood       float64 // duration of the first row, if that was a flood, seconds; zero: it was not
	resumeRate  float64 // rate at the end of a row of several refusals; zero: none
	born        float64 // when it began to pace
	unpacedRate float64 // served a second in a full sample before the first refusal
	cycle
}

// cycle recognises a fixed window by the ends of long rows: it opens every so many seconds
// for all its clients. A long row in the middle of a window, as in a short outage, makes the
// window look half as long or so, and base is too low from then on.
type cycle struct {
	every         float64 // length of the window, seconds; zero: not known
	from, to      float64 // the last opening was between these instants; zero: none seen
	statedOpening float64 // the opening that a Retry-After stated last
	rowRate       float64 // requests a second when the last row began
}

const (
	growthPerT    = 0.06       // G: growth of ln(rate) in the first T
	steep         = 0.55       // curvature of ψ beyond T
	usualCut      = 0.07       // L: depth of an ordinary cut, in ln(rate)
	deepestCut    = 0.5        // L/weight at most
	cutInRow      = 0.5        // part of a cut by each further refusal of a row
	unheldCut     = 0.5        // part of a cut that is left out if no request waited for the rate
	leastTrust    = 3.0        // requests, at first
	mostTrust     = 100.0      // requests
	rowSpacing    = 0.6        // factor of the rate for each further refusal of a row
	triesPerRow   = 8.0        // tries at least in the time that a long row has lasted
	downRow       = 8          // refusals of a row that count as one, if it lasted
	downWindows   = 1.25       // stated windows
	longRow       = 2.0        // intervals without service that make a row long
	mostPhase     = 0.1        // part of a window by which openings may miss the cycle
	mostVague     = 0.5        // part of a window to which the distance of openings must be known
	openingError  = 3.0        // seconds by which a stated opening may be off
	windowSpan    = 50.0       // requests served in a window for which T is one window
	catchUp       = 3.0        // factor of the rate for each request served after a row
	rowTimes      = 3.0        // times the serving time that a row counts for in d, or twice the row before if more
	leastFlood    = 1.0 / 16   // a flood is longer than this part of T, and paced before for less than this part of itself
	wholePart     = 0.25       // part of the most that ever remained; with less a limit has not come back whole
	probePower    = 0.2        // T goes as rate^-0.2
	usualRate     = 0.55       // requests a second at which T is Probe
	usualProbe    = 60.0       // seconds, if Probe is zero
	span          = 50.0       // T is of at least so many requests, if as many were served;
	lowRate       = 0.35       // below so many requests a second of fewer,
	shrinks       = 0.4        // by this power of the rate
	longSpanPart  = 12.0       // in the long run of at least 1/12 of those served,
	policyPart    = 1.0 / 16   // part of a stated policy at which T is of at least span requests,
	policyPower   = 0.6        // and by this power of the rate
	mostPartSpan  = 50.0       // evidence once partOfBurst has measured a part of the policy,
	partSpan      = 10.0       // or so many for each request served: one of a burst of 1 looks like one of a crowd
	mostSharers   = 100.0      // a part smaller than that of one of 100 clients shows an empty limit
	longSpan      = 90.0       // but at most so many at the usual rate and Probe,
	longSpanPower = 0.3        // and by this power of the rate
	slowest       = 1.0 / 7200 // requests a second: one in two hours
	slowestInRow  = 1.0 / 1200 // requests a second: further refusals of a row cut base no lower
	longestT      = 7200.0     // seconds, T at most
	shortestT     = 1.0        // seconds, T at least
)

// observe learns from the answer at s to a request sent at sent, without its hints.
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
		a.begins(s, max(a.partOfBurst(sent, a.first.served, a.measured(s, sent, a.accepted))*math.Exp(-a.cutDepth()), slowest))
		a.refused = 1
	case v == Throttled && sent >= a.roundAt:
		a.throttled(s, sent)
	}
}

// begins starts to pace, at rate requests a second.
func (a *Adaptive) begins(s, rate float64) {
	a.on = true
	a.base, a.trust, a.born = rate, leastTrust, s
	a.cut(s)
}

// throttled learns from a refusal that is not part of the last that counted.
func (a *Adaptive) throttled(s, sent float64) {
	rate := a.rate(s)
	if a.level.on {
		rate = a.level.theta
	}
	if a.refused++; a.refused > 1 {
		a.roundAt, a.last = s, s
		part := cutInRow
		if a.flood > 0 { // it shuts again and again, which says less of the rate
			part /= 2
		} else {
			a.trust = max(leastTrust, a.trust/2)
		}
		a.fall(max(a.base*math.Exp(-part*a.cutDepth()), min(a.base, max(slowestInRow, a.lately(sent)))))
		return
	}
	live := max(sent-max(a.resumedAt, a.rowAt)-a.idle, 0) // resumedAt is earlier, where growth has a lead
	once := rowTimes * live
	if a.lastRow > max(a.period, a.settled()) && a.rowAt-a.born > a.lastRow {
		once = 0 // an outage: a window would have shut before
	}
	d := live
	if a.lastRow != a.flood { // base counts the flood already, if that was the last row
		d += min(a.lastRow, max(2*a.rowBefore, 2/rate, once))
	}
	if a.lastRow == 0 { // this is the first row
		a.first.served += a.accepted
	}
	served := max((a.accepted+a.failed+a.trust)/(d+a.trust/rate), a.lately(sent))
	if a.accepted < leastTrust {
		a.trust = max(leastTrust, a.trust/2)
	} else {
		a.trust = min(mostTrust, a.trust+a.accepted)
	}
	a.rowRate = rate
	depth := a.cutDepth() * (1 - unheldCut*min(a.idle/max(s-a.rowAt, shortestT), 1))
	a.fall(max(min(served, rate)*math.Exp(-depth), slowest))
	a.cut(s)
}

// fall lowers base to a value that refusals gave. Requests served at a higher rate say less
// of the limit, so evidence, which bounds T, falls with the root of base.
func (a *Adaptive) fall(to float64) {
	a.evidence *= min(1, math.Sqrt(to/a.base))
	a.base = to
}

// resume ends a row: the first request served after it was sent at sent.
func (a *Adaptive) resume(sent float64) {
	a.resumeRate = 0
	if a.level.binding() > 0 && a.evidence+a.first.served == 0 { // other clients took all of the burst
		a.base = max(min(a.base, 1/sent), slowest)
	}
	if a.refused > 1 {
		a.resumeRate = a.rateByRefusals(sent)
	}
	a.rowBefore, a.lastRow = a.lastRow, max(sent-a.rowAt-a.idle, 0)
	if a.down() {
		a.base = max(a.base, a.rowRate*math.Exp(-a.cutDepth()))
	}
	a.refused, a.resumedAt, a.idle = 0, sent, 0
	if a.rowBefore == 0 && a.floods() {
		from, to := a.opening(sent)
		// Answers that hung may have made the mean round trip longer than the row.
		long := max(min((from+to)/2, sent), a.rowAt) - a.first.idle
		a.base = max(min(a.base, a.first.served/long), slowest)
		a.flood, a.rowBefore = a.lastRow, a.lastRow // it shuts for as long each time
	}
	if a.lastRow >= longRow/a.base && a.opens(a.opening(sent)) && a.every > max(a.lastRow, a.settled()/2) {
		a.spread()
		return
	}
	// However young the estimate was when the row began, T is at least this. All clients that
	// a window refuses see the same rows, so where rows recur T is alike for them.
	repeats := min(a.lastRow, 2*a.rowBefore)
	a.period = max(a.period, min(max(a.lastRow/2, repeats), max(a.settled(), repeats), longestT))
}

// down reports whether the row that ends says nothing of the rate: of a limit in use one of so many
// tries would have passed. But a stated window that is used up refuses them all until it ends,
// slots and logs a little longer, and there the cuts make its clients equal.
func (a *Adaptive) down() bool {
	return a.refused >= downRow && (a.level.binding() == 0 || a.lastRow > downWindows*a.level.length)
}

// floods reports whether the first row, which just ended, was a flood: the client used up a window,
// a log or slots soon after its start, and was refused until they came back. So the row is
//
//   - more than three times as long as all the time before it, which is less than T,
//   - longer than T/16: shorter ones are those of buckets, or of windows so short that it does
//     not matter,
//   - after next to no pacing: less than 1/16 of the row.
//
// An outage that begins so soon is taken for one. Where answers say what remains, much must remain
// again: a bucket gives back bit by bit. A stated policy says more than a flood.
func (a *Adaptive) floods() bool {
	l, life, t := &a.level, a.rowAt-a.first.idle, a.settled()
	whole := l.seenAt == 0 || l.shown >= max(1, wholePart*l.most)
	return a.first.served > 0 && life < t && a.lastRow > max(rowTimes*life, leastFlood*t) &&
		a.rowAt-a.born < leastFlood*a.lastRow && whole && l.binding() == 0
}

// opening returns two instants between which the limit opened again, where the first request
// served after the row was sent at sent.
func (a *Adaptive) opening(sent float64) (from, to float64) {
	if a.statedOpening > a.rowAt && sent >= a.statedOpening-openingError {
		return a.statedOpening - openingError, a.statedOpening + openingError
	}
	return a.roundAt - a.rtt, sent
}

// opens records that the limit opened between from and to, and reports whether it does so in a
// cycle: the last opening was a whole number of windows before, as far as is known.
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

// spread sets base and T by the window. base spreads over the whole window what this client
// gets of it. All clients are refused at once, so shares become equal only if larger ones grow
// more slowly: T goes as the fourth root of the requests a window, from 1/2 to 2 windows.
func (a *Adaptive) spread() {
	a.base = max(a.rowRate*math.Exp(-a.cutDepth())*max(1-a.lastRow/a.every, 0.1), slowest)
	a.period = min(max(windowT(a.rowRate, a.every), shortestT), longestT)
}

// windowT returns T, in seconds, of a client that starts rate requests a second in windows of w seconds.
func windowT(rate, w float64) float64 {
	return w * min(max(math.Pow(rate*w/windowSpan, 0.25), 0.5), 2)
}

// cut starts the next measurement at base, as at the first refusal of a row, and sets T.
func (a *Adaptive) cut(s float64) {
	a.rowAt, a.roundAt, a.resumedAt, a.last, a.accepted, a.failed, a.idle = s, s, s, s, 0, 0, 0
	t := min(2*(s-a.born), a.settled())
	young := span * min(1, math.Pow(a.base/(lowRate*a.weight()), shrinks))
	if c := a.level.binding(); c > 0 { // the rate is stated, so there is no hurry to find it, however low base is
		young = span * math.Pow(a.base/(policyPart*c*a.weight()), policyPower)
	}
	old := min(a.evidence/longSpanPart, longSpan*a.probe()/usualProbe*math.Pow(a.base/(usualRate*a.weight()), longSpanPower))
	requests := min(max(a.evidence, 1), max(young, old))
	a.period = min(longestT, max(t, requests/a.base, 4*a.rtt, shortestT))
	// A log or a window shows after its length what a rate was worth.
	a.period = max(a.period, min(a.flood, s-a.born, longestT))
	if a.level.binding() > 0 { // without the bound of two hours
		a.period = max(a.period, requests/a.base, min(windowT(a.base, a.level.length), s-a.born))
	}
}

// settled returns T by the rate alone, of an estimate that is no longer young.
func (a *Adaptive) settled() float64 {
	return a.probe() * math.Pow(usualRate*a.weight()/a.base, probePower)
}

// window returns the length of the server's window in seconds, as stated or as rows showed it;
// zero: not known.
func (a *Adaptive) window() float64 {
	if a.level.binding() > 0 {
		return a.level.length
	}
	return a.every
}

// rateByRefusals returns the rate at s by refusals alone, in requests a second.
func (a *Adaptive) rateByRefusals(s float64) float64 {
	if a.refused > 0 {
		least := 1 / a.probe()
		if w := a.window(); w > 0 {
			least = max(least, triesPerRow/w)
		}
		least = min(least, a.base/8, triesPerRow/max(a.lastRow, a.roundAt-a.rowAt))
		return max(a.base*math.Pow(rowSpacing, float64(a.refused-1)), least, min(a.base, slowestInRow))
	}
	u := a.elapsed(s) / a.period
	const bend = 1 + (4*math.Ln2-growthPerT)/(2*steep) // where the slope G + 2 steep (u-1) reaches 4 doublings
	psi := growthPerT * u
	if u > 1 {
		v := min(u, bend)
		psi += steep * ((v-1)*(v-1) + 2*(u-v)*(bend-1))
	}
	rate := a.base * math.Exp(min(psi, 50))
	if a.resumeRate > 0 && a.accepted < 25 { // beyond 25, the power is as good as endless
		rate = min(rate, a.resumeRate*math.Pow(catchUp, a.accepted))
	}
	return rate
}

// elapsed returns t, the seconds since the last row in which requests waited for the rate: at
// most twice what the requests served since take at base. While the rate climbs back to base, it
// is not base that holds requests back, and that time must not count for growth.
func (a *Adaptive) elapsed(s float64) float64 {
	lead := max(a.rowAt-a.resumedAt, 0)
	live := s - max(a.resumedAt, a.rowAt) - a.idle
	return max(lead+min(live, 2*(a.accepted+1)/a.base), 0)
}

// cutDepth returns the depth of an ordinary cut, L/w for a Weight of w. With w times the requests
// come w times the refusals, so rates per weight behave like those of ordinary clients.
func (a *Adaptive) cutDepth() float64 { return min(usualCut/a.weight(), deepestCut) }
