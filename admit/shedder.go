package admit

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/load"
	"github.com/throttle-go/throttle/store"
)

// ErrShed says that work of a higher priority took the place of this work in
// the queue of a [Shedder].
var ErrShed = errors.New("shed: more important work came first")

// Shedder protects a service from overload, by load shedding with an adaptive
// concurrency limit. It bounds the work in flight; other work waits briefly, the
// highest [load.Priority] first and within one in order of arrival; and work
// that would wait too long is refused at once. So under overload the lower
// priorities are shed and the higher ones are hardly delayed.
//
// It is for capacity that all callers share. The zero value is ready, and
// learns by itself how much may be in flight. A Shedder is safe for concurrent
// use; it must not be copied, nor its fields changed, after first use. It
// starts no goroutine and needs no closing. Its decisions are those of a
// [load.Admission].
type Shedder struct {
	// MaxInFlight bounds the work in flight. If zero or below, an adaptive
	// limit does, learnt from how long the work takes: see [load.Adaptive].
	MaxInFlight int
	// MaxLimit bounds the limit that is learnt. If zero or below, 10,000.
	MaxLimit int
	// MaxWaiting bounds the work that waits, of all priorities together. Beyond
	// it, new work takes the place of the last of the lowest priority if that
	// is below its own, and is refused otherwise. If zero or below, 1000, which
	// take some 200 KB.
	MaxWaiting int
	// MaxWait bounds the wait, besides the deadline of the context. If zero, 100
	// ms, or the time in which ten pieces of work are done if that is longer. If
	// below zero, work does not wait.
	MaxWait time.Duration

	mu    sync.Mutex // guards what follows
	law   load.Admission
	spare sync.Pool // of *applicant
}

// applicant is a piece of work that applies, waits, or is in flight.
type applicant struct {
	load.Ticket
	turn   chan struct{} // holds one: its State was decided while it waited
	number uint64        // counts its uses; a Pass of another number is past
}

// Pass is a permit for one piece of work. It must be released when the work is
// done. The zero Pass holds nothing. A Pass may be copied: releasing one copy
// releases all.
type Pass struct {
	of     *Shedder
	a      *applicant
	number uint64
}

// ShedderStats are the numbers of a [Shedder].
type ShedderStats struct {
	// Limit is the current concurrency limit, InFlight the work in flight,
	// Waiting the work that waits, and PeakWaiting the most that waited so far.
	Limit, InFlight, Waiting, PeakWaiting int
	// Took is the recent average duration of a piece of work; zero if none is
	// done yet.
	Took time.Duration
	// Passed and Refused count by priority, from Low at 0 to Critical at 3: see
	// [load.Priority.Index]. Work that gave up by itself is in neither.
	Passed, Refused [load.Priorities]int64
}

// Acquire waits until work of priority p may start. A zero p counts as
// [load.Normal].
//
// Work that may not start gets a [*store.Error]. The Reason is one of
//
//   - context.DeadlineExceeded, when the turn did not come in time, or will
//     not: Wait is a forecast that includes the work ahead and the higher
//     priorities that come meanwhile (Cobham 1954).
//   - ErrQueueFull.
//   - ErrShed, when work of a higher priority took its place.
//   - the Cause of ctx, when ctx ended.
//
// A grant in the instant in which ctx ends is a grant.
func (s *Shedder) Acquire(ctx context.Context, p load.Priority) (Pass, error) {
	if ctx == nil {
		panic("admit: Shedder.Acquire: the context is nil")
	}
	if ctx.Err() != nil {
		return Pass{}, store.Ended(ctx, nil)
	}
	a := s.take()
	a.Priority = p
	a.Deadline, _ = ctx.Deadline()
	pass, waits, err := s.enter(a)
	if waits {
		err = s.await(ctx, a)
	}
	if err != nil {
		s.spare.Put(a)
		return Pass{}, err
	}
	return pass, nil
}

// Release ends the work, and lets the Shedder learn from how long it took.
// Further calls do nothing. It may be called from any goroutine.
func (p Pass) Release() { p.end(true) }

// Forget releases as Release does, but teaches nothing: for work that took long
// for a reason of its own, such as a stream, or was cut short.
func (p Pass) Forget() { p.end(false) }

func (p Pass) end(teaches bool) {
	if p.of == nil {
		return
	}
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	if p.a.number != p.number {
		return
	}
	p.a.number++
	p.of.set()
	p.of.law.Done(time.Now(), &p.a.Ticket, teaches)
	p.of.wake()
	p.of.spare.Put(p.a)
}

// Stats returns the current numbers.
func (s *Shedder) Stats() ShedderStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set()
	n := s.law.Stats()
	return ShedderStats{
		Limit: n.Limit, InFlight: n.InFlight, Waiting: n.Waiting, PeakWaiting: n.PeakWaiting,
		Took: n.Took, Passed: n.Passed, Refused: n.Refused,
	}
}

// enter lets a start or wait, or returns why it may not.
func (s *Shedder) enter(a *applicant) (p Pass, waits bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set()
	now := time.Now()
	switch state := s.law.Enter(now, &a.Ticket); state {
	case load.Granted:
		return Pass{s, a, a.number}, false, nil
	case load.Waiting:
		if a.turn == nil {
			a.turn = make(chan struct{}, 1)
		}
		s.wake()
		return Pass{s, a, a.number}, true, nil
	default:
		wait, ok := s.law.Forecast(now, a.Priority)
		if !ok {
			wait = limit.Never
		}
		return Pass{}, false, &store.Error{Reason: shedReason(state), Wait: wait}
	}
}

// shedReason returns why work in that state was refused.
func shedReason(state load.State) error {
	switch state {
	case load.Full:
		return ErrQueueFull
	case load.PushedOut:
		return ErrShed
	}
	return context.DeadlineExceeded // TooLate
}

// wake wakes the work whose State was decided while it waited. Caller holds mu.
func (s *Shedder) wake() {
	for t := s.law.Next(); t != nil; t = s.law.Next() {
		select {
		case t.Owner.(*applicant).turn <- struct{}{}:
		default: // it is woken already
		}
	}
}

// await waits for the turn of a, which is not granted if await fails. It does
// not outlive ctx.
func (s *Shedder) await(ctx context.Context, a *applicant) error {
	timer := time.NewTimer(time.Until(a.Deadline))
	defer timer.Stop()
	var err error
	select {
	case <-a.turn:
	case <-timer.C:
		err = &store.Error{Reason: context.DeadlineExceeded, Wait: limit.Never}
	case <-ctx.Done():
		err = store.Ended(ctx, nil)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-a.turn: // it got its turn in the meantime
	default:
	}
	switch state := a.State(); state {
	case load.Granted:
		return nil
	case load.Waiting:
		s.law.Leave(&a.Ticket, ctx.Err() == nil)
		return err
	default:
		return &store.Error{Reason: shedReason(state), Wait: limit.Never}
	}
}

// set copies the fields into the law. Caller holds mu.
func (s *Shedder) set() {
	s.law.MaxInFlight, s.law.MaxLimit = s.MaxInFlight, s.MaxLimit
	s.law.MaxWaiting, s.law.MaxWait = s.MaxWaiting, s.MaxWait
}

// take returns an applicant that has not applied yet.
func (s *Shedder) take() *applicant {
	a, ok := s.spare.Get().(*applicant)
	if !ok {
		a = new(applicant)
		a.Owner = a
	}
	return a
}
