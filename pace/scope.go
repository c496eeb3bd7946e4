package pace

import (
	"time"

	"github.com/throttle-go/throttle/load"
)

// Scope is a further limit, for some of the calls of a Gate only: that of a route, a table, a
// token, or another dimension such as tokens a minute. A ticket starts when the Gate's Control
// and all scopes that it needs admit it. It is charged to all of them or to none.
//
// A Scope belongs to one Gate and is not safe for concurrent use. The zero Scope lets everything
// pass.
type Scope struct {
	// Name is the name of the scope, for people.
	Name string
	// Control decides when the next request may start. If nil, at once.
	Control Controller
	// MaxInFlight bounds the tickets in flight that need s, as in a Gate.
	MaxInFlight int

	ceiling  ceiling
	started  time.Time // when the last ticket started
	refused  bool      // Learn has counted a refusal
	served   time.Time // when Learn last took a request served for the first since a start
	waiting  int       // tickets in line that need it
	inFlight int
}

// Waiting returns the number of tickets in line that need s.
func (s *Scope) Waiting() int { return s.waiting }

// InFlight returns the number of tickets in flight that were charged to s.
func (s *Scope) InFlight() int { return s.inFlight }

// Need makes a ticket subject to a scope.
type Need struct {
	// Scope is the scope. It must not be nil.
	Scope *Scope
	// Cost is the estimated cost in this scope. If zero or below, 1.
	Cost int64
	// Said is the part of the answer about this scope. If there is none, the scope learns
	// from a refusal only if neither another scope nor a Control of the Gate is to blame.
	Said Opt[Report]
}

// request returns r with its cost in the scope.
func (n *Need) request(r Request) Request {
	r.Cost = max(n.Cost, 1)
	return r
}

// wait returns how long until the scope lets r start, or, if r has a Place, the ticket in that
// place.
func (n *Need) wait(now time.Time, r Request) time.Duration {
	return n.Scope.wait(now, n.request(r))
}

// wait is Need.wait of a request whose Cost is that in s.
func (s *Scope) wait(now time.Time, r Request) time.Duration {
	wait := s.ceiling.wait(now, r, s.inFlight, s.MaxInFlight)
	if wait == Never || s.Control == nil {
		return wait
	}
	return max(s.Control.Wait(now, r), wait)
}

// scopesWait returns how long until all scopes of t let it start.
func (t *Ticket) scopesWait(now time.Time) (wait time.Duration) {
	r := t.request
	r.Place = 0
	for i := range t.Needs {
		wait = max(wait, t.Needs[i].wait(now, r))
	}
	return wait
}

// dear reports whether all scopes of t would let it start if it cost less.
func (t *Ticket) dear(now time.Time) bool {
	r := t.request
	r.Place, r.Cost = 0, 1
	for i := range t.Needs {
		if t.Needs[i].Scope.wait(now, r) > 0 {
			return false
		}
	}
	return true
}

// shares reports whether t and other need the same scope.
func (t *Ticket) shares(other *Ticket) bool {
	for i := range t.Needs { // by index here and below, as a Need is large
		if other.needs(t.Needs[i].Scope) {
			return true
		}
	}
	return false
}

// needs reports whether t needs s.
func (t *Ticket) needs(s *Scope) bool {
	for i := range t.Needs {
		if t.Needs[i].Scope == s {
			return true
		}
	}
	return false
}

// measure finds out whether an answer, which says r of the Gate's own limit, has refused t because it
// is TooLarge, and returns the scope for which it is, nil for the Gate. As such a refusal says nothing of
// the pace, it returns r without it.
func (t *Ticket) measure(r Report) (told Report, by *Scope) {
	t.TooLarge = r.tooLarge(t.request.Cost)
	for i := range t.Needs {
		if n := &t.Needs[i]; n.Said.V.tooLarge(max(n.Cost, 1)) {
			t.TooLarge, by = true, n.Scope
		}
	}
	return r, by
}

// tooLarge reports whether r says that a request of that cost was refused, though the limit, which it
// exceeds, was not used up; if so, r counts as no refusal.
func (r *Report) tooLarge(cost int64) bool {
	h := &r.Hints
	if r.Verdict != Throttled || h.Remaining.V <= 0 || h.Limit.V <= 0 || cost <= max(h.Limit.V, h.Burst.V) {
		return false
	}
	r.Verdict, r.After = Ignored, 0
	return true
}

// foresee raises the Forecast to the longest wait for a scope: as the newest in line, or, if line is
// nil, as the first, for a retry that keeps its place. It is Never only if no wait is known.
func (t *Ticket) foresee(now time.Time, line *lanes) {
	t.Blocker = nil
	var unknown *Scope
	never := t.Forecast == Never
	if never {
		t.Forecast = 0
	}
	for i := range t.Needs {
		n, r := &t.Needs[i], t.request
		if r.Place = 1; line != nil {
			r.Place = line.place(now, t, n.Scope)
		}
		switch w := n.wait(now, r); {
		case w == Never:
			never, unknown = true, n.Scope
		case w > t.Forecast:
			t.Forecast, t.Blocker = w, n.Scope
		}
	}
	if never && t.Forecast <= 0 {
		t.Forecast, t.Blocker = Never, unknown
	}
}

// startScopes charges t to all its scopes.
func (t *Ticket) startScopes(now time.Time) {
	for i := range t.Needs { // first, as they may panic
		if n := &t.Needs[i]; n.Scope.Control != nil {
			n.Scope.Control.Start(now, n.request(t.request))
		}
	}
	for i := range t.Needs {
		s := t.Needs[i].Scope
		s.inFlight++
		s.started = now
	}
}

// observeScopes gives each scope its part of the outcome. It returns the longest of their rests,
// and the outcome for the Gate's own limit.
func (t *Ticket) observeScopes(now time.Time, o Outcome, controlled bool) (rest time.Duration, own Outcome) {
	elsewhere := o.Elsewhere
	for i := range t.Needs {
		said := t.Needs[i].Said
		elsewhere = elsewhere || said.OK && said.V.Verdict == Throttled
	}
	for i := range t.Needs { // first, as a Controller may panic
		t.Needs[i].Scope.inFlight--
	}
	own = o
	if own.Elsewhere = false; elsewhere {
		own = blameless(own)
	}
	for i := range t.Needs {
		n := &t.Needs[i]
		mine := Outcome{Report: Report{Verdict: o.Verdict, Crowded: o.Crowded, After: o.After}}
		if controlled || elsewhere {
			mine = blameless(mine)
		}
		if n.Said.OK {
			mine = Outcome{Report: n.Said.V}
		}
		n.Said = Opt[Report]{}
		mine.Request, mine.Sent = n.request(t.request), o.Sent
		rest = max(rest, n.Scope.observe(now, mine))
	}
	return rest, own
}

// blameless returns o for a limit that did not refuse: a refusal becomes Ignored, Elsewhere.
func blameless(o Outcome) Outcome {
	if o.Verdict == Throttled {
		return Outcome{Request: o.Request, Sent: o.Sent, Elsewhere: true}
	}
	return o
}

// observe ends a request in flight that s had let start.
func (s *Scope) observe(now time.Time, o Outcome) (rest time.Duration) {
	s.ceiling.ended(now, s.inFlight, s.MaxInFlight, &o)
	if s.Control == nil {
		return 0
	}
	o.pace()
	return s.Control.Observe(now, o)
}

// Learn teaches the scope of n the end of a call, sent at the time sent, that was not known to be
// subject to it when it started; the cost is that of n. The scope did not pace that call, so what it
// met says little of its pace. Of the refusals only the first counts, as the scope paces the retries,
// which teach it. After that refusal only the first call served between two starts in it counts.
// Before it all calls served count, without what remained: as many as passed is the pace to start
// with. If that refusal is the first answer that names the scope, it is what the Gate was served
// lately, divided by the number of scopes that were named so.
func (g *Gate) Learn(now time.Time, n Need, sent time.Time, r Report) {
	s := n.Scope
	switch {
	case r.Verdict == Throttled && !s.refused:
		s.refused = true
		if a, ok := s.Control.(*Adaptive); ok && !a.began {
			g.named++
			a.begin(now)
			a.unpacedRate = g.served.part(now, g.named)
		}
	case r.Verdict == Throttled:
		r.Verdict = Ignored
	case r.Verdict != Served || s.servedFirst(now):
	case !s.refused:
		r.Hints.Remaining, r.Hints.Reset = Opt[int64]{}, Opt[time.Duration]{}
	default:
		r.Verdict = Ignored
	}
	o := Outcome{Report: r, Request: Request{Since: sent, Cost: max(n.Cost, 1)}, Sent: sent}
	if s.Control != nil {
		s.Control.Start(now, o.Request)
	}
	s.observe(now, o)
}

// sample counts the requests that a Gate was served, as an Adaptive does before its first refusal:
// an Adaptive that begins with a refusal has it to start with.
type sample struct {
	from time.Time // when it began; zero: nothing was served yet
	n    float64
	full float64 // requests a second in the full sample before; zero: none
}

// add counts a request served at now, sent at the time sent.
func (m *sample) add(now, sent time.Time) {
	if m.from.IsZero() {
		m.from = sent
	}
	if long := now.Sub(m.from).Seconds(); long > 1 && (m.n >= sampleOf || long > sampleOf) {
		m.full = m.n / long
		m.from, m.n = now, 0
	}
	m.n++
}

// part returns the requests a second that the n-th scope is taken to have had of the last full
// sample, or of half of those since, as they may be of a burst; zero: nothing was served yet. The
// first scope may have had them all, as a limit of the user has; of many, as one for each user, each
// had a part.
func (m *sample) part(now time.Time, n int) float64 {
	rate := max(m.full, m.n/2/max(now.Sub(m.from).Seconds(), 0.05))
	return max(rate/float64(n), min(rate, firstRate))
}

// servedFirst notes a call that was served now, and reports whether it is the first since s
// has let another start.
func (s *Scope) servedFirst(now time.Time) bool {
	if !s.served.IsZero() && !s.started.After(s.served) {
		return false
	}
	s.served = now
	return true
}

// pace reduces o to what a Controller of the pace learns from: the actual cost, and no refusal
// by a concurrency limit.
func (o *Outcome) pace() {
	if o.Cost == 0 {
		o.Cost = o.Request.Cost
	}
	if o.Crowded && o.Verdict == Throttled {
		o.Verdict, o.After = Ignored, 0
	}
}

// ceiling bounds the requests in flight of a Gate or a Scope.
type ceiling struct {
	load.Ceiling
	law load.Law // nil: none
}

// Full reports whether no request may start beside inFlight others before one of them ends.
func (c *ceiling) Full(inFlight, most int) bool {
	return c.Ceiling.Full(inFlight, most) || c.law != nil && inFlight >= c.law.Limit()
}

// most returns the lowest of the bounds, one of which is most if above zero; zero if there is none.
func (c *ceiling) most(most int) int {
	if n := c.Limit(); n > 0 && (most <= 0 || n < most) {
		most = n
	}
	if c.law != nil && (most <= 0 || c.law.Limit() < most) {
		most = c.law.Limit()
	}
	return max(most, 0)
}

// wait returns how long until r may start: Never if another request must end first. A forecast
// counts pauses only. most is another bound, if above zero.
func (c *ceiling) wait(now time.Time, r Request, flying, most int) time.Duration {
	if r.Place == 0 && c.Full(flying, most) {
		return Never
	}
	return c.Pause(now)
}

// ended learns from a request that ended beside flying others.
func (c *ceiling) ended(now time.Time, flying, most int, o *Outcome) {
	switch {
	case o.Verdict == Served:
		c.Served(now, flying, most)
	case o.Verdict == Throttled && o.Crowded:
		c.Refused(now, flying, o.After, o.Request.Luck.Unit(1)) // all others pause too
	}
}

// teach lets the law learn from a request that ended beside flying others. A refusal for which
// the pacing is to blame, paced, teaches it nothing, as a bound in flight cannot express a rate.
// A time-out that load explains, timedOut, is a failure.
func (c *ceiling) teach(now time.Time, flying int, o *Outcome, paced, timedOut bool) {
	if c.law == nil || o.Sent.IsZero() {
		return
	}
	end := [...]load.End{Ignored: load.Ignored, Served: load.Served, Throttled: load.Refused, Failed: load.Failed}[o.Verdict&3]
	if end == load.Refused && paced && !o.Crowded {
		end = load.Ignored
	}
	if end == load.Ignored && timedOut {
		end = load.Failed
	}
	c.law.Observe(load.Sample{Now: now, Took: now.Sub(o.Sent), InFlight: flying + 1, End: end})
}
