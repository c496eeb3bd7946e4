package pace

import (
	"math"
	"time"
)

// costs lets Adaptive count in requests of the mean cost. Where all requests cost the same, each
// counts as one, whatever the unit.
type costs struct {
	mean float64 // in the server's unit; zero: none has started
	took float64 // by the last start, in means
}

const (
	meanOver = 16      // requests that the mean is over
	dearest  = 1000    // means that one request counts for at most
	mostCost = 1 << 53 // the largest cost that float64 counts exactly
	mostOwed = 3600.0  // seconds that bills hold up the next start at most
	mostHeld = 7200.0  // seconds that one start holds up the next at most
)

// unit returns the mean cost.
func (c *costs) unit() float64 {
	if c.mean == 0 {
		return 1
	}
	return c.mean
}

// over returns a cost in means.
func (c *costs) over(cost int64) float64 {
	return min(charged(cost)/c.unit(), dearest)
}

// weigh adds the cost of a request that starts to the mean, and returns it in means. All that is
// counted in means is rescaled, so that it stays the same in the server's unit.
func (a *Adaptive) weigh(cost int64) float64 {
	c := &a.costs
	paid := charged(cost)
	old := c.unit()
	if c.mean == 0 {
		c.mean = paid
	}
	a.stock.varies = a.stock.varies || paid != c.mean
	paid = min(paid, dearest*c.mean) // first, so that one mistake does not move the mean out of sight
	if c.mean += (paid - c.mean) / meanOver; c.mean != old {
		a.rescale(old / c.mean)
	}
	return paid / c.mean
}

// rescale multiplies by f all that is counted in requests, or in requests a second.
func (a *Adaptive) rescale(f float64) {
	l := &a.level
	for _, x := range [...]*float64{
		&a.costs.took, &a.base, &a.unpacedRate, &a.resumeRate, &a.share.said, &a.share.agreed,
		&l.theta, &l.policy, &l.quota, &l.company.best,
		&l.r, &l.low, &l.swing, &l.most, &l.shown, &l.bottom, &l.refillLevel, &l.spent, &l.startLevel, &l.h,
	} {
		*x *= f
	}
	l.meanGap /= f
	for _, x := range [...]*float64{&a.base, &a.resumeRate, &l.theta} {
		if *x > 0 { // at least, as after a cut
			*x = max(*x, slowest)
		}
	}
}

// bill charges the actual cost less the estimate, at s. The server or the caller that states it
// may err, so it is believed only so far. Requests sent before the last cut are not charged more:
// the rate that was too high is over, and at the present one, which may be next to nothing, the
// bills of a large flight would stop all for an hour.
func (a *Adaptive) bill(s, sent float64, o *Outcome) {
	if o.Cost <= 0 || o.Cost == o.Request.Cost || a.nextRate == 0 {
		return
	}
	more := a.costs.over(o.Cost) - a.costs.over(o.Request.Cost)
	if more < 0 || sent >= max(a.roundAt, a.level.cutAt) {
		a.last = min(a.last+more/a.nextRate, max(a.last, s+mostOwed-a.gap()))
	}
	if a.level.window {
		a.level.r = max(a.level.r-more, 0)
	}
}

// gap returns how many seconds the last start holds up the next. It is bounded, as at the slowest
// rates a request of many mean costs would hold it up for days.
func (a *Adaptive) gap() float64 {
	return min(a.costs.took*a.jitter/a.nextRate, mostHeld)
}

// stock is what a limit has left, by the last answer that said so and the starts since. A request
// that costs more waits until enough has come back, as it would be refused. Where all cost the same
// the rate sees to that, and the stock holds up nothing. Costs are in the unit of the server.
//
// Where the server says that it comes back steadily and nobody else takes of it, the stock is exact:
// then it alone paces, so that a dear request leaves no gap behind it. Where others do, the level to
// keep free is twice what the dearest request costs, or cheap ones would keep that from being there.
type stock struct {
	varies bool                           // requests differ in cost
	known  bool                           // an answer said what was
	left   float64                        // left
	sent   float64                        // when its request was sent, the last of those that said so
	most   float64                        // that is ever left: the burst or the limit; zero: not known
	rate   float64                        // that comes back a second; zero: not known
	reset  float64                        // when a window ends, or all is back; zero: not stated
	margin float64                        // to be left besides, as it may be rounded, and costs be estimated too low
	dear   float64                        // cost of the dearest request lately
	starts [32]struct{ at, cost float64 } // a ring of the last starts
	n      int                            // starts so far
	ledger ledger
}

// ledger compares what is left with what own starts leave, once in a round trip.
type ledger struct {
	steady     bool    // the limit comes back steadily, at a known rate
	sent, left float64 // the answer to compare the next with
	rounds     int     // comparisons so far
	spent      float64 // by own starts lately,
	taken      float64 // by others: gone without one,
	off        float64 // and sum of all differences
	often      int     // comparisons in a row in which others took much
	others     int     // comparisons for which they still count as noticed
}

const (
	steadily    = 8.0       // seconds ahead that a full limit must be to tell the rate well: they may be whole ones
	startsApart = 1.0 / 16  // round trips; cheap starts that are closer count as one
	cheap       = 1.0 / 8   // part of the dearest that these cost at most
	marginFade  = 1.0 / 128 // part of the margin by which an answer lowers it
	marginMost  = 1.0 / 16  // part of the limit
	dearFade    = 1.0 / 64  // part of it by which a start lowers the dearest
	ledgerOver  = 16.0      // comparisons that sums are over
	ledgerFrom  = 8         // comparisons before they say anything
	ledgerOff   = 1.0 / 4   // part of what was spent by which they may differ
	ledgerLeast = 1.0 / 32  // part of the limit that others take at least, to be noticed,
	ledgerOften = 3         // in so many comparisons in a row
	reserveFor  = 2.0       // times the dearest request is kept free of a limit that is shared,
	reserveMost = 2.0 / 3   // and part of the limit at most
)

// enough returns when a request of that cost finds enough left: zero if at once, if it never will, or
// if that is not known. What the server says may be wrong, so it is two hours after it did at most.
func (a *Adaptive) enough(cost int64) float64 {
	if x := &a.stock; !x.varies || !x.known {
		return 0
	}
	return a.refilled(cost)
}

// refilled is enough where costs differ and the server said what is left.
func (a *Adaptive) refilled(cost int64) float64 {
	x, short := &a.stock, charged(cost)
	if x.most > 0 && short > x.most {
		return 0
	}
	if short += x.margin + x.since(x.sent) - x.left; short <= 0 {
		return 0
	}
	at := min(a.back(short), x.sent+mostHeld)
	if l := &a.level; l.window && l.resetAt > x.sent {
		at = min(l.resetAt+l.returnDelay, x.sent+mostHeld)
		if x.since(l.resetAt)+charged(cost) > x.most {
			at += patience // unless an answer says sooner what the new window has
		}
	}
	return at
}

// back returns when so much has come back since the last answer that said what is left: zero if it is
// not known how fast it does.
func (a *Adaptive) back(short float64) float64 {
	x, rate := &a.stock, a.stock.rate
	if rate == 0 {
		rate = a.nextRate * a.costs.unit()
	}
	switch at := x.sent + short/rate; {
	case rate == 0:
		return 0
	case x.reset > 0:
		return min(at, x.reset)
	default:
		return at
	}
}

// unheld returns since when the rate alone holds back r: not before enough is left for it.
func (a *Adaptive) unheld(r *Request) time.Time {
	at := seconds(a.enough(r.Cost))
	if at <= a.next {
		return r.Since
	}
	if ready := a.epoch.Add(at); r.Since.Before(ready) {
		return ready
	}
	return r.Since
}

// steady reports whether requests differ in cost, and the limit comes back steadily, at a known rate.
func (x *stock) steady() bool { return x.varies && x.ledger.steady }

// exact reports whether the stock alone paces.
func (a *Adaptive) exact() bool {
	x, g := &a.stock, &a.stock.ledger
	return x.steady() && g.others <= 0 && g.rounds >= ledgerFrom && g.off < ledgerOff*g.spent &&
		!a.level.unstated && a.level.row == 0 && a.refused == 0
}

// take lets the stock learn from the end of a request. Where it is exact, what is left is used up at
// all times, which does not show that the rate is too high.
func (a *Adaptive) take(sent float64, o *Outcome) {
	x := &a.stock
	if a.Blind || !x.known && !o.Hints.Remaining.OK {
		return
	}
	x.ended(sent, a.rtt, a.level.policy*a.costs.unit(), o)
	if a.exact() {
		rate := x.rate / a.costs.unit()
		a.base, a.level.theta = max(a.base, rate), max(a.level.theta, rate)
	}
}

// start logs a start of that cost at s.
func (x *stock) start(s, cost, rtt float64) {
	k := len(x.starts)
	x.dear = max(cost, x.dear-dearFade*x.dear)
	if last := &x.starts[(x.n+k-1)%k]; x.n > 0 && s-last.at < startsApart*rtt && last.cost+cost <= cheap*x.dear {
		last.at, last.cost = s, last.cost+cost
		return
	}
	x.starts[x.n%k].at, x.starts[x.n%k].cost = s, cost
	x.n++
}

// since returns the cost of the starts after s, of those that the ring still holds.
func (x *stock) since(s float64) (cost float64) {
	for i := x.n - 1; i >= max(x.n-len(x.starts), 0) && x.starts[i%len(x.starts)].at > s; i-- {
		cost += x.starts[i%len(x.starts)].cost
	}
	return cost
}

// ended learns from the end of a request that was sent at the time sent.
func (x *stock) ended(sent, rtt, policy float64, o *Outcome) {
	h, paid := &o.Hints, charged(o.Request.Cost)
	switch {
	case h.Remaining.OK && !o.Sent.IsZero() && (!x.known || sent >= x.sent):
		left := float64(max(h.Remaining.V, 0))
		x.correct(left, o)
		if x.ledger.steady {
			x.compare(sent, left, rtt, o)
		}
		x.known, x.left, x.sent = true, left, sent
		x.refill(policy, h)
	case x.known && sent <= x.sent: // it is counted in what is left
	case o.Verdict == Throttled, o.Sent.IsZero(), o.Elsewhere:
		x.left += paid
	case o.Cost > 0:
		x.left += paid - charged(o.Cost)
	}
}

// refill learns how much there is at most, and how fast it comes back, from an answer.
func (x *stock) refill(policy float64, h *Hints) {
	if most := max(h.Burst.V, 0); h.Burst.OK && most > 0 {
		x.most = float64(most)
	} else if h.Limit.V > 0 {
		x.most = float64(h.Limit.V)
	}
	x.reset = 0
	if h.Reset.OK {
		x.reset = x.sent + h.Reset.V.Seconds()
	}
	full, used := h.Full.V.Seconds(), x.most-x.left
	x.ledger.steady = x.ledger.steady && h.Full.OK
	switch {
	case used > 0 && full > steadily:
		x.rate, x.ledger.steady = used/full, true
	case policy > 0 && !x.ledger.steady:
		x.rate = policy
	case used <= 0:
	case full > 0 && x.rate == 0:
		x.rate = used / full
	case h.Reset.V > 0:
		x.rate = used / h.Reset.V.Seconds()
	}
}

// correct learns from a refusal where there should have been enough how much more must be left.
func (x *stock) correct(left float64, o *Outcome) {
	switch g := &x.ledger; {
	case o.Verdict != Throttled:
		x.margin -= marginFade * x.margin
	case g.off < ledgerOff*g.spent:
		x.margin = min(x.margin+math.Abs(charged(o.Request.Cost)-left)+1, marginMost*x.most)
	}
}

// compare compares what is left by an answer with what own starts leave, if it is the first in a round
// trip. A limit may have been full in between, so there are two bounds.
func (x *stock) compare(sent, left, rtt float64, o *Outcome) {
	g, k := &x.ledger, len(x.starts)
	was := *g
	if was.sent > 0 && sent-was.sent < rtt {
		return
	}
	g.sent, g.left = sent, left
	if was.sent == 0 || x.n >= k && x.starts[x.n%k].at > was.sent {
		return // not all starts since are known
	}
	own := x.since(was.sent) - x.since(sent)
	if o.Verdict == Throttled {
		own -= charged(o.Request.Cost)
	}
	back := was.left + x.rate*(sent-was.sent)
	gone, more := max(min(back, x.most)-own-left, 0), max(left-min(back-own, x.most), 0)
	g.spent += own - g.spent/ledgerOver
	g.taken += gone - more - g.taken/ledgerOver
	g.off += gone + more - g.off/ledgerOver
	g.rounds++
	g.others--
	if g.often++; g.rounds < ledgerFrom || g.taken <= max(ledgerOff*g.spent, ledgerLeast*x.most) {
		g.often = 0
	}
	if g.often >= ledgerOften {
		g.others = othersKept
	}
}

// reserve returns how much to keep free so that a dear request finds enough where others take of it.
func (x *stock) reserve() float64 {
	if !x.varies || x.ledger.others <= 0 {
		return 0
	}
	return min(reserveFor*x.dear, reserveMost*x.most)
}
