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

// ErrShed says that work of a higher priority took the place of the call in the
// queue of a [Shedder].
var ErrShed = errors.New("shed: more important work came first")

// Shedder protects a service from more than it can do, by load shedding. It
// bounds how much is in flight; what does not fit waits for a moment, the highest
// [load.Priority] first and within one in order of arrival; and what would wait
// too long is refused at once. So when there is more than can be done, the lower
// priorities are shed, and the higher ones hardly notice.
//
// It is for capacity that all share. The zero value is ready, and finds by itself
// how much may be in flight. A Shedder is safe for concurrent use; it must not
// be copied, nor its fields changed, after first use. It starts no goroutine and
// needs no closing. Its decisions are those of a [load.Admission].
type Shedder struct {
	// MaxInFlight bounds the work in flight. If zero or below, an adaptive concurrency
	// limit does, learnt from how long the work takes: see [load.Gradient].
	MaxInFlight int
	// MaxLimit bounds the limit that is learnt. If zero or below, 1000.
	MaxLimit int
	// MaxWaiting bounds the work that waits, of all priorities together. Beyond it
	// new work takes the place of the last of the lowest priority, if that is
	// lower than its own, and is refused otherwise. If zero or below, 1000, which
	// take some 200 KB.
	MaxWaiting int
	// MaxWait is the longest wait: a deadline besides that of the context. If
	// zero, 100 ms, or the time in which ten are done if that is longer. Below
	// zero, none waits.
	MaxWait time.Duration

	mu    sync.Mutex // guards what follows
	law   load.Admission
	spare sync.Pool // of *applicant
}

// applicant is one who wants to start, waits, or is in flight.
type applicant struct {
	load.Ticket
	turn   chan struct{} // holds one: its State was decided while it waited
	number uint64        // counts its uses; a Pass of another number is past
}

// Pass is the permission to start. It must be released when the work is done.
// The zero Pass holds nothing. A Pass may be copied: to release one is to
// release all.
type Pass struct {
	of     *Shedder
	a      *applicant
	number uint64
}

// ShedderStats are the numbers of a [Shedder].
type ShedderStats struct {
	// Limit is how many may be in flight now, InFlight how many are, and Waiting
	// how many wait, which were MaxWaiting at most.
	Limit, InFlight, Waiting, MaxWaiting int
	// Took is how long one takes, on average lately; zero if none is done yet.
	Took time.Duration
	// Passed and Refused count by priority, from Low at 0 to Critical at 3: see
	// [load.Priority.Index]. Work that gave up itself is in neither.
	Passed, Refused [load.Priorities]int64
}

// Acquire waits until work of that priority may start. Zero counts as
// [load.Normal].
//
// Work that may not start gets an [*store.Error]. Its Reason is
// context.DeadlineExceeded if the turn has not come in time, or will not, by a
// forecast that is in Wait: of those ahead and of the higher priorities that come
// meanwhile (Cobham 1954); ErrFull; ErrShed if it was pushed out by a higher
// priority; or the Cause of ctx if it ended. What is granted in the instant in
// which ctx ends is granted.
func (s *Shedder) Acquire(ctx context.Context, p load.Priority) (Pass, error) {
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

// Release says that the work is done: once, however often it is called and from
// wherever. How long it took teaches the Shedder.
func (p Pass) Release() { p.end(true) }

// Forget is Release, but teaches nothing: for what took long for a reason of its
// own, such as a stream, or ended before its time.
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

// Stats returns the present numbers.
func (s *Shedder) Stats() ShedderStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set()
	n := s.law.Stats()
	return ShedderStats{
		Limit: n.Limit, InFlight: n.InFlight, Waiting: n.Waiting, MaxWaiting: n.MaxWaiting,
		Took: n.Took, Passed: n.Passed, Refused: n.Refused,
	}
}

// enter lets a start, or wait, or says why not.
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

// wake tells those whose State was decided while they waited. Caller holds mu.
func (s *Shedder) wake() {
	for t := s.law.Next(); t != nil; t = s.law.Next() {
		select {
		case t.Owner.(*applicant).turn <- struct{}{}:
		default: // it has been told
		}
	}
}

// await waits for the turn of a, which is not granted when it fails. It does
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
	case <-a.turn: // told in the meantime
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

// set tells the law what the fields say. Caller holds mu.
func (s *Shedder) set() {
	s.law.MaxInFlight, s.law.Gradient.Max = s.MaxInFlight, s.MaxLimit
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
