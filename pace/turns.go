package pace

import (
	"math"
	"time"
)

// turns tells apart the limits of a server with several, which states in each answer the policy of
// the one that binds: now of ten a second, and now of an hour's quota. Each is paced by an Adaptive
// of its own. A request waits for the limit of the shortest window, for the one stated last, and for
// those that only refusals state. Another number for the same window is the same limit, changed.
// Another window is another limit; if the one before is not stated again, it has replaced that.
type turns struct {
	own    quota         // stated of this limit last
	room   int64         // how many may remain at once: the burst, or else the number
	reset  time.Duration // stated with it
	at     time.Time     // when
	on     time.Duration // how much longer it holds, see keep
	missed int           // answers that stated another limit, to requests sent since
	again  bool          // it was stated again after another
	served bool          // by a served answer
	other  *Adaptive     // the next limit; nil: none
	told   *Adaptive     // of the first Adaptive: whose limit an answer stated last; nil: its own
}

// quota identifies a limit by what its server states: so many requests in a window, zero if only
// the number is stated.
type quota struct {
	limit  int64
	window time.Duration
}

const (
	mostLimits  = 3                // limits of one server that are told apart
	mostMissed  = 20               // answers that state another limit, after which one may have been replaced
	replacedFor = 10 * time.Second // and for so long, if it was never stated again,
	leastHold   = time.Minute      // or else for so long, or for two windows
)

// Wait returns the time until r may start. Before the first throttled answer nothing is paced,
// but the number in flight begins with one and grows with time and each request served: of ten
// workers that wake together on an exhausted quota one is refused where answers take 0.3 s, and
// five where they take 0.9 s.
func (a *Adaptive) Wait(now time.Time, r Request) time.Duration {
	if a.turns.other == nil {
		return a.wait(now, r)
	}
	wait, unknown := free, false
	for x := a; x != nil; x = x.turns.other {
		w := min(x.wait(now, r), a.holds(now, x))
		if unknown = unknown || w == Never; w != Never {
			wait = max(wait, w)
		}
	}
	if unknown && wait <= 0 {
		return Never
	}
	return wait
}

// free is the wait for what holds nothing up.
const free time.Duration = math.MinInt64

// Start records that r starts now, and takes its turn of the rate.
func (a *Adaptive) Start(now time.Time, r Request) {
	if a.turns.other == nil {
		a.start(now, r)
		return
	}
	var from [mostLimits]time.Time // when each limit let it start
	i := 0
	for x := a; x != nil; x = x.turns.other {
		from[i] = now.Add(min(x.next-now.Sub(x.epoch), a.holds(now, x)))
		i++
	}
	i = 0
	for x := a; x != nil; x = x.turns.other {
		mine := r
		for j, at := range from {
			if j != i && mine.Since.Before(at) { // until then r did not wait for x
				mine.Since = at
			}
		}
		x.start(now, mine)
		i++
	}
}

// Observe learns from o. It returns a rest only for a refusal that is of this call alone, as the rate
// paces all other retries.
func (a *Adaptive) Observe(now time.Time, o Outcome) (rest time.Duration) {
	told := a.turn(now, &o)
	for x := a; x != nil; x = x.turns.other {
		mine := o
		if x != told {
			mine = blameless(mine)
			mine.Hints = Hints{Remaining: a.leaves(x, told, &o)}
			if mine.Verdict == Served && !mine.Hints.Remaining.OK {
				x.level.unsaid(charged(max(o.Cost, o.Request.Cost)) / x.costs.unit())
			}
		}
		rest = max(rest, x.ended(now, &mine))
	}
	return rest
}

// leaves returns what of the limit of x remains at least by o, an answer that states another, as
// that binds: the same part or the same number, as servers go by either. There is none if it is not
// known, or no more than was stated of x last.
func (a *Adaptive) leaves(x, told *Adaptive, o *Outcome) Opt[int64] {
	r, of, most := o.Hints.Remaining.V, told.turns.room, x.turns.room
	if o.Verdict != Served || !o.Hints.Remaining.OK || of <= 0 || most <= 0 {
		return Opt[int64]{}
	}
	part := int64(math.Ceil(float64(r) / float64(of) * float64(most)))
	if r = min(r, part, most-1); float64(r) <= x.level.shown*x.costs.unit() {
		return Opt[int64]{}
	}
	return Some(r)
}

// turn returns the Adaptive whose limit o, an answer at now, tells of.
func (a *Adaptive) turn(now time.Time, o *Outcome) *Adaptive {
	said := quota{o.Hints.Limit.V, o.Hints.Window.V}
	if a.Blind || said.limit <= 0 {
		return a.binding()
	}
	before := a.binding().turns.at
	x := a.find(now, said)
	t := &x.turns
	if t.own.limit = said.limit; said.window > 0 {
		t.own.window = said.window
	}
	if t.room = said.limit; o.Hints.Burst.OK && o.Hints.Burst.V > 0 {
		t.room = o.Hints.Burst.V
	}
	t.again = t.again || t.missed > 0
	t.served = t.served || o.Verdict == Served
	t.reset, t.at, t.on, t.missed = o.Hints.Reset.V, now, 0, 0
	a.turns.told = x
	a.keep(now, before, o)
	return x
}

// keep counts an answer at now that did not state the other limits. They hold on for the time since
// before, when one was stated last: all of it while less than half remains of the one that is, as
// the others then need not be stated; else what is beyond the patience for one answer, as no answer
// came.
func (a *Adaptive) keep(now, before time.Time, o *Outcome) {
	x, on := a.turns.told, now.Sub(before)
	if o.Verdict != Throttled && (!o.Hints.Remaining.OK || o.Hints.Remaining.V > x.turns.room/2) {
		on = max(on-seconds(patience), 0)
	}
	for y := a; y != nil; y = y.turns.other {
		if y == x {
			continue
		}
		t := &y.turns
		if !o.Sent.Before(t.at) {
			t.missed++
		}
		if before.Before(y.until()) {
			t.on += on
		}
	}
}

// binding returns the Adaptive whose limit was stated last.
func (a *Adaptive) binding() *Adaptive {
	if a.turns.told == nil {
		return a
	}
	return a.turns.told
}

// find returns the Adaptive of the limit stated. If no limit has that number, the one with that window
// has changed, else one that has gone. Otherwise it is another limit, and a new Adaptive, up to
// mostLimits; beyond, that of the limit stated last has changed.
func (a *Adaptive) find(now time.Time, said quota) *Adaptive {
	told, limits := a.binding(), 0
	var last, changed, gone *Adaptive
	for x := a; x != nil; x = x.turns.other {
		switch own := x.turns.own; {
		case own.same(said):
			return x
		case own == quota{} || said.window > 0 && own.window == said.window:
			changed = x
		case x != told && !now.Before(x.until()):
			gone = x
		}
		last = x
		limits++
	}
	switch {
	case changed != nil:
		return changed
	case gone != nil:
		return gone
	case limits == mostLimits:
		return told
	}
	last.turns.other = told.beside(now)
	last.turns.other.turns.own = said
	return last.turns.other
}

// same reports whether q and p may be one limit: an answer may leave the window out.
func (q quota) same(p quota) bool {
	return q.limit == p.limit && (q.window == p.window || q.window == 0 || p.window == 0)
}

// beside returns a new Adaptive for another limit of the requests of a.
func (a *Adaptive) beside(now time.Time) *Adaptive {
	b := &Adaptive{Probe: a.Probe, Weight: a.Weight, Burst: a.Burst}
	b.begin(now)
	b.flying, b.rtt, b.costs.mean, b.unpacedRate = a.flying, a.rtt, a.costs.mean, a.nextRate
	return b
}

// holds returns for how long from now on the limit of x holds up requests, if it is not stated
// again. An answer that states another says that x does not bind, unless x is stated by refusals
// alone. The shortest window changes faster than answers come.
func (a *Adaptive) holds(now time.Time, x *Adaptive) time.Duration {
	t, always := &x.turns, x == a.main(now) || !x.turns.served
	switch {
	case t.missed == 0, always && t.missed < mostMissed:
		return Never
	case always:
		return x.until().Sub(now)
	}
	return free
}

// until returns when a limit has gone unless it is stated again: others were stated for long.
func (a *Adaptive) until() time.Time {
	t := &a.turns
	switch {
	case t.missed < mostMissed:
		return t.at.Add(Never)
	case !t.again:
		return t.at.Add(t.on + replacedFor)
	}
	return t.at.Add(t.on + max(2*t.own.window, 2*t.reset, leastHold))
}

// main returns the Adaptive of the limit that always binds: that of the shortest window, or of the
// fewest requests.
func (a *Adaptive) main(now time.Time) *Adaptive {
	main := a.binding()
	for x := a; x != nil; x = x.turns.other {
		if now.Before(x.until()) && x.turns.own.before(main.turns.own) {
			main = x
		}
	}
	return main
}

// before reports whether q is of a shorter window than p, or of fewer requests.
func (q quota) before(p quota) bool {
	if q.window != p.window {
		return q.window < p.window
	}
	return q.limit < p.limit
}

// slowest returns the Adaptive whose next start comes last.
func (a *Adaptive) slowest(now time.Time) *Adaptive {
	slow, most := a, free
	for x := a; x != nil; x = x.turns.other {
		if w := min(x.next-now.Sub(x.epoch), a.holds(now, x)); w > most {
			slow, most = x, w
		}
	}
	return slow
}
