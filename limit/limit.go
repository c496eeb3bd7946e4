// Package limit decides, for the owner of a service, whether a request may
// pass. It is arithmetic on values: [Take] maps a state, a time and a question
// to the next state and an answer. It reads no clock, holds no lock and
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
// which twice the limit passes. The fixed window is what many published quotas
// are ("5000 an hour"), and lets up to twice its count pass around an edge.
package limit

import (
	"math"
	"time"
)

// Never is the RetryAfter of what no waiting will help: a request above the
// burst, or a limit of zero.
const Never time.Duration = math.MaxInt64

// Kind is the algorithm of a Limit.
type Kind uint8

const (
	// TokenBucket admits bursts of up to Burst and, over any length of time,
	// at most Burst + Count × time / Period. It is computed as GCRA (ITU-T
	// I.371, the "generic cell rate algorithm"): the state is one instant.
	TokenBucket Kind = iota
	// FixedWindow admits Count in each window of length Period. Windows are
	// aligned to the Unix epoch.
	FixedWindow
)

func (k Kind) String() string {
	switch k {
	case TokenBucket:
		return "token-bucket"
	case FixedWindow:
		return "fixed-window"
	}
	return "unknown"
}

// Limit is how much of something is allowed. The zero Limit allows everything.
// Limits are comparable.
type Limit struct {
	Kind Kind
	// Count is how many are allowed each Period. With a Period, zero and
	// below allow nothing.
	Count int64
	// Burst is how many a TokenBucket allows at once, after a rest. If zero,
	// Count. Other kinds ignore it.
	Burst int64
	// Period is used in whole microseconds, rounded up. If zero or below, the
	// limit allows everything.
	Period time.Duration
}

// Unlimited reports whether l allows everything.
func (l Limit) Unlimited() bool { return l.Period <= 0 }

// Most is the largest N that could ever be allowed at once: zero for a limit
// that allows nothing.
func (l Limit) Most() int64 {
	switch {
	case l.Unlimited():
		return math.MaxInt64
	case l.Count <= 0:
		return 0
	case l.Kind == TokenBucket && l.Burst > 0:
		return l.Burst
	}
	return l.Count
}

// periodMicros is the Period in microseconds, rounded up so that rounding
// never admits more.
func (l Limit) periodMicros() int64 {
	us := int64(l.Period / time.Microsecond)
	if l.Period%time.Microsecond > 0 {
		us++
	}
	return us
}

// State is what is remembered of one key under one limit. The zero State is a
// key never seen, and so is, for every Kind, a State whose T has passed:
// forgetting it loses nothing. States are compared with ==, and stored as
// three integers.
type State struct {
	// T is the instant, in microseconds of Unix time, at which nothing is
	// left to remember: the bucket is full, or the window over.
	T int64
	// N is, for a TokenBucket, what T was rounded up by, in units of
	// 1/Count microsecond; for a FixedWindow, what the window has used.
	N int64
	// P is reserved for kinds that need a third number.
	P int64
}

// Ask is one question: may N pass?
type Ask struct {
	// Key says who asks. Take ignores it; stores find the State by it.
	Key   string
	Limit Limit
	// N is the cost. Zero peeks: nothing changes, and OK says whether
	// something is left or at least not owed. Below zero gives back.
	N int64
	// Min above zero makes part of N welcome: from Min to N are granted,
	// as many as there are. Zero: all of N or nothing.
	Min int64
	// Debt charges N even if it does not fit, as when the true cost is known
	// only afterwards. What is owed is bounded by one more Burst (or Count)
	// below zero; beyond it the charge is forgiven.
	Debt bool
}

// Decision is the answer to an Ask.
type Decision struct {
	// OK is whether it may pass.
	OK bool
	// N is how much was charged: the N asked for, a part of it where Min
	// allows, zero where refused; below zero what was given back.
	N int64
	// Most is the largest N that this limit could ever grant at once.
	Most int64
	// Remaining is how much could be taken right after this decision.
	Remaining int64
	// RetryAfter is how long until this Ask could pass, if nobody else takes
	// anything: zero if it passed, Never if it never can. Rounded up to a
	// microsecond.
	RetryAfter time.Duration
	// ResetAfter is how long until nothing is remembered: the bucket is full
	// or the window over.
	ResetAfter time.Duration
	// At is the time of the decision, by the clock that decided.
	At time.Time
}

// Take answers a at the time now, given the state s of its key, and returns
// the state to keep. A refusal and a peek return s itself, so that nothing
// need be written. Safe for concurrent use, as it shares nothing.
//
// A state from the future, as after a clock was set back, is clamped: it
// neither grants anything nor locks a key out for longer than an honest state
// could.
func Take(s State, now time.Time, a Ask) (State, Decision) {
	d := Decision{Most: a.Limit.Most(), At: now}
	switch {
	case a.Limit.Unlimited():
		d.OK, d.N, d.Remaining = true, a.N, math.MaxInt64
		return s, d
	case a.Limit.Count <= 0:
		return s, refuse(d, a, Never)
	case a.Limit.Kind == FixedWindow:
		return takeWindow(s, now.UnixMicro(), a, d)
	}
	return takeBucket(s, now.UnixMicro(), a, d)
}

// refuse completes the Decision of an Ask that does not fit.
func refuse(d Decision, a Ask, wait time.Duration) Decision {
	d.OK, d.N, d.RetryAfter = a.N < 0, 0, wait
	if d.OK { // giving back to a limit that allows nothing is no mistake
		d.RetryAfter = 0
	}
	return d
}

// TakeAll answers several questions as one: if every a[i] passes, all are
// charged, s[i] becomes the new state of a[i] and ok is true. Otherwise no
// state changes; the refusals are in d as Take gives them, and the others are
// peeks. s, a and d are of one length, and no two questions are about the same
// key.
func TakeAll(s []State, now time.Time, a []Ask, d []Decision) (ok bool) {
	ok = true
	for i := range a {
		_, d[i] = Take(s[i], now, a[i])
		ok = ok && d[i].OK
	}
	for i := range a {
		switch {
		case ok:
			s[i], d[i] = Take(s[i], now, a[i])
		case d[i].OK:
			_, d[i] = Take(s[i], now, Ask{Key: a[i].Key, Limit: a[i].Limit})
			d[i].OK = true // it is another question that was refused
		}
	}
	return ok
}
