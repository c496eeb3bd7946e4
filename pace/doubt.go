package pace

import "math"

// doubt takes refusals that may be failures for failures, as long as they are few: services
// fail now and then, whatever the rate, and a rate that falls with each of one in a hundred
// would come to next to nothing.
//
// More are a limit, an outage, or a part of the service that fails. A limit refuses at most half
// as large a share at half of the rate, a part that fails the same share at any rate. So doubt
// compares, in blocks of answers, what is refused while the rate falls with what was refused
// before, by a sequential probability ratio test (Wald, 1945). Once it is proven that a part
// fails, base is again what it was, and refusals are excused in proportion to the share that fails.
type doubt struct {
	excused float64 // refusals taken for failures, less those allowed for what was served since
	allowed float64 // for each request served, while a part fails; at least perUnsure

	answers float64 // of this block,
	refused float64 // of which so many were refused
	began   float64 // when it began

	refRate                float64 // the rate a second, of answers, that slower blocks are compared with; zero: none
	refBase                float64 // base then
	refAnswers, refRefused float64 // answers at about that rate, and refusals among them
	proof                  float64 // log of how much likelier it is that a part fails than that this is a limit
	since                  float64 // when it last went back to base
}

const (
	mostUnsure = 4.0      // refusals on end that may be failures
	perUnsure  = 1.0 / 16 // of them for each request served

	blockOf      = 16.0   // intervals between answers
	otherRate    = 1.4    // times the rate is another,
	sameRate     = 0.7    // this part of it the same,
	slowRate     = 0.5    // and this part slow enough to compare
	knownFrom    = 128.0  // answers at most from which the share that fails is known
	suddenly     = 3.0    // refusals in a block above twice those expected: something changed
	ofLimit      = 0.5    // of the share at most is refused at half of the rate where it is a limit
	sure         = 2.0    // proof that a part fails,
	refuted      = -6.0   // or that it is a limit
	leastFailing = 0.08   // the share that fails at least, beyond what the law needs to learn a limit,
	mostFailing  = 0.5    // and at most
	excusedPart  = 0.8    // of the refusals are excused: were all, clients of a limit would drive each other up
	excusedFor   = 1024.0 // requests served
)

// excuse takes a refusal that may be a failure for one, if so few of them are no limit.
func (a *Adaptive) excuse(s float64, o *Outcome) {
	d, unsure := &a.doubt, o.Verdict == Throttled && o.Unsure && !o.Crowded
	switch {
	case !a.on || a.level.on || o.Verdict == Throttled && !unsure:
		d.refRate, d.answers = 0, 0 // there is nothing to compare with
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

// goBack goes back to the base of before, and what it had grown since in the first T, as the
// refusals since say nothing of a limit.
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

// fails counts an answer at s, and reports whether it is proven now that a part of the service fails.
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
	// What was on its way before a cut comes faster than base.
	x := min(blockOf/max(s-d.began, 1e-6), 1.1*a.base)
	if k == n || !d.slow(x, a.base, n, k) { // where all are refused, the service is away
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

// slow takes a block of n answers, at x a second, of which k were refused, and reports
// whether it is to be compared with others.
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

// weigh adds to the proof what a slow block tells.
func (d *doubt) weigh(n, k float64) {
	p := d.share()
	q := ofLimit * p
	d.proof += k*math.Log(p/q) + (n-k)*math.Log((1-p)/(1-q))
	d.proof = min(max(d.proof, refuted), sure)
	d.add(n, k)
}

// share is the share that was refused, above zero.
func (d *doubt) share() float64 { return (d.refRefused + 0.5) / (d.refAnswers + 4) }

// refer compares from here on with a block.
func (d *doubt) refer(x, base, n, k float64) {
	d.refRate, d.refBase, d.refAnswers, d.refRefused = x, base, n, k
}

// add counts a block into the share that is refused.
func (d *doubt) add(n, k float64) {
	d.refAnswers, d.refRefused = d.refAnswers+n, d.refRefused+k
	if f := knownFrom / d.refAnswers; f < 1 {
		d.refAnswers, d.refRefused = d.refAnswers*f, d.refRefused*f
	}
}
