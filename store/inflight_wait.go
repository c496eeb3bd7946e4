package store

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/throttle-go/throttle/internal/list"
	"github.com/throttle-go/throttle/limit"
)

// Reasons for which [InFlight.Wait] refuses, each as the Reason of an [Error].
var (
	// ErrNeverFits says that waiting does not help: [InFlight.Wait] was asked for
	// more than may be in flight even when nothing else is (an N above the Max, or
	// below zero), or the limit of a [Limiter] or an admit.Queue never admits so
	// many tokens.
	ErrNeverFits = errors.New("more than is ever admitted at once")
	// ErrInFlightFull says that MaxWaiting callers wait already, or that MaxKeys
	// keys are in flight.
	ErrInFlightFull = errors.New("too many callers are waiting, or too many keys are in flight")
)

// waiter is a call of Wait in line.
type waiter struct {
	place  list.Node[waiter]
	tally  *tally // in whose line it is
	came   uint64 // in which order they came, of all keys
	counts []Count
	done   chan waited // gets one
}

type waited struct {
	hold Hold
	err  error
}

// Wait acquires counts as Acquire does, and waits until they fit or ctx ends.
// Callers that wait for the same key are served in the order in which they came; a
// call of Acquire may overtake them. One that asks for several keys waits for the
// first of them that is full at the time, and holds up no others meanwhile. The error is an [*Error]: its Reason is
// ErrNeverFits, ErrInFlightFull, or the Cause of a ctx that has ended. After an
// error nothing is held.
func (f *InFlight) Wait(ctx context.Context, counts ...Count) (Hold, error) {
	if ctx == nil {
		panic("store: InFlight.Wait: the context is nil")
	}
	if ctx.Err() != nil {
		return Hold{}, Ended(ctx, nil)
	}
	if neverFit(counts) {
		return Hold{}, &Error{Reason: ErrNeverFits, Wait: limit.Never}
	}
	w, h, err := f.join(counts)
	if w == nil {
		return h, err
	}
	for {
		expires, stop := f.nextExpiry()
		select {
		case r := <-w.done:
			stop()
			return r.hold, r.err
		case <-ctx.Done():
			stop()
			return f.leave(ctx, w)
		case <-expires: // f.nextExpiry reclaims
		}
	}
}

// neverFit reports whether counts do not fit even if nothing else is in flight.
func neverFit(counts []Count) bool {
	for i, c := range counts {
		left := c.Max
		for _, other := range counts[:i+1] {
			if other.Key != c.Key {
				continue
			}
			n := cmp.Or(other.N, 1)
			if n < 0 || n > left {
				return true
			}
			left -= n
		}
	}
	return false
}

// join acquires counts, or else puts a waiter in line. An error is an *Error.
func (f *InFlight) join(counts []Count) (*waiter, Hold, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.reclaim()
	behind := f.busyLine(counts)
	if behind == nil {
		h, refused, ok := f.acquire(now, counts)
		if ok {
			return nil, h, nil
		}
		behind = f.tallies[counts[refused].Key]
	}
	if behind == nil || behind.n == 0 || f.waiting >= cmp.Or(max(f.MaxWaiting, 0), 10_000) {
		return nil, Hold{}, &Error{Reason: ErrInFlightFull}
	}
	f.came++
	w := &waiter{came: f.came, counts: slices.Clone(counts), done: make(chan waited, 1)}
	f.waiting++
	f.line(w, behind)
	return w, Hold{}, nil
}

// busyLine returns the first tally of counts that others wait for. Caller holds mu.
func (f *InFlight) busyLine(counts []Count) *tally {
	for _, c := range counts {
		if t := f.tallies[c.Key]; t != nil && t.line != nil && t.line.Len() > 0 {
			return t
		}
	}
	return nil
}

// line puts w in the line of t, behind those that came before it: it may have
// waited in another line. Caller holds mu.
func (f *InFlight) line(w *waiter, t *tally) {
	if t.line == nil {
		t.line = new(list.List[waiter])
	}
	w.tally = t
	if last := t.line.Back(); last != nil && last.came > w.came {
		for later := range t.line.All() {
			if later.came > w.came {
				t.line.Insert(&w.place, w, &later.place)
				return
			}
		}
	}
	t.line.Push(&w.place, w)
}

// leave takes w out of its line, unless it has been served meanwhile.
func (f *InFlight) leave(ctx context.Context, w *waiter) (Hold, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case r := <-w.done:
		return r.hold, r.err
	default:
	}
	w.tally.line.Remove(&w.place)
	f.waiting--
	f.serve(w.tally) // the next may fit
	return Hold{}, Ended(ctx, nil)
}

// serve lets in those in line for t that fit now, the first first. One that waits
// for another key by now goes to the line of that. Caller holds mu.
func (f *InFlight) serve(t *tally) {
	for t.line != nil && t.line.Len() > 0 {
		w := t.line.Front()
		h, refused, ok := f.acquire(f.clock(), w.counts)
		var other *tally
		if !ok {
			if other = f.tallies[w.counts[refused].Key]; other == t && t.n > 0 {
				return
			}
		}
		t.line.Remove(&w.place)
		switch {
		case ok:
			f.waiting--
			w.done <- waited{hold: h}
		case other == nil || other.n == 0: // there is room for no more keys
			f.waiting--
			w.done <- waited{err: &Error{Reason: ErrInFlightFull}}
		default:
			f.line(w, other)
		}
	}
	t.line = nil
}

// nextExpiry reclaims, and returns when to do so again: never without MaxAge.
func (f *InFlight) nextExpiry() (<-chan time.Time, func() bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.reclaim()
	oldest := f.held.Front()
	if f.MaxAge <= 0 || oldest == nil {
		return nil, func() bool { return false }
	}
	timer := time.NewTimer(oldest.since.Add(f.MaxAge).Sub(now))
	return timer.C, timer.Stop
}

// clock returns the time, zero if there is no MaxAge.
func (f *InFlight) clock() (now time.Time) {
	if f.MaxAge > 0 {
		now = time.Now()
	}
	return now
}
