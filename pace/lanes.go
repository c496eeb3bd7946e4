package pace

import (
	"maps"
	"time"
)

// lanes are the queues of a Gate: a lane for each class of calls, in it a flow for each key, and
// in that a line for each set of scopes. Lanes, and flows in a lane, take turns by start-time fair
// queueing (Goyal, Vin and Cheng 1996). Each has a virtual time at which its first ticket begins:
//
//	begin = max(virtual, end of its last ticket)
//	end   = begin + cost / weight
//
// The one with the least begin is next, and virtual is the begin of the last that started. A
// ticket is charged when it starts, so one that leaves costs its lane nothing. One that cannot
// start because of a scope is passed over, and does not save up turns.
type lanes struct {
	few     [1]lane
	all     []lane
	virtual float64
	waiting int
	pushes  uint64
	cost    int64 // of the tickets in line
	passed  int   // tickets in line that were passed over as too late
	tried   int   // tickets in line for a retry
}

// pick says which tickets in line may be chosen; the zero pick: all.
type pick struct {
	need  time.Duration // above zero: none that is pressed for time
	tried bool          // only retries
	after []*Ticket     // none that shares a scope with one of these, whose turn it is
}

// turn is a place in a fair queue.
type turn struct {
	begin  float64
	passed bool // over because of a scope: it begins again at virtual
	queued int  // tickets
}

// enter gives a turn to one that comes, or comes back: no earlier than now.
func (t *turn) enter(virtual float64) {
	t.begin, t.passed = max(t.begin, virtual), false
}

type lane struct {
	turn
	weight  float64
	virtual float64
	plain   flow // tickets without a key
	rest    flow // tickets of the keys beyond maxFlows
	flows   []*flow
	byKey   map[string]*flow
}

// flow holds the tickets of one key in a lane.
type flow struct {
	turn
	key   string
	plain line // tickets without scopes
	lines []*line
}

// line holds the tickets of one flow that need the same scopes, first come, first served. ends
// holds those of them with an End; tried counts the retries.
type line struct {
	heap
	ends  heap
	tried int
}

// maxFlows is how many keys of a lane have a flow each. Keys beyond share one.
const maxFlows = 1000

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

// of returns the lane of t.
func (l *lanes) of(t *Ticket) *lane {
	if t.Lane > 0 && t.Lane < len(l.all) {
		return &l.all[t.Lane]
	}
	return &l.all[0]
}

func (l *lanes) push(t *Ticket) {
	at := l.of(t)
	if at.queued == 0 {
		at.enter(l.virtual)
	}
	f := at.flow(t.Key)
	if f.queued == 0 {
		f.enter(at.virtual)
		at.flows = append(at.flows, f)
	}
	t.flow, t.line = f, f.lineOf(t)
	t.line.push(t)
	l.waiting++
	l.tried += t.triedOnce()
	l.pushes++
	l.cost += t.price()
	at.queued++
	f.queued++
	for _, n := range t.Needs {
		n.Scope.waiting++
	}
}

func (l *lanes) remove(t *Ticket) {
	at, f := l.of(t), t.flow
	t.line.remove(t)
	if t.passed {
		t.passed = false
		l.passed--
	}
	l.waiting--
	l.tried -= t.triedOnce()
	l.cost -= t.price()
	at.queued--
	f.queued--
	for _, n := range t.Needs {
		n.Scope.waiting--
	}
	if t.line.len() == 0 {
		f.drop(t.line)
	}
	t.line = nil
	if f.queued == 0 {
		at.drop(f)
	}
}

// flow finds or makes the flow of a key.
func (l *lane) flow(key string) *flow {
	if key == "" {
		return &l.plain
	}
	if f := l.byKey[key]; f != nil {
		return f
	}
	if len(l.byKey) >= maxFlows && !l.forget() {
		return &l.rest
	}
	if l.byKey == nil {
		l.byKey = map[string]*flow{}
	}
	f := &flow{key: key}
	l.byKey[key] = f
	return f
}

// forget drops the keys without tickets whose turn is not in the future, as a new flow would
// have the same. It reports whether there were any.
func (l *lane) forget() bool {
	before := len(l.byKey)
	maps.DeleteFunc(l.byKey, func(_ string, f *flow) bool { return f.queued == 0 && f.begin <= l.virtual })
	return len(l.byKey) < before
}

// drop removes an empty flow from those with tickets. Its turn is remembered, so that a key that
// comes back at once does not go first again.
func (l *lane) drop(f *flow) {
	for i, other := range l.flows {
		if other == f {
			last := len(l.flows) - 1
			l.flows[i], l.flows[last] = l.flows[last], nil
			l.flows = l.flows[:last]
			return
		}
	}
}

// lineOf finds or makes the line for the scopes that t needs.
func (f *flow) lineOf(t *Ticket) *line {
	if len(t.Needs) == 0 {
		if f.plain.len() == 0 {
			f.lines = append(f.lines, &f.plain)
		}
		return &f.plain
	}
	for _, l := range f.lines {
		if sameScopes(l.top().Needs, t.Needs) {
			return l
		}
	}
	l := new(line)
	f.lines = append(f.lines, l)
	return l
}

func (f *flow) drop(l *line) {
	for i, other := range f.lines {
		if other == l {
			last := len(f.lines) - 1
			f.lines[i], f.lines[last] = f.lines[last], nil
			f.lines = f.lines[:last]
			return
		}
	}
}

func sameScopes(a, b []Need) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Scope != b[i].Scope {
			return false
		}
	}
	return true
}

// choice picks the next of several by their turns.
type choice struct {
	begin float64
	first *Ticket
}

// without reports whether the first ticket of t cannot be next, whichever it is.
func (c *choice) without(t *turn) bool {
	return c.first != nil && !t.passed && t.begin > c.begin
}

// offer takes first, if its turn t comes before that chosen so far; if first is nil, t is passed
// over.
func (c *choice) offer(t *turn, first *Ticket, virtual float64) {
	if first == nil {
		t.passed = true
		return
	}
	if t.passed {
		t.enter(virtual)
	}
	if c.first == nil || t.begin < c.begin || t.begin == c.begin && first.arrival < c.first.arrival {
		c.begin, c.first = t.begin, first
	}
}

// next returns the ticket whose turn it is, of those that their scopes let start; if there is
// none, how long to wait before asking again. A lane in which p allows none keeps its turn. A ticket
// that waits only because of its cost is passed over by none that shares a scope with it: cheap ones
// would take what it waits for, bit by bit.
func (l *lanes) next(now time.Time, p pick) (first *Ticket, again time.Duration) {
	again = Never
	for {
		t, soon := l.turn(now, p)
		if again = min(again, soon); t == nil {
			return nil, again
		}
		wait := t.scopesWait(now)
		if wait <= 0 {
			return t, again
		}
		again = min(again, wait)
		p.after = append(p.after, t)
	}
}

// turn is next, also of those that wait only because of their cost.
func (l *lanes) turn(now time.Time, p pick) (first *Ticket, again time.Duration) {
	again = Never
	var c choice
	for i := range l.all {
		at := &l.all[i]
		if at.queued == 0 || c.without(&at.turn) {
			continue
		}
		t, wait := at.next(now, p)
		again = min(again, wait)
		if t != nil || !p.tried {
			c.offer(&at.turn, t, l.virtual)
		}
	}
	return c.first, again
}

// next is lanes.next for one lane.
func (l *lane) next(now time.Time, p pick) (first *Ticket, again time.Duration) {
	again = Never
	var c choice
	for _, f := range l.flows {
		if c.without(&f.turn) {
			continue
		}
		t, wait := f.next(now, p)
		again = min(again, wait)
		if t != nil || !p.tried {
			c.offer(&f.turn, t, l.virtual)
		}
	}
	return c.first, again
}

// next returns the oldest ticket of one flow that may start. A ticket that needs several scopes
// would starve if others took each as it opens. So the oldest that waits is not delayed: a ticket
// that shares a scope with it starts first only if that opens again in time, as in EASY
// backfilling (Lifka 1995).
func (f *flow) next(now time.Time, p pick) (first *Ticket, again time.Duration) {
	again = Never
	var held *Ticket // the oldest that waits for a known time
	var until time.Duration
	for _, l := range f.lines {
		t := l.head(now, p)
		if t == nil || first != nil && t.arrival > first.arrival {
			continue
		}
		wait := t.scopesWait(now)
		if wait <= 0 || t.dear(now) {
			first = t
			continue
		}
		again = min(again, wait)
		if wait != Never && (held == nil || t.arrival < held.arrival) {
			held, until = t, wait
		}
	}
	if first != nil && held != nil && first.delays(now, held, until) {
		first = f.nextBefore(now, p, held, until)
	}
	return first, again
}

// nextBefore returns the oldest ticket that may start and does not delay held.
func (f *flow) nextBefore(now time.Time, p pick, held *Ticket, until time.Duration) (first *Ticket) {
	for _, l := range f.lines {
		t := l.head(now, p)
		if t == nil || first != nil && t.arrival > first.arrival {
			continue
		}
		if wait := t.scopesWait(now); wait <= 0 && !t.delays(now, held, until) {
			first = t
		}
	}
	return first
}

// delays reports whether the start of t would make held, which is older, wait longer than until.
func (t *Ticket) delays(now time.Time, held *Ticket, until time.Duration) bool {
	if held.arrival > t.arrival {
		return false
	}
	for i := range t.Needs {
		n, second := &t.Needs[i], t.request
		second.Place = 2
		if !held.needs(n.Scope) {
			continue
		}
		if w := n.wait(now, second); w > until && w != Never {
			return true
		}
	}
	return false
}

// first returns some ticket that is first in its line; nil if none waits.
func (l *lanes) first() *Ticket {
	for i := range l.all {
		if flows := l.all[i].flows; len(flows) > 0 {
			return flows[0].lines[0].top()
		}
	}
	return nil
}

// started takes t, which was next, out of its lane and charges it.
func (l *lanes) started(t *Ticket) {
	at, f := l.of(t), t.flow
	cost := float64(t.price())
	l.virtual, at.virtual = at.begin, f.begin
	at.begin += cost / at.weight
	f.begin += cost
	l.remove(t)
	if at.queued == 0 && len(at.byKey) == 0 {
		at.virtual, at.plain.begin = 0, 0
	}
	if l.waiting == 0 { // start over, so that sums stay exact
		l.virtual = 0
		for i := range l.all {
			l.all[i].begin = 0
		}
	}
}
