package pace

// costs make requests of one size out of such that cost more and less: all of
// Adaptive counts in requests of the mean cost. Where all cost the same that is
// one each, whatever the unit.
type costs struct {
	mean float64 // zero: none has started
	took float64 // by the last start, in means
}

const (
	meanOver = 16      // requests over which the mean is taken
	dearest  = 1000    // means that one request may count for
	mostCost = 1 << 53 // beyond it float64 would not count exactly
	mostOwed = 3600.0  // seconds that bills may hold up the next start
	mostHeld = 7200.0  // seconds that one start may hold up the next
)

// unit is the mean cost.
func (c *costs) unit() float64 {
	if c.mean == 0 {
		return 1
	}
	return c.mean
}

// over is a cost in means.
func (c *costs) over(cost int64) float64 {
	return min(charged(cost)/c.unit(), dearest)
}

// weigh takes the cost of a request that starts into the mean, and returns it
// in means. What is counted in means changes with the mean, so that it stays
// the same in the server's own unit.
func (a *Adaptive) weigh(cost int64) float64 {
	c := &a.costs
	paid := charged(cost)
	old := c.unit()
	if c.mean == 0 {
		c.mean = paid
	}
	paid = min(paid, dearest*c.mean) // before it counts: one mistake does not move the mean out of sight
	if c.mean += (paid - c.mean) / meanOver; c.mean != old {
		a.rescale(old / c.mean)
	}
	return paid / c.mean
}

// rescale multiplies all that is counted in requests, or in requests a second.
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
		if *x > 0 { // as after a cut
			*x = max(*x, slowest)
		}
	}
}

// bill settles the difference between what a request was estimated to cost and
// what it did, at the time s. As the server says it, or a caller that has erred,
// it is believed only so far. What left before the last cut owes no time: the rate
// that was too high for it is over, and at that of now, which may be next to nothing, the
// bills of a large flight would stop all for an hour.
func (a *Adaptive) bill(s float64, o Outcome) {
	if o.Cost <= 0 || o.Cost == o.Request.Cost || a.nextRate == 0 {
		return
	}
	more := a.costs.over(o.Cost) - a.costs.over(o.Request.Cost)
	if more < 0 || o.Sent.Sub(a.epoch).Seconds() >= max(a.roundAt, a.level.cutAt) {
		a.last = min(a.last+more/a.nextRate, max(a.last, s+mostOwed-a.gap()))
	}
	if a.level.window {
		a.level.r = max(a.level.r-more, 0)
	}
}

// gap is how many seconds the last start holds up the next. At the slowest rates
// one that is said to cost many means would for days.
func (a *Adaptive) gap() float64 {
	return min(a.costs.took*a.jitter/a.nextRate, mostHeld)
}
