package pace

import "time"

// Learner is a Controller that also learns from feedback: a Report that belongs to no request, as
// from a service that accepts at once and is overloaded later. See [Gate.Report].
type Learner interface {
	// Learn is Observe for an Outcome without a Start: it charges and refunds nothing, and
	// leaves the number in flight as it is.
	Learn(now time.Time, o Outcome)
}

var (
	_ Learner = (*Adaptive)(nil)
	_ Learner = (*Credit)(nil)
	_ Learner = (*Fixed)(nil)
	_ Learner = All(nil)
)

// Report teaches the Controller a report that belongs to no ticket. It acts like such an answer,
// but no retry follows, the number in flight stays, and its Cost does not count. For a Controller
// that is no [Learner] it is a request that starts and ends at once, so it takes a turn.
//
// sent is when the work that the report is about was sent: refusals of work sent before the last
// cut belong to that cut. If zero, it is when the last ticket started, so that all reports between
// two starts count as one, and so do all before the first.
func (g *Gate) Report(now, sent time.Time, r Report) {
	g.reports++
	defer begun(&g.started, now)
	luck := luckOf(g.Seed, g.arrivals, -g.reports)
	learn(now, g.Control, &g.ceiling, g.inFlight, g.MaxInFlight, feedback(now, sent, g.started, luck, r))
}

// Report does for s alone what [Gate.Report] does.
func (s *Scope) Report(now, sent time.Time, r Report) {
	defer begun(&s.started, now)
	learn(now, s.Control, &s.ceiling, s.inFlight, s.MaxInFlight, feedback(now, sent, s.started, Luck(now.UnixNano()), r))
}

// begun sets started to just before now if no request has started yet, so that a second report
// does not slow down a pace that no request has kept to.
func begun(started *time.Time, now time.Time) {
	if started.IsZero() {
		*started = now.Add(-1)
	}
}

// feedback returns the Outcome of a report; started is when the last request did.
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

// learn teaches a limit, with flying requests in flight, an outcome that belongs to none of them.
func learn(now time.Time, c Controller, limit *ceiling, flying, most int, o Outcome) {
	limit.ended(now, max(flying-1, 0), most, &o) // as if one in flight had ended so
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

// Learn calls Learn of each controller.
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
	a = a.turn(now, &o)
	s := now.Sub(a.epoch).Seconds()
	a.excuse(s, &o)
	a.learn(now, s, o.Sent.Sub(a.epoch).Seconds(), &o)
}

// Learn does nothing, as the rate is known.
func (f *Fixed) Learn(time.Time, Outcome) {}

// Learn does nothing, as the tokens are paid for elsewhere.
func (c *Credit) Learn(time.Time, Outcome) {}
