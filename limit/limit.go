// Package limit is the arithmetic of rate limiting: it decides, for the owner of
// a service, whether a request may pass. [Take] maps a state, a time and an
// [Ask] to the next state and a [Decision]. It reads no clock, holds no lock and
// allocates nothing, so the same code decides in memory, behind Redis or
// PostgreSQL, and in the simulator.
//
//	s, d := limit.Take(s, time.Now(), limit.Ask{
//		Limit: limit.Limit{Count: 100, Period: time.Minute, Burst: 20}, // 100/min, 20 at once
//		N:     1,
//	})
//	if !d.OK { /* come again after d.RetryAfter */ }
//
// Choose the token bucket unless there is a reason not to: it has no edge at
// which twice the limit passes. The windows are what many published quotas are
// ("5000 an hour", "100,000 a month"), and let up to twice their count pass
// around an edge; a sliding window of two counters rarely does. A [Log] has
// neither edge nor burst, and pays for it in memory; [Slots] pay less, and count
// an event a little too long.
//
// # For implementers of Stores
//
// [CheckAsks] finds malformed asks, [Change] carries a State over to another
// Limit, [Fast] packs States into words for a table, and [Lease] keeps the
// tokens that a process has prefetched. To limit requests, none of them is
// needed.
package limit

import (
	"math"
	"time"
)

// Never is the RetryAfter of an ask that waiting does not help: for more than
// the burst, or under a limit of zero. Any wait of 292 years and more is Never,
// too.
const Never time.Duration = math.MaxInt64

// Limit states how many events are allowed in which time, how many at once, and
// by which algorithm. The zero Limit allows everything. Limits are comparable;
// Zones are compared by pointer. Parse reads one from text, and String writes
// it.
type Limit struct {
	// Kind is the algorithm. If zero or unknown, TokenBucket.
	Kind Kind
	// Slots is the number of parts that SlidingSlots divides the Period into. If
	// zero or below, 10; at most MaxSlots, and no part is shorter than a
	// microsecond. Other kinds ignore it.
	Slots int32
	// Count is the number of events allowed in each Period. With a Period, zero
	// and below allow nothing. A TokenBucket of 3 a day allows three at once, and
	// then one every eight hours; a CalendarWindow three each day.
	Count int64
	// Burst is the number of events that a TokenBucket allows at once, when
	// full. If zero or below, Count. Other kinds ignore it.
	Burst int64
	// Period is used in whole microseconds, rounded up. If zero or below, the
	// limit allows everything. A CalendarWindow rounds it up to a minute, an
	// hour, a day of 24 hours, a Week or a number of Months, and then counts in
	// those of the calendar, whatever their length.
	Period time.Duration
	// Zone is the time zone in which the days and months of a CalendarWindow
	// begin. If nil, UTC. Other kinds ignore it.
	Zone *time.Location
}

// Unlimited reports whether l allows everything.
func (l Limit) Unlimited() bool { return l.Period <= 0 }

// Max returns the largest N that could ever be allowed at once: zero for a limit
// that allows nothing. For a Burst that would take longer than 9,000 years to
// refill, it is the part refilled in that time.
func (l Limit) Max() int64 { return l.most() }

// most spares a copy, as what is asked at every decision should.
func (l *Limit) most() int64 {
	switch {
	case l.Period <= 0:
		return math.MaxInt64
	case l.Count <= 0:
		return 0
	case l.Kind == SlidingLog:
		return min(l.Count, MaxLog)
	case l.Burst > 0 && l.Kind.isBucket():
		return cut(l.Burst, l.micros(), l.Count)
	}
	return l.Count
}

// micros is the Period in microseconds, rounded up so that rounding never
// admits more.
func (l *Limit) micros() int64 {
	us := int64(l.Period / time.Microsecond)
	if l.Period%time.Microsecond > 0 {
		us++
	}
	return us
}

// State holds the usage of one key under one limit. The zero State is a key
// never seen, and so is, for every Kind, a State whose T has passed: forgetting
// it loses nothing. States are compared with ==, and stored as three integers.
type State struct {
	// T is the instant, in microseconds of Unix time, at which the State
	// expires: the bucket is full, or the window over; for a SlidingWindow, the
	// window after the one that counted N.
	T int64
	// N is, for a TokenBucket, the amount by which T was rounded up, in units of
	// 1/Count microsecond; for others, the count of the window.
	N int64
	// P is, for a SlidingWindow, the count of the window before. Other kinds
	// leave it zero.
	P int64
}

// live reports whether there is something to remember.
func (s State) live(now int64) bool { return s.T > now && s != (State{}) }

// Ask asks whether N events may pass under a Limit.
type Ask struct {
	// Key names the caller. Take ignores it; stores find the State by it.
	Key string
	// Limit is the limit to decide by. It is the same for every Ask about a key;
	// Change carries a State over to another.
	Limit Limit
	// N is the cost. Zero peeks: nothing changes, and OK says that nothing is
	// owed. Below zero refunds, never above a full bucket or an unused window: a
	// window that has ended cannot be refunded, so the refund goes to the
	// current one.
	N int64
	// Min above zero accepts a part of N: as many as there are, from Min to N,
	// are granted. If zero or below, all of N or nothing.
	Min int64
	// Debt charges all of N even if it does not fit, as when the true cost is
	// known only afterwards. The debt is bounded by one more Burst (or Count)
	// below zero; a charge beyond it is forgiven. It is paid by refilling; a
	// window forgives it when it ends, a SlidingWindow as it leaves the Period.
	Debt bool
}

// least is the smallest grant that would do.
func (a *Ask) least() int64 {
	if a.Min > 0 {
		return min(a.Min, a.N)
	}
	return a.N
}

// grant is how much of a passes where left fit, and whether that will do. It is
// the same for every kind.
func (a *Ask) grant(left int64, owing bool) (n int64, ok bool) {
	switch {
	case a.N == 0:
		return 0, !owing
	case a.N <= left || a.Debt: // giving back included
		return a.N, true
	case a.Min > 0 && a.Min <= left:
		return left, true
	}
	return 0, false
}

// Decision is the answer to an Ask.
type Decision struct {
	// OK reports whether the ask may pass.
	OK bool
	// N is the number of events charged: the N of the Ask, a part of it where
	// Min allows or some of a Debt is forgiven (whole events of a TokenBucket),
	// zero where refused. Below zero, it is the refund: at most that
	// of the Ask, and no more than was used or owed, where part of an event
	// counts as one.
	N int64
	// Max is the largest N that this limit could ever grant at once.
	Max int64
	// Remaining is the number of events that could pass right after this
	// decision.
	Remaining int64
	// RetryAfter is the time until this Ask could pass, if no other is charged
	// meanwhile: zero if it passed, Never if it never can. It is rounded up to a
	// microsecond: the Ask would not pass one microsecond earlier.
	RetryAfter time.Duration
	// ResetAfter is the time until the limit is unused again: the bucket is full
	// or the window over. It is rounded up to a microsecond.
	ResetAfter time.Duration
	// At is the time of the decision, by the clock that decided.
	At time.Time
}

// skew is how far, in microseconds, callers may overtake each other between
// reading the clock and being answered. Within it a State from the future is
// not touched: it is one that a caller with a later time has just written.
const skew = int64(time.Second / time.Microsecond)

// Take decides a at the time now, in whole microseconds rounded down, given the
// state s of its key, and returns the state to keep. A refusal and a peek return
// s itself, so that nothing need be written. It is safe for concurrent use, as
// it shares nothing. It panics if the Limit is a SlidingLog or SlidingSlots,
// which need more than a State.
//
// A clock that goes back grants nothing. If it goes back so far that s is
// further in the future than it could honestly be, by more than a second, s is
// clamped, and returned so even where refused: a store writes each state that
// differs. So no key is locked out for more than the time to refill two Bursts,
// or until the end of the next window (of a SlidingWindow, of the one after
// that), and a second.
func Take(s State, now time.Time, a Ask) (State, Decision) {
	d := Decision{Max: a.Limit.most(), At: now}
	switch {
	case a.Limit.Period <= 0:
		d.OK, d.N, d.Remaining = true, a.N, math.MaxInt64
	case a.Limit.Count <= 0:
		takeNothing(&a, &d)
	case a.Limit.Kind.keptApart():
		panic("limit: Take of a " + a.Limit.Kind.String() + ": it needs more than a State; use limit.Log or limit.Slots, or a Store")
	case a.Limit.Kind.isWindow():
		s = takeWindow(s, now.UnixMicro(), &a, &d)
	case a.Limit.Kind == SlidingWindow:
		s = takeSliding(s, now.UnixMicro(), &a, &d)
	default:
		s = takeBucket(s, now.UnixMicro(), &a, &d)
	}
	return s, d
}

// counts reports whether l keeps a State at all.
func (l *Limit) counts() bool {
	return l.Period > 0 && l.Count > 0 && !l.Kind.keptApart()
}

// takeNothing answers for a limit that allows nothing. What
// would be owed to it, or is given back, is within its bounds forgiven and
// forgotten.
func takeNothing(a *Ask, d *Decision) {
	if d.N, d.OK = a.grant(0, true); !d.OK {
		d.RetryAfter = Never
	}
	d.N = max(d.N, 0) // nothing can come back
}

// comesBack returns the N of a Decision that gives back -n of what is used, n
// being below zero.
func comesBack(n, used int64) int64 { return max(n, -max(used, 0)) }

// charged returns the N of a Decision that charges n where used of count are used: what
// would be owed beyond one more count is forgiven.
func charged(n, used, count int64) int64 { return min(n, max(double(count)-used, 0)) }

// TakeAll decides several asks as one, all or nothing: if every a[i] passes, all
// are charged, s[i] becomes the new state of a[i] and ok is true. Otherwise
// nothing is charged and no state changes (but for the clamping that Take
// describes); the refusals are in d as Take gives them, and the others are OK
// with N zero. s, a and d must have the same length, and no two asks may be
// about the same key.
func TakeAll(s []State, now time.Time, a []Ask, d []Decision) (ok bool) {
	if len(a) == 1 { // the usual case: answer it once
		s[0], d[0] = Take(s[0], now, a[0])
		return d[0].OK
	}
	var few [16]State // what they become if all pass
	ok = true
	for i := range a {
		var next State
		next, d[i] = Take(s[i], now, a[i])
		ok = ok && d[i].OK
		if i < len(few) {
			few[i] = next
		}
	}
	if ok && len(a) <= len(few) { // nothing to answer again
		copy(s, few[:len(a)])
		return true
	}
	for i := range a {
		ask, passed := a[i], d[i].OK
		if !ok && passed { // it is another question that was refused
			ask = Ask{Limit: ask.Limit}
		}
		s[i], d[i] = Take(s[i], now, ask)
		if passed {
			d[i].OK, d[i].RetryAfter = true, 0
		}
	}
	return ok
}

// Binding returns the index of the limit that decided, among the decisions of
// TakeAll: of the refusals, the one with the longest RetryAfter, as all have to
// pass; without a refusal, the one with the least Remaining / Max, likely the
// next to refuse. Among equals it is the first. It is -1 if d is empty.
func Binding(d []Decision) int {
	best := -1
	for i := range d {
		if best < 0 || d[i].before(&d[best]) {
			best = i
		}
	}
	return best
}

// before reports whether d decides rather than o.
func (d *Decision) before(o *Decision) bool {
	switch {
	case d.OK != o.OK:
		return !d.OK
	case !d.OK:
		return d.RetryAfter > o.RetryAfter
	}
	// d.Remaining/d.Most < o.Remaining/o.Most; of nothing, nothing remains.
	return lessProduct(d.Remaining, o.Max, o.Remaining, max(d.Max, 1))
}
