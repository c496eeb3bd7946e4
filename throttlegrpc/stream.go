package throttlegrpc

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/pace"
)

// quiet is after how long a silent stream counts as accepted. One that waits
// for events may be silent for hours, and while nothing is known of a limit few
// calls are let in flight.
const quiet = time.Second

// stream is a grpc.ClientStream whose opening is paced. The Throttle waits in a
// goroutine of its own, which ends when the stream is accepted or given up.
type stream struct {
	client *Client
	call   call // of the goroutine that opens, while there is one
	ctx    context.Context
	desc   *grpc.StreamDesc
	open   func(context.Context, ...grpc.CallOption) (grpc.ClientStream, error)

	now      atomic.Pointer[attempt] // the last one
	received atomic.Bool             // a message, or a header
	sent     atomic.Bool             // a message, if the client streams

	mu      sync.Mutex       // guards what follows
	over    chan struct{}    // closed when the Throttle is done
	err     error            // of the Throttle, nil if the stream was accepted
	fault   *fault           // for the next caller to panic with; nil: none
	late    *throttle.Result // what the Throttle is to learn first; nil: nothing
	request any              // what can be sent again, if nothing else was sent
}

// attempt is one opening of a stream.
type attempt struct {
	grpc.ClientStream
	replaced chan struct{} // closed when there is another one
	ended    chan error    // holds one: how the opening ended, nil if well
}

func newAttempt() *attempt {
	return &attempt{replaced: make(chan struct{}), ended: make(chan error, 1)}
}

// end records how the opening ended. Only the first call counts.
func (a *attempt) end(err error) {
	select {
	case a.ended <- err:
	default:
	}
}

// ending returns the error that the opening has ended with, as far as gRPC has
// said so; else nil.
func (a *attempt) ending() error {
	select {
	case err := <-a.ended:
		a.end(err) // for others that ask
		return err
	default:
		return nil
	}
}

// begin opens the stream.
func (s *stream) begin() (grpc.ClientStream, error) {
	none := newAttempt()
	s.now.Store(none)
	s.over = make(chan struct{})
	go s.run(s.over)
	if err := s.again(none, nil); err != nil {
		return nil, err
	}
	return s, nil
}

// run has the Throttle open the stream, with retries. It calls code of the user in
// a goroutine that the user cannot recover in: where that panics, whichever of
// NewStream, RecvMsg and Header learns the end panics in its place.
func (s *stream) run(over chan struct{}) {
	err := status.Error(codes.Internal, "throttlegrpc: what opens the stream ended its goroutine")
	defer func() {
		f := faultOf(recover())
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.err, s.fault = err, f; f != nil {
			s.err = status.Error(codes.Internal, "throttlegrpc: what opens the stream panicked")
		}
		close(over)
	}()
	m := s.client.enter(s.call.name)
	defer m.Leave()
	err = s.call.end(m.Throttle().DoResult(s.ctx, s.try))
}

// try opens the stream once, and waits until it is accepted or refused.
func (s *stream) try(ctx context.Context) throttle.Result {
	s.mu.Lock()
	late, request := s.late, s.request
	s.late = nil
	s.mu.Unlock()
	if late != nil {
		return *late
	}
	a := newAttempt()
	var err error
	if a.ClientStream, err = s.open(s.call.next(ctx), append(s.call.opts[:len(s.call.opts):len(s.call.opts)], grpc.OnFinish(a.end))...); err != nil {
		return s.call.judge(&answer{err: err})
	}
	if s.call.policy { // before the first message there is room for what was sent, which is nothing
		_ = a.Context() // ends gRPC's own retries, see grpc.ClientStream
	}
	if request != nil {
		resend(a, request)
	}
	close(s.now.Swap(a).replaced)
	settled := time.NewTimer(quiet)
	defer settled.Stop()
	select {
	case err = <-a.ended:
	case <-settled.C:
	}
	return s.call.judge(s.answer(a, err))
}

// resend sends the only request of a stream. If it fails, a has ended, and
// RecvMsg returns why.
func resend(a *attempt, request any) {
	err := a.SendMsg(request)
	if err == nil {
		err = a.CloseSend()
	}
	if err != nil && err != io.EOF {
		a.end(err)
	}
}

// answer returns what is known of an attempt that ended with err.
func (s *stream) answer(a *attempt, err error) *answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &answer{err: err, left: true, begun: s.sent.Load(), once: s.request == nil}
	if err != nil {
		r.trailer = a.Trailer()
	}
	return r
}

// again waits for the attempt after a, which ended with err, or returns the
// error of the stream: err, if the Throttle knows nothing better.
func (s *stream) again(a *attempt, err error) error {
	for {
		s.mu.Lock()
		over := s.over
		s.mu.Unlock()
		select {
		case <-a.replaced:
			return nil
		case <-over:
		}
		if s.now.Load() != a {
			return nil
		}
		if last, ended := s.last(a, over, err); ended {
			return last
		}
	}
}

// last returns the error that a stream ends with. If it was accepted and is
// refused nevertheless, there is none yet: the Throttle starts over.
func (s *stream) last(a *attempt, over chan struct{}, err error) (last error, ended bool) {
	answer := s.answer(a, err)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.over != over:
		return nil, false
	case s.fault != nil:
		f := s.fault
		s.fault = nil // once
		panic(f)
	case s.err != nil:
		return s.err, true
	case err == nil:
		return io.EOF, true
	}
	late := s.call.judge(answer)
	if late.Report.Final || late.Report.Verdict <= pace.Served {
		return err, true
	}
	s.late, s.over = &late, make(chan struct{})
	go s.run(s.over)
	return nil, false
}

func (s *stream) Context() context.Context { return s.now.Load().Context() }
func (s *stream) Trailer() metadata.MD     { return s.now.Load().Trailer() }
func (s *stream) CloseSend() error         { return s.now.Load().CloseSend() }

func (s *stream) Header() (metadata.MD, error) {
	for {
		a := s.now.Load()
		md, err := a.Header()
		if md != nil {
			s.accept(a)
		}
		// No header means that the stream has ended; it may be opened again.
		if md != nil || err != nil || s.again(a, a.ending()) != nil {
			return md, err
		}
	}
}

func (s *stream) SendMsg(m any) error {
	a := s.now.Load()
	err := a.SendMsg(m)
	switch {
	case err == nil && s.desc.ClientStreams:
		s.sent.Store(true)
	case err == nil:
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.received.Load() { // once the caller has read a header, the stream must not be opened again
			s.request = m
		}
	case err != io.EOF: // RecvMsg returns the cause
		a.end(err)
	}
	return err
}

func (s *stream) RecvMsg(m any) error {
	for {
		a := s.now.Load()
		err := a.RecvMsg(m)
		if err == nil || err == io.EOF {
			s.accept(a)
			return err
		}
		a.end(err)
		if err := s.again(a, err); err != nil {
			return err
		}
	}
}

// accept records that the server has accepted the stream.
func (s *stream) accept(a *attempt) {
	if s.received.Load() {
		return
	}
	s.received.Store(true)
	a.end(nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.request = nil // what has come cannot be undone
}
