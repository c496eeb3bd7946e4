package pace

import (
	"math"
	"time"
)

// place returns about which place t would have in the order of starts, counting from 1, if all
// tickets in line cost the same. Tickets that wait for a scope do not count, or, if s is not nil,
// those alone that need s.
func (l *lanes) place(now time.Time, t *Ticket, s *Scope) int {
	if s != nil && s.waiting == 0 {
		return 1
	}
	mine, cost := l.of(t), float64(t.price())
	ahead := mine.ahead(now, t, s)
	begin := mine.from(l.virtual) + float64(ahead)*cost/mine.weight
	place := ahead + 1
	for i := range l.all {
		if at := &l.all[i]; at != mine && at.queued > 0 {
			place += sooner(begin, at.from(l.virtual), cost/at.weight, at.going(now, s))
		}
	}
	return place
}

// ahead returns about how many tickets in the lane would start before t.
func (l *lane) ahead(now time.Time, t *Ticket, s *Scope) int {
	mine, begin, cost := l.known(t.Key), l.virtual, float64(t.price())
	ahead := 0
	if mine != nil {
		ahead = mine.going(now, s)
		begin = mine.from(l.virtual) + float64(ahead)*cost
	}
	for _, f := range l.flows {
		if f != mine {
			ahead += sooner(begin, f.from(l.virtual), cost, f.going(now, s))
		}
	}
	return ahead
}

// known returns the flow of a key; nil if it would be new.
func (l *lane) known(key string) *flow {
	f := l.byKey[key]
	switch {
	case key == "":
		return &l.plain
	case f == nil && len(l.byKey) >= maxFlows:
		return &l.rest
	}
	return f
}

// from returns the virtual time at which t begins next: no earlier than virtual if it has nothing
// in line or was passed over.
func (t *turn) from(virtual float64) float64 {
	if t.passed || t.queued == 0 {
		return max(t.begin, virtual)
	}
	return t.begin
}

// sooner returns how many of n tickets begin at begin or before. The first of them begins at first,
// and each other one by each later. One that begins at begin counts: it is older.
func sooner(begin, first, each float64, n int) int {
	k := math.Floor((begin-first)/each) + 1
	return int(min(max(k, 0), float64(n)))
}

// going returns how many tickets of the lane count: if s is nil, those that no scope holds back now;
// else those that need s.
func (l *lane) going(now time.Time, s *Scope) (n int) {
	for _, f := range l.flows {
		n += f.going(now, s)
	}
	return n
}

func (f *flow) going(now time.Time, s *Scope) (n int) {
	for _, l := range f.lines {
		if t := l.top(); s != nil && t.needs(s) || s == nil && t.scopesWait(now) <= 0 {
			n += l.len()
		}
	}
	return n
}

// beside returns the forecast for a new request, whose Place is that in line. A resting ticket, of
// any lane and key, is ahead of it if it is back in line before its turn. Each of those makes the
// turn later, so that more may be; after four rounds the forecast may be a little too short.
func (g *Gate) beside(now time.Time, r Request) (wait time.Duration) {
	place := r.Place
	for range 4 {
		wait = g.wait(now, r)
		before := place + g.rests.rested(now.Add(max(wait, 0)), 0, 0)
		if r.Place == before {
			break
		}
		r.Place = before
	}
	return wait
}

// mostRested bounds the tickets that rested counts, and so the time that it takes.
const mostRested = 1000

// rested returns n and the number of tickets at index i of h and below that are back in line at the
// instant by. It stops counting at mostRested.
func (h *heap) rested(by time.Time, i, n int) int {
	if i >= len(h.t) || n >= mostRested || h.t[i].rested.After(by) {
		return n
	}
	return h.rested(by, 2*i+2, h.rested(by, 2*i+1, n+1))
}

// Soon returns the estimated cost, by the Gate's own limit, of the tickets that their scopes, c
// and the bound in flight would let start within d. If there are none, again is how long to wait
// before asking again; Never: until another event.
func (g *Gate) Soon(now time.Time, d time.Duration, c Controller) (cost int64, again time.Duration) {
	held, waiting := g.held(), g.lanes.waiting
	if held {
		waiting = g.lanes.tried
	}
	if waiting == 0 {
		return 0, Never
	}
	t, again := g.lanes.next(now, pick{tried: held})
	if t == nil {
		return 0, again
	}
	switch wait := c.Wait(now, t.request); {
	case wait == Never:
		return 0, Never
	case wait > d:
		return 0, wait - d
	}
	r := t.request
	r.Place = min(waiting, g.room(d))
	if r.Place == 0 {
		return 0, Never
	}
	for ; r.Place > 1; r.Place /= 2 {
		if wait := c.Wait(now, r); wait <= d || wait == Never {
			break
		}
	}
	mean := g.lanes.cost / int64(g.lanes.waiting)
	return max(t.request.Cost, mean*int64(r.Place)), Never
}

// room returns how many tickets the bound in flight would let start within d, if answers take as
// long as before.
func (g *Gate) room(d time.Duration) int {
	most := g.Limit()
	if most == 0 {
		return math.MaxInt
	}
	n := max(most-g.inFlight, 0)
	if g.spare.mean > 0 {
		n += int(min(float64(most)*d.Seconds()/g.spare.mean, math.MaxInt32))
	}
	return n
}
