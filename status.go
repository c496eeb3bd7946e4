package throttle

import (
	"time"

	"github.com/throttle-go/throttle/load"
	"github.com/throttle-go/throttle/pace"
)

// Status returns what t knows of its limit and how many calls wait and are in
// flight, by priority, key and scope, and what the service last said. It holds the
// lock for a time in proportion to the queues and scopes that it lists, so call it
// once a second rather than with each call.
func (t *Throttle) Status() pace.Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.begin()
	now := time.Now()
	s := t.gate.Status(now)
	s.Said, s.SaidAt = t.said, t.saidAt
	for i := range s.Queues {
		s.Queues[i].Priority = t.priority(s.Queues[i].Lane)
	}
	for _, x := range t.scopes.byName {
		s.Scopes = append(s.Scopes, x.of.Status(now))
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
