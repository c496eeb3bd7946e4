package pace

import (
	"math"
	"time"
)

// place returns about which place t would have in the order of starts, counting from 1, if all
// tickets in line cost the same. Tickets that wait for a scope do not count.
func (l *lanes) place(now time.Time, t *Ticket) int {
	mine := l.of(t)
	ahead := mine.ahead(now, t)
	begin := mine.begin
	if mine.queued == 0 {
		begin = max(begin, l.virtual)
	}
	begin += float64(ahead) / mine.weight
	place := ahead + 1
	for i := range l.all {
		if at := &l.all[i]; at != mine && at.queued > 0 {
			sooner := math.Floor((begin-at.begin)*at.weight) + 1 // of the same begin, the oldest is first
			place += int(min(max(sooner, 0), float64(at.going(now))))
		}
	}
	return place
}

// ahead returns about how many tickets in the lane would start before t.
func (l *lane) ahead(now time.Time, t *Ticket) int {
	if len(l.flows) == 0 || len(l.flows) == 1 && l.flows[0].key == t.Key {
		return l.going(now)
	}
	mine := 0
	for _, f := range l.flows {
		if f.key == t.Key {
			mine = f.going(now)
		}
	}
	ahead := mine
	for _, f := range l.flows {
		if f.key != t.Key {
			ahead += min(f.going(now), mine+1)
		}
	}
	return ahead
}

// going returns how many tickets in the lane no scope holds back now.
func (l *lane) going(now time.Time) (n int) {
	for _, f := range l.flows {
		n += f.going(now)
	}
	return n
}

func (f *flow) going(now time.Time) int {
	n := f.queued
	for _, l := range f.lines {
		if wait := l.top().scopesWait(now); wait > 0 {
			n -= l.len()
		}
	}
	return n
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
