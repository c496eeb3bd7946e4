package throttle

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/throttle-go/throttle/pace"
)

// ErrShed says that what was more important took the room of a Shedder.
var ErrShed = errors.New("shed: more important work came first")

// Classes is how many classes a [Shedder] tells apart, from 0, which is dropped
// first, to Classes-1, which is dropped last.
const Classes = 4

// Shedder protects a service from more than it can do. It bounds how much is
// under way at a time; what does not fit waits for a moment, the most important
// class first and within a class in order of arrival; and what would wait too
// long is refused at once. So when there is more than can be done, the lower
// classes are dropped, and the higher ones hardly notice.
//
// It is for capacity that all share. The zero value is ready, and finds by itself
// how much may be under way. A Shedder is safe for concurrent use; it must not
// be copied, nor its fields changed, after first use. It starts no goroutine and
// needs no closing.
type Shedder struct {
	// Most is how many may be under way at a time. If zero or below, it is
	// found from how long they take: by the gradient of Netflix's
	// concurrency-limits (Gradient2Limit), which lets more begin as long as
	// that does not make all of them slower. Each time that 200 times as many
	// are done, and when the number has changed much, only four in ten of them
	// may be under way for a moment, to see how long they take without a
	// queue, as Envoy's adaptive concurrency filter does.
	Most int
	// Highest bounds the number that is found. If zero or below, 1000.
	Highest int
	// MaxWaiting bounds those who wait, in all classes together. Beyond it who
	// comes takes the place of the last of the lowest class, if that is lower
	// than its own, or is refused. If zero or below, 1000, which take some
	// 200 KB.
	MaxWaiting int
	// MaxWait is the longest wait: a deadline besides that of the context. If
	// zero, 100 ms, or the time in which ten are done if that is longer. Below
	// zero, nobody waits.
	MaxWait time.Duration

	mu    sync.Mutex // guards what follows
	core  shedding
	spare sync.Pool // of *applicant
}

// Pass is the permission to begin. It must be released when the work is done.
// The zero Pass holds nothing. A Pass may be copied: to release one is to
// release all.
type Pass struct {
	of     *Shedder
	a      *applicant
	number uint64
}

// ShedderStats are the numbers of a [Shedder].
type ShedderStats struct {
	// Most is how many may be under way now, InFlight how many are, and Waiting
	// how many wait, which were MaxWaiting at most.
	Most, InFlight, Waiting, MaxWaiting int
	// Took is how long one takes, on average lately; zero if none is done yet.
	Took time.Duration
	// Passed and Refused count by class. Who gave up itself is in neither.
	Passed, Refused [Classes]int64
}

// Acquire waits until one of a class may begin. A class below 0 counts as 0, one
// too high as the highest.
//
// Whoever may not begin gets an [*OwnerError]. Its Reason is context.DeadlineExceeded
// if the turn has not come in time, or will not, by a forecast that is in Wait:
// of those ahead and of the higher classes that come meanwhile (Cobham 1954);
// ErrFull; ErrShed if it was pushed out by a higher class; or the Cause of
// ctx if it ended. What is granted in the instant in which ctx ends is granted.
func (s *Shedder) Acquire(ctx context.Context, class int) (Pass, error) {
	if ctx.Err() != nil {
		return Pass{}, Ended(ctx, nil)
	}
	a := s.take()
	a.class = min(max(class, 0), Classes-1)
	a.deadline, _ = ctx.Deadline()
	p, waits, err := s.enter(a)
	if waits {
		err = s.await(ctx, a)
	}
	if err != nil {
		s.spare.Put(a)
		return Pass{}, err
	}
	return p, nil
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
	p.of.core.done(time.Now(), p.a, teaches)
	p.of.spare.Put(p.a)
}

// Stats are the numbers now.
func (s *Shedder) Stats() ShedderStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set()
	c := &s.core
	return ShedderStats{
		Most: c.allowed(), InFlight: c.inFlight, Waiting: c.waiting, MaxWaiting: c.peak,
		Took:   time.Duration(c.took * float64(time.Second)),
		Passed: c.passed, Refused: c.refused,
	}
}

// enter lets a begin, or wait, or says why not. Whoever waits has a channel, by
// which it is told that it may begin, or not.
func (s *Shedder) enter(a *applicant) (p Pass, waits bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set()
	if e := s.core.enter(time.Now(), a); e != nil {
		return Pass{}, false, e
	}
	if !a.granted && a.turn == nil {
		a.turn = make(chan struct{}, 1)
	}
	return Pass{s, a, a.number}, !a.granted, nil
}

// await waits for the turn of a, which is not granted when it fails. It does
// not outlive ctx.
func (s *Shedder) await(ctx context.Context, a *applicant) error {
	timer := time.NewTimer(time.Until(a.deadline))
	defer timer.Stop()
	var err error
	select {
	case <-a.turn:
	case <-timer.C:
		err = &OwnerError{Reason: context.DeadlineExceeded, Wait: pace.Never}
	case <-ctx.Done():
		err = Ended(ctx, nil)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-a.turn: // told in the meantime
	default:
	}
	switch {
	case a.granted:
		return nil
	case a.why != nil:
		err = a.why
	default:
		s.core.leave(a, ctx.Err() == nil)
	}
	return err
}

// set tells the core what the fields say. Caller holds mu.
func (s *Shedder) set() {
	s.core.fixed = s.Most
	s.core.highest = cmp.Or(max(s.Highest, 0), 1000)
	s.core.maxWaiting = cmp.Or(max(s.MaxWaiting, 0), 1000)
	s.core.maxWait = s.MaxWait
}

// take is an applicant that has not applied yet.
func (s *Shedder) take() *applicant {
	a, ok := s.spare.Get().(*applicant)
	if !ok {
		return new(applicant)
	}
	a.granted, a.why = false, nil // not the number, which old Passes look at
	return a
}
