package pace

import (
	"math"
	"time"
)

// A call is of no use once too little is left of the time for which its caller
// waits, until Ticket.End. In a queue that is longer than callers wait, the first
// in line always has too little: served first come, first served, all calls that
// start would time out, while the server works for nobody. So a Gate that may
// start one ticket, and has several, passes over those that are pressed for time.
//
//   - How much time a call needs is learnt from time-outs alone, see spare: while
//     none times out, all are served first come, first served, however slow.
//   - A ticket is passed over only for another that starts in its place. Without
//     such a one it starts in its turn: nothing is idle, and what was learnt of a
//     slow server is unlearnt.
//   - A ticket in the first eighth of its time is never passed over: it was not
//     the queue that took its time.
//   - GivenUp ends the wait of those passed over, once no more can start.
//   - Enter and Done refuse a ticket whose wait would leave it too little, see tooLate; also
//     before anything was answered, where turns are spent in vain, see missed.
//
// A call whose caller waits for less than the line is long would never be served
// either, while others have time to spare. So before it would be too late it goes
// ahead, by the earliest deadline: first come, first served until zero laxity. Of two
// starts one at most is ahead, so that those that wait in turn wait at most twice as
// long for it.

// spare learns how much time a call must have left when it starts, so that about
// one in twenty of those that just have it time out (n are in flight):
//
//	time-out after x                  raised by a tenth, but to 1.1 x at most
//	answer within less                lowered by 1/200, or by 1/8n if that is less
//	the same, above the most          lowered by 1/16
//
// It begins at a quarter of what answers take as a rule. The most is what answers take
// on average and four times their mean deviation, as in the retransmission timer of
// TCP (Jacobson 1988, RFC 6298), and half as much again at least, for a step of a
// tenth. Where calls with more left time out, their answers are lost, or they are of
// another kind: more time would not help.
type spare struct {
	ends int     // answers and time-outs, up to spareEnds
	mean float64 // seconds that answers take, of late; zero: there was none
	dev  float64 // by which they differ from that, on average
	need float64 // seconds

	vain   int           // time-outs of calls that had waited, since an answer
	vainly time.Duration // the longest of them
	vainAt time.Time     // when the first ended
}

const (
	spareEnds  = 16 // that there must have been before a ticket is passed over
	spareFresh = 8  // parts of its time, in the first of which a ticket is not
	spareVain  = 2  // time-outs without an answer, after which turns may be spent in vain,
	spareTimes = 4  // if so many times as long passes; then a call needs so many times as much
)

// learn learns how a call ended, after it took so long, beside flying others. It
// reports whether it was a time-out that tells of load, and not of a caller that
// waits for less than answers take. What took no time at all, by a coarse clock,
// teaches nothing.
func (s *spare) learn(took time.Duration, flying int, r *Report) (load bool) {
	x := took.Seconds()
	switch {
	case took <= 0:
		return false
	case r.TimedOut && (r.Verdict == Ignored || r.Verdict == Failed):
		load = s.mean > 0 && x >= s.mean
		s.need = max(s.need, 1.1*min(x, max(s.need, s.mean/4, x/1000)))
	case r.Verdict == Served:
		s.answered(x, float64(flying))
	default:
		return false
	}
	s.ends = min(s.ends+1, spareEnds)
	return load
}

// missed learns from the end of a call that had waited, and then took so long, whether
// turns are spent in vain.
func (s *spare) missed(now time.Time, waited, took time.Duration, r *Report) {
	switch {
	case r.Verdict == Served:
		s.vain = 0
	case r.TimedOut && (r.Verdict == Ignored || r.Verdict == Failed) && waited >= took/(spareFresh-1):
		if s.vain == 0 {
			s.vainly, s.vainAt = 0, now
		}
		s.vain, s.vainly = min(s.vain+1, spareVain), max(s.vainly, took)
	}
}

func (s *spare) answered(took, flying float64) {
	if s.mean == 0 {
		s.mean, s.dev = took, took/2
	}
	s.dev += (math.Abs(took-s.mean) - s.dev) / 16
	s.mean += (took - s.mean) / 16
	switch {
	case took >= s.need: // its caller waited, and others may
	case s.need > s.mean+max(4*s.dev, s.mean/2):
		s.need -= s.need / 16
	default:
		s.need -= s.need / max(200, 8*flying)
	}
}

// known returns how much time a ticket must have left; zero: it does not matter.
func (s *spare) known() time.Duration {
	if s.ends < spareEnds {
		return 0
	}
	return time.Duration(s.need * 1e9)
}

// least returns how much time a ticket must have left once it has waited; zero: it does
// not matter. Where turns are spent in vain, nothing has to be known of what answers take.
func (s *spare) least(now time.Time) (need time.Duration) {
	mean := time.Duration(s.mean * 1e9)
	if need = s.known(); need > 0 {
		need = max(need, mean/4)
	}
	vainly := min(s.vainly, math.MaxInt64/spareTimes)
	if s.vain >= spareVain && now.Sub(s.vainAt) >= spareTimes*max(vainly, mean) {
		need = max(need, spareTimes*vainly)
	}
	return need
}

// pressed reports whether t has too little time left to start, if it needs so
// much.
func (t *Ticket) pressed(now time.Time, need time.Duration) bool {
	if need <= 0 || t.End.IsZero() {
		return false
	}
	left := t.End.Sub(now)
	return left < need && now.Sub(t.entered) >= left/(spareFresh-1)
}

// tooLate reports whether t, once it has waited for its Forecast, would have too little
// time left to be answered. Else, where calls come faster than they may start, the call
// that enters is the first whose wait ends just before its End: each turn goes to a call
// that times out, and the Controller hears no answer that would raise the rate.
func (g *Gate) tooLate(now time.Time, t *Ticket) bool {
	if t.Forecast <= 0 || t.Forecast == Never {
		return false
	}
	return t.pressed(now.Add(t.Forecast), g.spare.least(now))
}

// look is a look at all tickets in line, of which none had so much time left. As
// they have less and less, it is not repeated before another comes: with a hundred
// thousand in line it takes a millisecond.
type look struct {
	pushes uint64 // of the lanes
	need   time.Duration
}

// instead returns the ticket that starts in place of t, whose turn it is: t itself,
// unless it is pressed for time and another that is not may start.
func (g *Gate) instead(now time.Time, t *Ticket) *Ticket {
	need := g.spare.known()
	if !t.pressed(now, need) {
		return g.ahead(now, t)
	}
	if g.looked.pushes == g.lanes.pushes && need >= g.looked.need {
		return t
	}
	other, _ := g.lanes.next(now, pick{need: need})
	if other == nil {
		g.looked = look{g.lanes.pushes, need}
		return t
	}
	if g.wait(now, other.request) > 0 {
		return t
	}
	g.lanes.pass(now, need, t, other)
	return other
}

// ahead returns the ticket that starts before t, whose turn it is, as it would be too
// late in its own; t, if there is none. It is in the same line, so it takes the turn of
// no other lane or key, and no place in another scope.
func (g *Gate) ahead(now time.Time, t *Ticket) *Ticket {
	was := g.jumped
	g.jumped = false
	if was || g.spare.ends < spareEnds {
		return t
	}
	other := t.line.hurried(now, max(g.spare.known(), time.Duration(g.spare.mean*1e9)))
	if other == nil || !other.sooner(t) || g.wait(now, other.request) > 0 {
		return t
	}
	g.jumped = true
	return other
}

// sooner reports whether t ends before other, which may have no End.
func (t *Ticket) sooner(other *Ticket) bool { return other.End.IsZero() || t.End.Before(other.End) }

// hurried is the ticket whose End is the nearest, if it has between need and twice
// that left; nil if it has more. As all that are in flight end within need, one that
// waits any longer may find no place in time. One that has less goes ahead no more.
func (l *line) hurried(now time.Time, need time.Duration) *Ticket {
	for l.ends.len() > 0 {
		t := l.ends.top()
		switch left := t.End.Sub(now); {
		case left >= 2*need:
			return nil
		case left >= need:
			return t
		}
		l.calm(t)
	}
	return nil
}

// push puts t in line.
func (l *line) push(t *Ticket) {
	l.heap.push(t)
	l.tried += t.triedOnce()
	if !t.End.IsZero() {
		l.ends.by, t.hurries = byEnd, true
		l.ends.push(t)
	}
}

// remove takes t out of line.
func (l *line) remove(t *Ticket) {
	l.heap.remove(t)
	l.tried -= t.triedOnce()
	l.calm(t)
}

// calm lets t go ahead no more.
func (l *line) calm(t *Ticket) {
	if t.hurries {
		t.hurries = false
		l.ends.remove(t)
	}
}

// GivenUp returns a ticket that has left because it would not be answered before
// its End: another started in its place, and no more can start now. It returns nil
// if there is none. A driver calls it once Next has returned nil; if it returns a
// ticket, call Next again. If a driver never calls it, such tickets stay in line,
// and start when no other can in their place.
func (g *Gate) GivenUp() *Ticket {
	if g.lanes.passed == 0 {
		return nil
	}
	t := g.lanes.passedOver()
	if t == nil {
		return nil
	}
	g.lanes.remove(t)
	g.purse.giveBack(t)
	t.at = outside
	return t
}

// head is the first in line that p lets be chosen; nil if there is none.
func (l *line) head(now time.Time, p pick) *Ticket {
	switch {
	case p.tried && l.tried == 0:
		return nil
	case p.need <= 0 && !p.tried:
		return l.top()
	}
	return l.oldest(0, func(t *Ticket) bool { return (!p.tried || t.tries > 0) && !t.pressed(now, p.need) })
}

// pass notes that other starts in place of t, and of those in its line that came
// before other and are pressed for time too.
func (l *lanes) pass(now time.Time, need time.Duration, t, other *Ticket) {
	t.line.oldest(0, func(t *Ticket) (enough bool) {
		if t.arrival > other.arrival || !t.pressed(now, need) {
			return true
		}
		if !t.passed {
			t.passed = true
			l.passed++
		}
		return false
	})
}

// passedOver returns a ticket that was passed over and is the first in its line.
func (l *lanes) passedOver() *Ticket {
	for i := range l.all {
		for _, f := range l.all[i].flows {
			for _, line := range f.lines {
				if t := line.top(); t.passed {
					return t
				}
			}
		}
	}
	return nil
}
