package pace

import "time"

// Learner is a Controller that also learns from feedback: a Report that belongs
// to no request, as of a service that accepts at once and chokes later. See
// [Gate.Report].
type Learner interface {
	// Learn is Observe for an Outcome that nothing was started for: it charges
	// nothing, gives nothing back, and takes nothing out of flight.
	Learn(now time.Time, o Outcome)
}

var (
	_ Learner = (*Adaptive)(nil)
	_ Learner = (*Credit)(nil)
	_ Learner = (*Fixed)(nil)
	_ Learner = All(nil)
)

// Report teaches the Controller a report that belongs to no ticket. It has the
// effect of an answer of that kind, but no retry follows, and what is in flight
// stays so. Its Cost does not count. To a Controller that is no [Learner] it is
// a request that starts and ends at once, so it takes a turn.
//
// sent is when the work that it speaks of was sent, so that what was sent before
// the last cut belongs to that cut. If zero, when the last ticket started: then
// all reports between two starts count as one.
func (g *Gate) Report(now, sent time.Time, r Report) {
	g.reports++
	luck := luckOf(g.Seed, g.arrivals, -g.reports)
	learn(now, g.Control, &g.ceiling, g.inFlight, g.MaxInFlight, feedback(now, sent, g.started, luck, r))
}

// Report is that of a Gate, for what is known of s alone.
func (s *Scope) Report(now, sent time.Time, r Report) {
	learn(now, s.Control, &s.ceiling, s.inFlight, s.MaxInFlight, feedback(now, sent, s.started, Luck(now.UnixNano()), r))
}

// feedback is a report as an Outcome. started is when the last request was.
func feedback(now, sent, started time.Time, luck Luck, r Report) Outcome {
	if sent.IsZero() {
		sent = started
	}
	if sent.IsZero() || sent.After(now) {
		sent = now
	}
	r.Cost = 0
	return Outcome{Report: r, Request: Request{Since: sent, Cost: 1, Luck: luck}, Sent: sent}
}

// learn teaches a limit, of which so many are in flight, an outcome that
// belongs to none of them.
func learn(now time.Time, c Controller, limit *ceiling, flying, most int, o Outcome) {
	limit.ended(now, max(flying-1, 0), most, &o) // as if one of those in flight had been answered so
	if c == nil {
		return
	}
	o.pace()
	hear(now, c, o)
}

func hear(now time.Time, c Controller, o Outcome) {
	if l, ok := c.(Learner); ok {
		l.Learn(now, o)
		return
	}
	c.Start(now, o.Request)
	c.Observe(now, o)
}

// Learn tells all.
func (all All) Learn(now time.Time, o Outcome) {
	for _, c := range all {
		hear(now, c, o)
	}
}

// Learn learns from o what Observe would.
func (a *Adaptive) Learn(now time.Time, o Outcome) {
	if !a.began {
		a.begin(now)
	}
	a.learn(now, o)
}

// Learn does nothing, as the rate is known.
func (f *Fixed) Learn(time.Time, Outcome) {}

// Learn does nothing, as the driver pays.
func (c *Credit) Learn(time.Time, Outcome) {}
