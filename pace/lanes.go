package pace

import (
	"maps"
	"slices"
	"time"
)

// lanes are the queues of a Gate: a lane for each class of calls, in it a flow
// for each key, in that a line for each set of scopes. Which lane and which flow
// is next is decided by start-time fair queueing (Goyal, Vin and Cheng 1996):
// each has a virtual time at which its first in line begins,
//
//	begin = max(virtual, end of the one before)
//	end   = begin + cost / weight
//
// the one with the least begins, and virtual is where the last one began. A
// ticket is charged when it starts, so one that leaves costs its lane nothing. A
// ticket that cannot start because of a scope is passed over, and does not save
// up turns.
type lanes struct {
	few     [1]lane
	all     []lane
	virtual float64
	waiting int
	pushes  uint64
	cost    int64 // of those that wait
	passed  int   // of those that wait, how many were passed over as too late
	tried   int   // of those that wait, how many wait for a retry
}

// pick says which of the tickets in line may be chosen; the zero pick, all.
type pick struct {
	need  time.Duration // above zero, none that is pressed for time
	tried bool          // only retries
}

// turn is a place in a fair queue.
type turn struct {
	begin  float64
	passed bool // over because of a scope: it begins again at virtual
	queued int  // tickets
}

// enter makes the turn of one that comes, or comes back, no earlier than now.
func (t *turn) enter(virtual float64) {
	t.begin, t.passed = max(t.begin, virtual), false
}

type lane struct {
	turn
	weight  float64
	virtual float64
	plain   flow // of no key
	rest    flow // of the keys beyond maxFlows
	flows   []*flow
	byKey   map[string]*flow
}

// flow are the tickets of one key in a lane.
type flow struct {
	turn
	key   string
	plain line // of no scopes
	lines []*line
}

// line are tickets of one flow that need the same scopes: first come, first
// served. ends are those of them that have an End, tried is how many are retries.
type line struct {
	heap
	ends  heap
	tried int
}

// maxFlows is how many keys are distinguished in a lane; those beyond share one
// place.
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

// of is the lane of t.
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
	l.cost += max(t.Cost, 1)
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
	l.cost -= max(t.Cost, 1)
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

// flow finds or makes that of the key.
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

// forget drops the keys without tickets that have no turn to wait for any more.
func (l *lane) forget() bool {
	before := len(l.byKey)
	maps.DeleteFunc(l.byKey, func(_ string, f *flow) bool { return f.queued == 0 && f.begin <= l.virtual })
	return len(l.byKey) < before
}

// drop takes an empty flow out of those that wait. Its turn is remembered, so
// that a key that comes back at once does not go first again.
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

// lineOf finds or makes the line of the scopes that t needs.
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

// choice is the one whose turn it is, of several.
type choice struct {
	begin float64
	first *Ticket
}

// without reports whether t cannot be the one, whichever ticket is first in it.
func (c *choice) without(t *turn) bool {
	return c.first != nil && !t.passed && t.begin > c.begin
}

// offer takes first, if its turn comes before that of the others; nil passes t
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

// next is the ticket whose turn it is, of those whose scopes let them go; if
// there is none, when to ask again. One in which p allows none keeps its turn.
func (l *lanes) next(now time.Time, p pick) (first *Ticket, again time.Duration) {
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

// next is that of one lane.
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

// next returns the oldest ticket of one flow that may start. A ticket that needs
// several scopes would wait without end if others took each as it opens, so the
// oldest is not put off: one that takes of the same scope may go first only
// where that is open again in time, as in EASY backfilling (Lifka 1995).
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
		if wait <= 0 {
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

// nextBefore is the oldest of those that may go and do not delay held.
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

// delays reports whether the start of t would make held, which is older, wait
// for longer than until.
func (t *Ticket) delays(now time.Time, held *Ticket, until time.Duration) bool {
	if held.arrival > t.arrival {
		return false
	}
	for i := range t.Needs {
		n, second := &t.Needs[i], t.request
		second.Place = 2
		shared := func(other Need) bool { return other.Scope == n.Scope }
		if !slices.ContainsFunc(held.Needs, shared) {
			continue
		}
		if w := n.wait(now, second); w > until && w != Never {
			return true
		}
	}
	return false
}

// first is some ticket that is first in its line; nil if none waits.
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
	cost := float64(max(t.Cost, 1))
	l.virtual, at.virtual = at.begin, f.begin
	at.begin += cost / at.weight
	f.begin += cost
	l.remove(t)
	if at.queued == 0 && len(at.byKey) == 0 {
		at.virtual, at.plain.begin = 0, 0
	}
	if l.waiting == 0 { // a new beginning for all lanes, and sums that stay exact
		l.virtual = 0
		for i := range l.all {
			l.all[i].begin = 0
		}
	}
}
