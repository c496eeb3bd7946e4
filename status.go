package throttle

import (
	"time"

	"github.com/throttle-go/throttle/load"
	"github.com/throttle-go/throttle/pace"
)

// Status states what a [Throttle] knows of its limit, and how many calls wait and
// are in flight, at one time: for people, pages and logs. See [Throttle.Status].
type Status struct {
	// At is that time.
	At time.Time
	// LimitStatus is that of the Throttle's own limit. Waiting counts all calls
	// that wait, those that rest before a retry too.
	LimitStatus
	// Next is how long a new call of the same kind as others would wait, see
	// [Throttle.Forecast].
	Next time.Duration
	// Resting counts the calls that rest before a retry, and Rested is when the
	// first of these rests ends; zero if there is none.
	Resting int
	Rested  time.Time
	// Queues are the calls in line, by priority and key, in no order.
	Queues []QueueStatus
	// Scopes are the limits that only some calls are subject to, in no order, all
	// that are remembered: see [Throttle.MaxScopes].
	Scopes []LimitStatus
	// Said is the last report that refused, or told something of the limit, by an
	// answer or by [Throttle.Report], and SaidAt is when; zero if there was none.
	Said   pace.Report
	SaidAt time.Time
}

// LimitStatus is the state of one limit of a Throttle: its own, or a scope.
type LimitStatus struct {
	// Scope is the name of the scope. If empty, it is the Throttle's own limit.
	Scope string
	// Waiting counts the calls that wait for their turn and are subject to it.
	Waiting int
	// InFlight counts the calls in flight that are charged to it, and MaxInFlight
	// bounds them now; zero if nothing does.
	InFlight, MaxInFlight int
	// Why describes what makes calls wait now: the rate and where it is known from,
	// when the server last refused, how long it forbade to send, and its last
	// numbers.
	Why pace.Why
}

// QueueStatus describes the calls of one priority and key that are in line.
type QueueStatus struct {
	// Priority is theirs; Normal also for those without a weight, see
	// [Throttle.Weights].
	Priority load.Priority
	// Key is their [CallOptions.Key].
	Key string
	// Others reports that it is the queue of all keys beyond 1000. Key is empty.
	Others bool
	// Waiting is how many calls are in line, at least one.
	Waiting int
	// Oldest is when the call began that has waited longest, tries included.
	Oldest time.Time
}

// Status returns what t knows and does now. It holds the lock for a time in
// proportion to the queues and scopes that it lists, some 0.1 µs each: it is to
// be looked at once a second rather than with each call.
func (t *Throttle) Status() Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.begin()
	now := time.Now()
	s := Status{At: now, Said: t.said, SaidAt: t.saidAt}
	s.LimitStatus = LimitStatus{
		Waiting: t.gate.Waiting(), InFlight: t.gate.InFlight(), MaxInFlight: t.gate.Limit(),
		Why: t.gate.Why(now, &pace.Ticket{}),
	}
	s.Next = t.forecast(now, s.Waiting+1)
	s.Resting, s.Rested = t.gate.Resting()
	for _, q := range t.gate.Queues() {
		s.Queues = append(s.Queues, QueueStatus{t.priority(q.Lane), q.Key, q.Others, q.Waiting, q.Oldest})
	}
	for _, x := range t.scopes.byName {
		s.Scopes = append(s.Scopes, LimitStatus{
			Scope: x.name, Waiting: x.of.Waiting(), InFlight: x.of.InFlight(), MaxInFlight: x.of.Limit(),
			Why: t.gate.Why(now, &pace.Ticket{Blocker: &x.of}),
		})
	}
	return s
}

// priority is that of the calls in a lane. Caller holds mu.
func (t *Throttle) priority(lane int) load.Priority {
	for p := load.Low; p <= load.Critical && lane > 0; p++ {
		if t.lanes[p.Index()] == lane {
			return p
		}
	}
	return load.Normal
}

// note keeps a report that refused, or told something. Caller holds mu.
func (t *Throttle) note(now time.Time, r pace.Report) {
	if r.Verdict == pace.Throttled || r.After > 0 || r.Hints != (pace.Hints{}) {
		t.said, t.saidAt = r, now
	}
}
