package pace

import "math"

// lanes are the queues of a Gate, by the lane of a ticket. Which of them is
// next is decided by start-time fair queueing (Goyal, Vin and Cheng 1996): each
// lane has a virtual time at which its first in line begins,
//
//	begin = max(virtual, end of the one before)
//	end   = begin + cost / weight
//
// the lane with the least begins, and virtual is where the last one began. A
// ticket is charged when it starts, so one that leaves costs its lane nothing.
type lanes struct {
	few     [1]lane
	all     []lane
	virtual float64
	waiting int
}

type lane struct {
	heap
	weight float64
	begin  float64
}

// set makes the lanes, once.
func (l *lanes) set(weights []float64) {
	if l.all != nil {
		return
	}
	l.all = l.few[:]
	if len(weights) > 1 {
		l.all = make([]lane, len(weights))
	}
	for i := range l.all {
		l.all[i].weight = 1
		if i < len(weights) && weights[i] > 0 {
			l.all[i].weight = min(max(weights[i], 1e-6), 1e6)
		}
	}
}

// of is the lane of t.
func (l *lanes) of(t *Ticket) *lane {
	if t.Lane > 0 && t.Lane < len(l.all) {
		return &l.all[t.Lane]
	}
	return &l.all[0]
}

func (l *lanes) push(t *Ticket) {
	at := l.of(t)
	if at.len() == 0 {
		at.begin = max(at.begin, l.virtual)
	}
	at.push(t)
	l.waiting++
}

func (l *lanes) remove(t *Ticket) {
	l.of(t).remove(t)
	l.waiting--
}

// next is the first in line of the lane whose turn it is; nil if all are empty.
func (l *lanes) next() *Ticket {
	if len(l.all) == 1 {
		if l.waiting == 0 {
			return nil
		}
		return l.all[0].top()
	}
	var first *lane
	for i := range l.all {
		at := &l.all[i]
		if at.len() > 0 && (first == nil || at.begin < first.begin ||
			at.begin == first.begin && at.top().arrival < first.top().arrival) {
			first = at
		}
	}
	if first == nil {
		return nil
	}
	return first.top()
}

// started takes t, which was next, out of its lane and charges it.
func (l *lanes) started(t *Ticket) {
	at := l.of(t)
	at.remove(t)
	l.waiting--
	l.virtual = at.begin
	at.begin += float64(max(t.Cost, 1)) / at.weight
	if l.waiting == 0 { // a new beginning for all, and sums that stay exact
		l.virtual = 0
		for i := range l.all {
			l.all[i].begin = 0
		}
	}
}

// place is about which place in the order of starts t would have, counting
// from 1, if all in line cost the same.
func (l *lanes) place(t *Ticket) int {
	mine := l.of(t)
	place := mine.len() + 1
	begin := mine.begin
	if place == 1 {
		begin = max(begin, l.virtual)
	}
	begin += float64(mine.len()) / mine.weight
	for i := range l.all {
		if at := &l.all[i]; at != mine && at.len() > 0 {
			sooner := math.Ceil((begin - at.begin) * at.weight)
			place += int(min(max(sooner, 0), float64(at.len())))
		}
	}
	return place
}
