package pace

import (
	"time"

	"github.com/throttle-go/throttle/load"
)

// Gate is a queue in front of one Controller: first come, first served, where a retry keeps the
// place of its first try. Two exceptions: a ticket that could not be answered before its End if it
// waited for its turn goes ahead, in at most one of two starts; and one that was throttled twice or
// more lets another start before each retry, as these refusals may be of this call alone. A ticket
// that rests before its retry blocks no other, so there is no head-of-line blocking. No start time
// is reserved: at each event the Controller is asked again about the first in line, so a rate that
// rises lets waiters start early, and a ticket that leaves frees its turn.
//
// A Gate does not wait itself. Its driver calls Next after every Enter, Done and Leave, and at the
// time Next asked for, until Next returns nil, and then GivenUp; more calls of both do no harm. A
// Gate must not be copied after its first use, and is not safe for concurrent use. The zero value
// is ready.
type Gate struct {
	// Control decides when the first in line may start. If nil, at once.
	Control Controller
	// MaxInFlight bounds the tickets in flight. If zero or below, only refusals for too many
	// at once do, see Report.Crowded.
	MaxInFlight int
	// Concurrency learns a second bound on the tickets in flight. If nil, there is none. It
	// must not change once a ticket has entered.
	Concurrency load.Law
	// Tries bounds the tries of a call that is throttled each time. If zero, it is retried
	// until its Deadline or Leave.
	Tries int
	// Retries bounds the retries of a call that failed; throttled tries do not count. If zero,
	// 3; below zero, there are none.
	Retries int
	// Budget is the retry budget: it bounds the retries of failed calls, all together.
	Budget Budget
	// Backoff makes a failed call rest before its retry, longer each time; its Tries do not
	// count. If nil, only the Controller and the server ask for rests.
	Backoff *Backoff
	// CountResting counts the tickets that wait for a retry as in flight by MaxInFlight, so
	// that no first try starts in their place.
	CountResting bool
	// MaxWaiting bounds the tickets in line and resting; Enter refuses more. Retries are never
	// refused. If zero, 100,000; below zero, as if 1.
	MaxWaiting int
	// Lanes are the weights of the lanes in which tickets wait, one for each class of calls
	// (weighted fair queueing): while all lanes are busy, the costs of the tickets that start
	// in each are in the ratio of the weights; a lane that is not busy leaves its part to the
	// others. A weight of zero or below is 1; weights are kept within 10^-6 and 10^6. If
	// empty, there is one lane. Lanes must not change once a ticket has entered.
	Lanes []float64
	// Seed sets the random draws of this Gate.
	Seed uint64

	arrivals  uint64
	reports   int
	started   time.Time // when the last ticket started
	lanes     lanes
	purse     purse
	rests     heap
	inFlight  int
	ceiling   ceiling
	spare     spare
	served    sample
	named     int // scopes that began with a refusal
	searched  search
	wentAhead bool      // the last start was by ahead
	wasFull   bool      // all places were taken when Next was last called
	freed     time.Time // when a place last became free after that
}

const (
	defaultRetries    = 3
	defaultMaxWaiting = 100_000
	// unknown is the rest after a refusal by a limit of which nothing is known.
	unknown = 100 * time.Millisecond
	// letPass is how long after the next start a call that was refused again may start.
	letPass = time.Millisecond
)

// Waiting returns the number of tickets in line or resting.
func (g *Gate) Waiting() int { return g.lanes.waiting + g.rests.len() }

// Cost returns the estimated cost of all tickets in line, by the Gate's own limit. A ticket that
// costs more than 2^40 counts as 2^40.
func (g *Gate) Cost() int64 { return g.lanes.cost }

// InFlight returns the number of tickets in flight: started by Next, and not ended by Done or
// Leave.
func (g *Gate) InFlight() int { return g.inFlight }

// Limit returns how many tickets may be in flight: the lowest of MaxInFlight, Concurrency and the
// bound learnt from refusals for too many at once; zero if there is no bound.
func (g *Gate) Limit() int {
	g.ceiling.law = g.Concurrency
	return g.ceiling.most(g.MaxInFlight)
}

// Forecast returns the time until the n-th in line may start, as things are, if its cost is 1 and
// no Scope holds it back: zero if at once; Never if unknown, as where only the end of a ticket in
// flight lets another start. Where the pace holds it back too, Forecast is how long the pace does:
// while all places are taken and the pace is free, it is Never for the first in line and known for
// the next. An n below 1 counts as 1.
func (g *Gate) Forecast(now time.Time, n int) time.Duration {
	most := g.Limit()
	wait := g.wait(now, Request{Since: now, Cost: 1, Place: max(n, 1)})
	if wait <= 0 && (g.full() || most > 0 && n > most-g.inFlight) {
		return Never
	}
	return max(wait, 0)
}

// full reports whether no first try may start before a ticket in flight ends.
func (g *Gate) full() bool {
	return g.held() || g.ceiling.Full(g.inFlight, g.MaxInFlight)
}

// Enter puts t in line and forecasts how long it will wait, Never if unknown. It refuses t, and
// forgets it, when the line is full, when t would wait beyond its Deadline, or when it would be
// TooLate. t must not be inside already.
func (g *Gate) Enter(now time.Time, t *Ticket) (forecast time.Duration, ok bool) {
	if t.at != outside {
		panic("pace: Enter of a ticket that is already inside")
	}
	g.lanes.set(g.Lanes)
	g.purse.begin(g.Budget)
	g.ceiling.law = g.Concurrency
	t.request = Request{Since: now, Cost: max(t.Cost, 1)}
	t.tries, t.throttled, t.failed, t.paid = 0, 0, 0, 0
	t.Broke, t.TooLarge, t.Elsewhere, t.passed = false, false, false, false
	r := t.request
	r.Place = g.lanes.place(now, t, nil)
	t.Forecast = g.beside(now, r)
	t.foresee(now, &g.lanes)
	if t.Forecast <= 0 && g.full() {
		t.Forecast = Never
	}
	most := g.MaxWaiting
	if most == 0 {
		most = defaultMaxWaiting
	}
	t.entered = now
	t.TooLate = g.tooLate(now, t)
	if g.Waiting() >= max(most, 1) || t.late(now, t.Forecast) || t.TooLate {
		return t.Forecast, false
	}
	g.purse.add(g.purse.Call)
	g.arrivals++
	t.arrival = g.arrivals
	t.request.Luck = luckOf(g.Seed, t.arrival, 0)
	g.lineUp(t)
	return t.Forecast, true
}

// Next starts the next ticket in line, if it may start, and returns it. Otherwise again is how
// long to wait before the next call; Never: until another event.
func (g *Gate) Next(now time.Time) (t *Ticket, again time.Duration) {
	again = Never
	for g.rests.len() > 0 {
		t := g.rests.top()
		if d := t.rested.Sub(now); d > 0 {
			again = d
			break
		}
		g.rests.remove(t)
		g.lineUp(t)
	}
	g.noteRoom(now)
	held := g.held()
	if g.lanes.waiting == 0 || held && g.lanes.tried == 0 {
		return nil, again
	}
	t, soon := g.lanes.next(now, pick{tried: held})
	if t == nil {
		return nil, min(again, soon)
	}
	if w := g.wait(now, t.request); w > 0 {
		return nil, min(again, soon, w)
	}
	t = g.instead(now, t)
	t.request = g.ready(t.request)
	if g.Control != nil { // first, as it may panic
		g.Control.Start(now, t.request)
	}
	t.startScopes(now)
	g.lanes.started(t)
	t.at, t.sent, t.Began, g.started = flying, now, time.Time{}, now
	t.tries++
	g.inFlight++
	return t, 0
}

// ready returns r as if it had become ready when a place became free: until then it did not wait
// for the rate.
func (g *Gate) ready(r Request) Request {
	if r.Since.Before(g.freed) {
		r.Since = g.freed
	}
	return r
}

// noteRoom records when a place becomes free, after all were taken.
func (g *Gate) noteRoom(now time.Time) {
	full := g.full()
	if g.wasFull && !full {
		g.freed = now
	}
	g.wasFull = full
}

// First returns a ticket that waits, nil if none does: the resting ticket whose rest ends first,
// otherwise one that is first in its line.
func (g *Gate) First() *Ticket {
	if g.rests.len() > 0 {
		return g.rests.top()
	}
	return g.lanes.first()
}

func (g *Gate) lineUp(t *Ticket) {
	t.at = ready
	g.lanes.push(t)
}

// Done ends a try that Next had started, and passes the caller's report on to the Controller. If
// retry is true, t waits again, at its old place in line; otherwise it has left. A throttled or
// failed call is given up after Tries or Retries, when its report is Final, when the Controller
// says so, when it is TooLarge, when its wait would end after its Deadline, and when it would be
// TooLate; a failed one also when the Budget is used up.
func (g *Gate) Done(now time.Time, t *Ticket, r Report) (retry bool) {
	told, large := t.measure(r)
	elsewhere := t.Elsewhere || large != nil
	t.Elsewhere = false
	rest := g.observe(now, t, Outcome{Report: told, Request: t.request, Sent: t.sent, Elsewhere: elsewhere})
	t.Forecast, t.Blocker = 0, large
	g.purse.ended(t, r.Verdict)
	if t.Retry != nil {
		t.Needs, t.Retry = t.Retry, nil
	}
	// No retry earlier than the server said, whatever the Controller thinks.
	rest = max(rest, r.After, 0)
	rest = max(rest, g.backoff(t, r))
	if elsewhere && r.Verdict == Throttled && len(t.Needs) == 0 {
		rest = max(rest, unknown) // nothing here paces it
	}
	if !g.again(t, r.Verdict) || r.Final || t.Once || t.TooLarge || rest == Never {
		return false
	}
	first := t.request
	first.Place = 1
	w := max(g.wait(now, first), 0)
	endless := w == Never || g.ceiling.Full(g.inFlight, g.MaxInFlight)
	if w == Never {
		w = 0
	}
	if r.Verdict == Throttled && !r.Crowded && t.throttled > 1 && g.lanes.waiting > 0 {
		rest = max(rest, w+letPass)
	}
	if t.Forecast = max(rest, w); t.Forecast == 0 && endless {
		t.Forecast = Never
	}
	t.foresee(now, nil)
	if t.TooLate = g.tooLate(now, t); t.TooLate || t.late(now, t.Forecast) {
		return false
	}
	if t.Broke = r.Verdict == Failed && !g.purse.pay(t); t.Broke {
		return false
	}
	t.request.Try++
	t.request.Rest = rest
	t.request.Luck = luckOf(g.Seed, t.arrival, t.request.Try)
	t.rested = now.Add(rest)
	t.request.Since = t.rested
	if rest == 0 {
		g.lineUp(t)
		return true
	}
	t.at = resting
	g.rests.push(t)
	return true
}

// unsureRests is how often the rest after refusals that may be failures grows: beyond it the
// pace decides, so that a long outage adds no more to it.
const unsureRests = 3

// backoff returns how long t rests at least after a failure, or a refusal that may be one, for
// which the pace may not have fallen.
func (g *Gate) backoff(t *Ticket, r Report) time.Duration {
	n := t.failed
	switch {
	case g.Backoff == nil:
		return 0
	case r.Verdict == Throttled && r.Unsure && !r.Crowded:
		n = min(t.failed+t.throttled, unsureRests)
	case r.Verdict != Failed:
		return 0
	}
	return g.Backoff.Delay(n, t.request.Rest, t.request.Luck)
}

// again counts a try of t, and reports whether Tries or Retries allow another.
func (g *Gate) again(t *Ticket, v Verdict) bool {
	switch v {
	case Throttled:
		t.throttled++
		return g.Tries == 0 || t.throttled < g.Tries
	case Failed:
		t.failed++
		retries := g.Retries
		if retries == 0 {
			retries = defaultRetries
		}
		return t.failed <= retries
	}
	return false
}

// observe takes t out of flight, and lets the Controller, the scopes and the bounds in flight
// learn from the outcome.
func (g *Gate) observe(now time.Time, t *Ticket, o Outcome) (rest time.Duration) {
	if t.at != flying {
		panic("pace: Done of a ticket that is not in flight")
	}
	t.at = outside
	g.inFlight--
	given := o
	if o.Verdict == Served {
		g.served.add(now, o.Sent)
	}
	if len(t.Needs) > 0 || o.Elsewhere {
		rest, o = t.observeScopes(now, o, g.Control != nil)
	}
	g.ceiling.ended(now, g.inFlight, g.MaxInFlight, &o)
	if !given.Sent.IsZero() && !t.Began.IsZero() {
		given.Sent = t.Began
	}
	paced := g.Control != nil || given.Elsewhere || len(t.Needs) > 0
	load := !given.Sent.IsZero() && g.spare.learn(now.Sub(given.Sent), g.inFlight, &given.Report)
	g.spare.missed(now, given.Sent.Sub(t.entered), now.Sub(given.Sent), &given.Report)
	g.ceiling.teach(now, g.inFlight, &given, paced, load) // after the scopes, as it may panic
	if g.Control == nil {
		return rest
	}
	o.pace()
	return max(rest, g.Control.Observe(now, o))
}

// Leave takes t out of the Gate; it does nothing if t is not inside. A ticket that was started but
// never sent is refunded, and that start does not count in its Tries.
func (g *Gate) Leave(now time.Time, t *Ticket) {
	switch t.at {
	case ready:
		g.lanes.remove(t)
	case resting:
		g.rests.remove(t)
	case flying:
		t.tries--
		g.observe(now, t, Outcome{Request: t.request})
	}
	g.purse.giveBack(t)
	t.at = outside
}

// wait returns how long until r may start by the bounds in flight and the Controller.
func (g *Gate) wait(now time.Time, r Request) time.Duration {
	if r.Place == 0 && r.Try == 0 && g.held() {
		return Never
	}
	wait := g.ceiling.wait(now, r, g.inFlight, g.MaxInFlight)
	if wait == Never || g.Control == nil {
		return wait
	}
	if r.Place == 0 {
		r = g.ready(r)
	}
	return max(g.Control.Wait(now, r), wait)
}

// held reports whether tickets in flight and tickets that wait for a retry take all places: then
// only a retry may start.
func (g *Gate) held() bool {
	return g.CountResting && g.MaxInFlight > 0 && g.inFlight+g.rests.len()+g.lanes.tried >= g.MaxInFlight
}
