package pace

import "time"

// Queue describes the tickets of one key that wait in one lane of a [Gate], at one
// time. Those that rest before a retry are not in line.
type Queue struct {
	// Lane is the index of the lane.
	Lane int
	// Key is that of the tickets.
	Key string
	// Others reports that it is the queue which the keys beyond 1000 share. Its
	// Key is empty.
	Others bool
	// Waiting is how many tickets are in line, at least one.
	Waiting int
	// Oldest is when the ticket entered the Gate that has been in it longest.
	Oldest time.Time
}

// Queues returns the queues in which tickets are in line, in no order, without
// changing anything.
func (g *Gate) Queues() []Queue {
	n := 0
	for i := range g.lanes.all {
		n += len(g.lanes.all[i].flows)
	}
	if n == 0 {
		return nil
	}
	all := make([]Queue, 0, n)
	for i := range g.lanes.all {
		at := &g.lanes.all[i]
		for _, f := range at.flows {
			all = append(all, Queue{Lane: i, Key: f.key, Others: f == &at.rest, Waiting: f.queued, Oldest: f.oldest()})
		}
	}
	return all
}

// oldest is when the ticket entered that is first in one of the lines: lines are
// ordered by arrival.
func (f *flow) oldest() (t time.Time) {
	for _, l := range f.lines {
		if at := l.top().entered; t.IsZero() || at.Before(t) {
			t = at
		}
	}
	return t
}

// Resting returns how many tickets rest before a retry, and when the first of
// these rests ends; zero if there is none.
func (g *Gate) Resting() (n int, until time.Time) {
	if n = g.rests.len(); n > 0 {
		until = g.rests.top().rested
	}
	return n, until
}
