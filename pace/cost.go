package pace

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

// gap returns how many seconds the last start holds up the next. It is bounded, as at the slowest
// rates a request of many mean costs would hold it up for days.
func (a *Adaptive) gap() float64 {
	return min(a.costs.took*a.jitter/a.nextRate, mostHeld)
}
