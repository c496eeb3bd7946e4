package pace

import (
	"math"
	"time"

	"github.com/throttle-go/throttle/load"
)

// Status holds the state of a [Gate], or of the Throttle around it, at one time: its limit as far
// as it is known, and how many calls wait and are in flight. It is for people, pages and logs.
type Status struct {
	// At is that time.
	At time.Time
	// LimitStatus is that of the limit for all calls. Its Waiting counts all calls that wait,
	// those that rest before a retry included.
	LimitStatus
	// Next is the forecast for one more call of cost 1: zero if at once, [Never] if unknown.
	// It does not count a wait for a call in flight to end.
	Next time.Duration
	// Resting counts the calls that rest before a retry; Rested is when the first of these
	// rests ends, zero if there is none.
	Resting int
	Rested  time.Time
	// Queues are the calls in line, by priority and key, in no order.
	Queues []Queue
	// Scopes are the limits for only some calls, in no order. A Throttle lists all that it
	// remembers, a Gate none, as it does not know them.
	Scopes []LimitStatus
	// Said is the last report that refused or carried hints; SaidAt is when it came, zero if
	// there was none. A Gate does not keep it.
	Said   Report
	SaidAt time.Time
}

// LimitStatus is the state of one limit: that of a Gate, or a [Scope].
type LimitStatus struct {
	// Scope is the name of the scope. If empty, this is the limit of the Gate.
	Scope string
	// Waiting counts the calls that wait and are subject to the limit; those of a scope only
	// while they are in line.
	Waiting int
	// InFlight counts the calls in flight that are charged to the limit, and MaxInFlight
	// bounds them; zero if nothing does.
	InFlight, MaxInFlight int
	// Why describes what makes calls wait now: the rate and its source, the last refusal,
	// until when the server forbade to send, and its last numbers.
	Why Why
}

// Queue describes the calls of one key that wait in one lane at one time, without those that
// rest before a retry.
type Queue struct {
	// Lane is the index of the lane in [Gate.Lanes].
	Lane int
	// Priority is that of the lane, where a Throttle states it: Normal also for priorities
	// without a weight. A Gate leaves it zero.
	Priority load.Priority
	// Key is the key of the calls.
	Key string
	// Others reports that it is the queue which keys beyond 1000 share. Its Key is empty.
	Others bool
	// Waiting is how many calls are in line, at least one.
	Waiting int
	// Oldest is when the call entered that has been in the Gate longest, tries included.
	Oldest time.Time
}

// Status returns what g knows at the time now. It changes no decision, but must not run beside
// another method of g.
func (g *Gate) Status(now time.Time) Status {
	s := Status{At: now, Resting: g.rests.len(), Queues: g.queues()}
	if s.Resting > 0 {
		s.Rested = g.rests.top().rested
	}
	s.LimitStatus = LimitStatus{Waiting: g.Waiting(), InFlight: g.inFlight, MaxInFlight: g.Limit(), Why: g.Why(now, &Ticket{})}
	s.Next = max(0, g.beside(now, Request{Since: now, Cost: 1, Place: g.lanes.waiting + 1}))
	return s
}

// Status returns what s knows at the time now, without changing anything.
func (s *Scope) Status(now time.Time) LimitStatus {
	var g Gate // with a Blocker, Why asks it for nothing
	return LimitStatus{
		Scope: s.Name, Waiting: s.waiting, InFlight: s.inFlight, MaxInFlight: s.ceiling.most(s.MaxInFlight),
		Why: g.Why(now, &Ticket{Blocker: s}),
	}
}

// queues returns those in which tickets are in line.
func (g *Gate) queues() (all []Queue) {
	for i := range g.lanes.all {
		at := &g.lanes.all[i]
		for _, f := range at.flows {
			all = append(all, Queue{Lane: i, Key: f.key, Others: f == &at.rest, Waiting: f.queued, Oldest: f.oldest()})
		}
	}
	return all
}

// oldest returns when the oldest ticket entered. Lines are ordered by arrival.
func (f *flow) oldest() (t time.Time) {
	for _, l := range f.lines {
		if at := l.top().entered; t.IsZero() || at.Before(t) {
			t = at
		}
	}
	return t
}

// Learnt holds the rate that an Adaptive has learnt, to be kept across a restart. It may be stored
// as JSON.
type Learnt struct {
	// At is when it was learnt.
	At time.Time `json:"at"`
	// Rate is the rate found, in cost a second: in requests a second, where none states a
	// cost. If zero, nothing is known.
	Rate float64 `json:"rate"`
}

// forgotten is the age from which a Learnt is ignored.
const forgotten = 24 * time.Hour

// Learnt returns what is known at the time now: zero if nothing has shown a limit.
func (a *Adaptive) Learnt(now time.Time) Learnt {
	a = a.slowest(now)
	if !a.on {
		return Learnt{}
	}
	rate := a.level.theta // the rate at r = h
	if !a.level.on {
		// The rate does not grow while nothing waits.
		rate = a.rate(min(now.Sub(a.epoch), a.next).Seconds())
	}
	if !a.level.on && a.refused > 0 { // not the rate at which it asks whether the server is back
		rate = a.base
	}
	return Learnt{At: now, Rate: rate * a.costs.unit()}
}

// Restore starts from what an earlier Adaptive had learnt, so that no refusal is needed to find
// the limit again. The older l is the sooner the rate grows: as after a cut so long ago, two T at
// most. If l is older than a day, from the future, or without a rate, it is ignored. Restore must
// be called before first use.
func (a *Adaptive) Restore(now time.Time, l Learnt) {
	age := now.Sub(l.At)
	if a.began || age < 0 || age > forgotten || !(l.Rate > 0) || math.IsInf(l.Rate, 0) {
		return
	}
	a.begin(now)
	a.on, a.restored = true, true
	a.born = -longestT // the estimate is not young
	a.base, a.trust = min(max(l.Rate, slowest), fastest), leastTrust
	a.cut(0)
	u := min(age.Seconds()/a.period, 2)
	a.resumedAt = -u * a.period
	a.base *= a.base / a.rate(0) // so that the rate is what it was
	a.settle(0)
}
