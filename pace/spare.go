package pace

import (
	"math"
	"slices"
	"time"
)

// A call is of no use once too little is left of the time for which its caller waits, until
// Ticket.End. In a queue that is longer than callers wait the first in line always has too
// little: first come, first served, all calls that start would time out, and the server would
// work for nobody. So a Gate that may start one of several tickets passes over those that are
// pressed for time.
//
//   - How much time a call needs is learnt from time-outs alone, see spare: while none times
//     out, order is first come, first served, however slow the server is.
//   - A ticket is passed over only for another that starts in its place. If there is none it
//     starts in its turn: no start is lost, and what a slow server has taught is unlearnt.
//   - A ticket in the first eighth of its time is never passed over, as it was not the queue
//     that took its time.
//   - GivenUp ends the wait of those passed over, once no more can start.
//   - Enter and Done refuse a ticket that would have too little time after its wait, see
//     tooLate; before anything was answered also where turns are spent in vain, see missed.
//
// A call whose caller waits for less time than the queue takes would never be served either,
// while others have time to spare. So just before it would be too late it goes ahead: first come,
// first served until zero laxity, and then earliest deadline first. At most one of two starts is
// ahead, so that those in turn wait at most twice as long for it.

// spare learns how much time a call must have left when it starts, need, so that about one in
// twenty of those that have just that time out. With n in flight:
//
//	time-out after x               need × 1.1, at most 1.1 x
//	answer in less than need       need × (1 - 1/200), or 1 - 1/8n if that is more
//	the same, need above the most  need × (1 - 1/16)
//
// need begins at a quarter of the mean answer. The most is the mean and four mean deviations, as
// in the retransmission timer of TCP (Jacobson 1988, RFC 6298), and 1.5 times the mean at least,
// to leave room for a step of a tenth. Where calls that have more time out, their answers are
// lost or they are of another kind: more time would not help.
type spare struct {
	ends int     // answers and time-outs, up to spareEnds
	mean float64 // mean seconds to an answer, of late; zero: no answer yet
	dev  float64 // mean deviation, seconds
	need float64 // seconds

	timeouts       int           // time-outs since the last answer, of calls that had waited
	longestTimeout time.Duration // the longest of them
	firstTimeout   time.Time     // when the first of them ended
}

const (
	spareEnds     = 16 // answers and time-outs before a ticket is passed over
	spareFresh    = 8  // in the first 1/8 of its time none is
	spareTimeouts = 2  // time-outs without an answer after which turns may be spent in vain,
	spareTimes    = 4  // if so many times as long has passed; a call then needs so many times as much
)

// learn learns from how a call ended, after it took so long, beside flying others. It reports
// whether that was a time-out that tells of load, and not of a caller that waits for less than
// answers take. A call that took no time, by a coarse clock, teaches nothing.
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

// missed learns from the end of a call that had waited, and then took so long, whether turns are
// spent in vain.
func (s *spare) missed(now time.Time, waited, took time.Duration, r *Report) {
	switch {
	case r.Verdict == Served:
		s.timeouts = 0
	case r.TimedOut && (r.Verdict == Ignored || r.Verdict == Failed) && waited >= took/(spareFresh-1):
		if s.timeouts == 0 {
			s.longestTimeout, s.firstTimeout = 0, now
		}
		s.timeouts, s.longestTimeout = min(s.timeouts+1, spareTimeouts), max(s.longestTimeout, took)
	}
}

func (s *spare) answered(took, flying float64) {
	if s.mean == 0 {
		s.mean, s.dev = took, took/2
	}
	s.dev += (math.Abs(took-s.mean) - s.dev) / 16
	s.mean += (took - s.mean) / 16
	switch {
	case took >= s.need: // no sign that need is too long
	case s.need > s.mean+max(4*s.dev, s.mean/2):
		s.need -= s.need / 16
	default:
		s.need -= s.need / max(200, 8*flying)
	}
}

// known returns need once it is learnt; zero: no ticket is passed over.
func (s *spare) known() time.Duration {
	if s.ends < spareEnds {
		return 0
	}
	return time.Duration(s.need * 1e9)
}

// least returns how much time a ticket must have left after its wait; zero: any will do. Where
// turns are spent in vain it is known before anything was answered.
func (s *spare) least(now time.Time) (need time.Duration) {
	mean := time.Duration(s.mean * 1e9)
	if need = s.known(); need > 0 {
		need = max(need, mean/4)
	}
	vainly := min(s.longestTimeout, math.MaxInt64/spareTimes)
	if s.timeouts >= spareTimeouts && now.Sub(s.firstTimeout) >= spareTimes*max(vainly, mean) {
		need = max(need, spareTimes*vainly)
	}
	return need
}

// pressed reports whether t, which needs so much time, has too little left to start.
func (t *Ticket) pressed(now time.Time, need time.Duration) bool {
	if need <= 0 || t.End.IsZero() {
		return false
	}
	left := t.End.Sub(now)
	return left < need && now.Sub(t.entered) >= left/(spareFresh-1)
}

// tooLate reports whether t, once it has waited for its Forecast, would have too little time left
// to be answered. Where calls come faster than they may start, the first that may enter would else
// be one whose wait ends just before its End. Each turn would go to a call that times out, and the
// Controller would hear of no answer that raises the rate.
func (g *Gate) tooLate(now time.Time, t *Ticket) bool {
	if t.Forecast <= 0 || t.Forecast == Never {
		return false
	}
	return t.pressed(now.Add(t.Forecast), g.spare.least(now))
}

// search records a search of all tickets in line that found none with need left. Time only runs out,
// so it is not repeated before another ticket comes: with 100,000 in line it takes a millisecond.
type search struct {
	pushes uint64 // of the lanes
	need   time.Duration
}

// instead returns the ticket that starts in the turn of t: t itself, unless it is pressed for time
// and another that is not may start.
func (g *Gate) instead(now time.Time, t *Ticket) *Ticket {
	need := g.spare.known()
	if !t.pressed(now, need) {
		return g.ahead(now, t)
	}
	if g.searched.pushes == g.lanes.pushes && need >= g.searched.need {
		return t
	}
	other, _ := g.lanes.next(now, pick{need: need})
	if other == nil {
		g.searched = search{g.lanes.pushes, need}
		return t
	}
	if g.wait(now, other.request) > 0 {
		return t
	}
	g.lanes.pass(now, need, t, other)
	return other
}

// ahead returns the ticket that starts before t, whose turn it is, as its own turn would be too
// late; t, if there is none. It is in the same line, so it takes the turn of no other lane or key,
// and no place in another scope.
func (g *Gate) ahead(now time.Time, t *Ticket) *Ticket {
	was := g.wentAhead
	g.wentAhead = false
	if was || g.spare.ends < spareEnds {
		return t
	}
	other := t.line.mostUrgent(now, max(g.spare.known(), time.Duration(g.spare.mean*1e9)))
	if other == nil || !other.sooner(t) || other.scopesWait(now) > 0 || g.wait(now, other.request) > 0 {
		return t
	}
	g.wentAhead = true
	return other
}

// sooner reports whether t ends before other, which may have no End.
func (t *Ticket) sooner(other *Ticket) bool { return other.End.IsZero() || t.End.Before(other.End) }

// mostUrgent returns the ticket with the nearest End, if that is between need and twice need away;
// nil if it is further. All that are in flight end within need, so one that waited any longer
// might find no place in time. A ticket with less goes ahead no more.
func (l *line) mostUrgent(now time.Time, need time.Duration) *Ticket {
	for l.ends.len() > 0 {
		t := l.ends.top()
		switch left := t.End.Sub(now); {
		case left >= 2*need:
			return nil
		case left >= need:
			return t
		}
		l.notUrgent(t)
	}
	return nil
}

// push puts t in line.
func (l *line) push(t *Ticket) {
	l.heap.push(t)
	l.tried += t.triedOnce()
	if !t.End.IsZero() {
		l.ends.by, t.urgent = byEnd, true
		l.ends.push(t)
	}
}

// remove takes t out of line.
func (l *line) remove(t *Ticket) {
	l.heap.remove(t)
	l.tried -= t.triedOnce()
	l.notUrgent(t)
}

// notUrgent takes t out of the heap by End: it goes ahead no more.
func (l *line) notUrgent(t *Ticket) {
	if t.urgent {
		t.urgent = false
		l.ends.remove(t)
	}
}

// GivenUp returns a ticket that has left because it would not be answered before its End: another
// started in its place, and no more can start now. It returns nil if there is none. A driver calls
// it once Next has returned nil; if it returns a ticket, call Next again. If a driver never calls
// it, such tickets stay in line, and start when no other can in their place.
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

// head returns the first in line that p allows; nil if there is none.
func (l *line) head(now time.Time, p pick) *Ticket {
	switch {
	case len(p.after) > 0 && slices.ContainsFunc(p.after, l.top().shares):
		return nil
	case p.tried && l.tried == 0:
		return nil
	case p.need <= 0 && !p.tried:
		return l.top()
	}
	return l.oldest(0, func(t *Ticket) bool { return (!p.tried || t.tries > 0) && !t.pressed(now, p.need) })
}

// pass records that other starts in place of t, and of those in its line that came before other
// and are pressed for time too.
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
