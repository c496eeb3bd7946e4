package pace

import (
	"math"
	"time"
)

// doubt counts refusals that may be failures as failures, as long as they are few. Services fail
// now and then, whatever the rate; a rate cut by each refusal of one request in a hundred would
// fall to next to nothing.
//
// More of them are a limit, an outage, or a part of the service that is down. At half of the rate
// a limit refuses at most half as large a share, and a part that is down the same share. So doubt
// compares the refusals in blocks of answers while the rate falls with those before, by a
// sequential probability ratio test (Wald, 1945). Once a part is proven to be down, base returns
// to what it was, and refusals are excused in proportion to the share that is down.
type doubt struct {
	excused float64 // leaky bucket: refusals counted as failures, less allowed for each request served
	allowed float64 // at least perUnsure, more while a part is down

	answers float64 // in this block,
	refused float64 // refused ones among them
	began   float64 // when the block began

	refRate                float64 // answers a second, to compare slower blocks with; zero: none
	refBase                float64 // base at that rate
	refAnswers, refRefused float64 // answers to estimate the share refused from, and refusals among them
	proof                  float64 // log-likelihood ratio of a part that is down to a limit
	since                  float64 // when base last returned
}

const (
	mostUnsure = 4.0      // size of the leaky bucket: refusals excused at once
	perUnsure  = 1.0 / 16 // its leak for each request served

	blockOf      = 16.0   // intervals between the answers of a block
	otherRate    = 1.4    // times refRate: a faster block is the new reference,
	sameRate     = 0.7    // above this one it is more of the reference,
	slowRate     = 0.5    // and up to this one it is compared with it
	knownFrom    = 128.0  // answers that the share refused is a mean over, at most
	suddenly     = 3.0    // refusals in a block beyond twice those expected: the limit has changed
	ofLimit      = 0.5    // factor of the share refused at half of the rate, by a limit
	sure         = 2.0    // proof that a part is down,
	refuted      = -6.0   // or that it is a limit
	leastFailing = 0.08   // least share that is down, beyond what refusals need to find a limit,
	mostFailing  = 0.5    // and the most
	excusedPart  = 0.8    // part of the refusals excused: all would let clients of a limit drive each other up
	excusedFor   = 1024.0 // requests served, over which excuses fade
)

// excuse turns a refusal that may be a failure into one, while such refusals are few, or in
// proportion to the part of the service that is down.
func (a *Adaptive) excuse(s float64, o *Outcome) {
	d, unsure := &a.doubt, o.Verdict == Throttled && o.Unsure && !o.Crowded
	switch {
	case !a.on || a.level.on || o.Verdict == Throttled && !unsure:
		d.refRate, d.answers = 0, 0 // nothing to compare with
	case (o.Verdict == Served || unsure) && d.fails(s, a, unsure):
		a.goBack(s)
	}
	switch {
	case o.Verdict == Served:
		d.excused = max(d.excused-max(d.allowed, perUnsure), 0)
		d.allowed -= (d.allowed - perUnsure) / excusedFor
	case unsure && d.excused <= mostUnsure-1:
		d.excused++
		o.Verdict = Failed
	}
}

// goBack returns base to what it was before the cuts, with what it would have grown since in the
// first T, as the refusals since say nothing of a limit.
func (a *Adaptive) goBack(s float64) {
	d := &a.doubt
	if d.refBase <= a.base {
		return
	}
	a.base = min(d.refBase*math.Exp(growthPerT*min(1, max(s-d.since, 0)/a.settled())), fastest)
	d.refBase, d.since, d.excused = a.base, s, 0
	a.refused, a.lastRow, a.rowBefore = 0, 0, 0
	a.cut(s)
}

// fails counts an answer at s, and reports whether a part of the service is now proven to be down.
func (d *doubt) fails(s float64, a *Adaptive, refused bool) bool {
	if d.answers == 0 {
		d.began = s
	}
	d.answers++
	if refused {
		d.refused++
	}
	if d.answers <= blockOf {
		return false
	}
	n, k := d.answers, d.refused
	d.answers, d.refused = 0, 0
	// Answers to requests sent before a cut come faster than base.
	x := min(blockOf/max(s-d.began, 1e-6), 1.1*a.base)
	if k == n || !d.slow(x, a.base, n, k) { // where all are refused, the whole service is down
		return false
	}
	d.weigh(n, k)
	if d.proof <= refuted {
		d.refer(x, a.base, n, k)
	}
	p := d.share()
	needed := growthPerT / usualCut / (max(a.base, d.refBase) * a.settled()) // G/(L x T)
	if d.proof < sure || p < leastFailing+needed || p > mostFailing {
		return false
	}
	d.allowed = excusedPart * p / (1 - p)
	return true
}

// slow files a block of n answers at x a second, k of them refused: as the new reference, as more
// of it, or, if it reports true, as slow enough to be compared with it.
func (d *doubt) slow(x, base, n, k float64) bool {
	switch {
	case d.refRate == 0 || x > otherRate*d.refRate || x <= slowRate*d.refRate && k > 2*n*d.share()+suddenly:
		d.refer(x, base, n, k)
		return false
	case x > sameRate*d.refRate:
		d.add(n, k)
		d.refBase = max(d.refBase, base)
		return false
	}
	return x <= slowRate*d.refRate
}

// weigh adds a slow block to the proof.
func (d *doubt) weigh(n, k float64) {
	p := d.share()
	q := ofLimit * p
	d.proof += k*math.Log(p/q) + (n-k)*math.Log((1-p)/(1-q))
	d.proof = min(max(d.proof, refuted), sure)
	d.add(n, k)
}

// share returns the share refused at the reference rate, above zero.
func (d *doubt) share() float64 { return (d.refRefused + 0.5) / (d.refAnswers + 4) }

// refer makes a block the reference.
func (d *doubt) refer(x, base, n, k float64) {
	d.refRate, d.refBase, d.refAnswers, d.refRefused = x, base, n, k
}

// add counts a block into the share refused.
func (d *doubt) add(n, k float64) {
	d.refAnswers, d.refRefused = d.refAnswers+n, d.refRefused+k
	if f := knownFrom / d.refAnswers; f < 1 {
		d.refAnswers, d.refRefused = d.refAnswers*f, d.refRefused*f
	}
}

// perCall notices refusals that are of one call alone, as by the quota of one user, or of one
// partition of a table: the same call is refused again, though others that were sent after its try
// before were served. An empty limit would have refused those too. So such a refusal says nothing
// of the limit that all calls share, where few first tries are refused; where it happens again and
// again, the refusals of first tries are of one call, too.
type perCall struct {
	servedSent float64 // when the last request served was sent, seconds
	refused    float64 // share of first tries refused, a mean
	seen       float64 // first tries that it is a mean over
	votes      int     // refusals of one call alone since a retry was served
}

const (
	perCallOver = 64.0     // first tries that the share is a mean over,
	perCallFew  = 1.0 / 32 // and the share from which refusals of retries may be of the limit,
	perCallMost = 1.0 / 6  // and all of them are
	votesFrom   = 4        // from which refusals of first tries are of one call, too
)

// ofOneCall learns from an answer to a request sent at sent, and reports whether it is a refusal of
// one call alone; before is when the try before it was sent, needed of a refusal only.
func (p *perCall) ofOneCall(sent, before float64, first bool, v Verdict) bool {
	if first && (v == Served || v == Throttled) {
		p.seen = min(p.seen+1, perCallOver)
		p.refused -= p.refused / p.seen
	}
	switch {
	case v == Served:
		p.servedSent = max(p.servedSent, sent)
		if !first {
			p.votes = 0
		}
		return false
	case v != Throttled:
		return false
	case first:
		p.refused += 1 / p.seen
	case p.servedSent > before:
		if p.votes++; p.seen >= perCallOver && p.refused <= perCallFew {
			return true
		}
	}
	return p.votes >= votesFrom && p.refused <= perCallMost
}

// setApart turns a refusal of one call alone into a failure, and returns how long that call must
// rest, as the rate does not slow down for it: about twice as long each time, 20 minutes at most.
// Nor do other calls wait for its Retry-After.
func (a *Adaptive) setApart(sent float64, o *Outcome) (rest time.Duration) {
	r, tried := &o.Request, 0.0
	if o.Verdict == Throttled {
		tried = r.Since.Add(-r.Rest).Sub(a.epoch).Seconds() - a.rtt
	}
	if !a.perCall.ofOneCall(sent, tried, r.Try == 0, o.Verdict) {
		return 0
	}
	o.Verdict, o.After = Failed, 0
	return seconds(min(max(2*r.Rest.Seconds(), a.rtt)*(0.5+r.Luck.Unit(7)), 1/slowestInRow))
}
