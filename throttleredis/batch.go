package throttleredis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	defaultBatch = 128     // Takes
	largestBatch = 1024    // Takes
	maxKeys      = 1024    // of a call, or a Take more
	maxWaiting   = 1 << 16 // Takes of a slot

	// usualCalls is the number of calls of a slot in flight from which on Takes
	// wait to share the next: Redis answers one while another is on its way.
	usualCalls = 2
	// maxCalls bounds the calls of a slot, where none came back for stuckAfter and
	// others began beside them.
	maxCalls   = 32
	stuckAfter = 10 * time.Millisecond
)

// errGone is for the callers of a batch whose call was never answered, as by a test
// that ends in the client.
var errGone = &Error{Charged: true, Err: errors.New("the client ended the goroutine of the call (runtime.Goexit)")}

// A slot is what a Store keeps for one of its Slots.
type slot struct {
	fence    string // its name
	fenceArg any    // the same, converted once
	server   atomic.Pointer[server]

	mu       sync.Mutex
	inFlight int       // calls, but those that are stuck
	stuck    int       // calls in flight for so long that others began beside them
	round    int       // of calls: those of earlier rounds are stuck
	changed  time.Time // when a call last began, or ended while others waited
	waiting  []*waiter
	watched  bool // watch will be called, as some wait
}

// A waiter is a command that waits to share a call, or shares one.
type waiter struct {
	command
	reply reply
	err   error
	done  chan struct{} // closed when answered
	batch *batch        // nil: still waiting; guarded by the slot
}

// A batch is one call for several Takes.
type batch struct {
	waiters []*waiter
	callers int // that still wait for the answer; guarded by the slot
	round   int // of the call
	cancel  context.CancelFunc
}

func (s *Store) maxBatch() int {
	if s.MaxBatch == 0 {
		return defaultBatch
	}
	return min(s.MaxBatch, largestBatch)
}

// slot returns the n-th slot, or an error if the Prefix makes no names.
func (s *Store) slot(n int) (*slot, error) {
	s.init.Do(func() { s.slots = make([]atomic.Pointer[slot], s.slotCount()) })
	at := &s.slots[n]
	if sl := at.Load(); sl != nil {
		return sl, nil
	}
	if strings.ContainsAny(s.prefix(), "{}") {
		return nil, fmt.Errorf("throttleredis: Prefix %.40q: has braces, which would decide on the slot; write it without", s.Prefix)
	}
	sl := &slot{fence: s.fenceName(n)}
	sl.fenceArg = sl.fence
	sl.server.Store(s.withHeader(server{}, modeAny))
	at.CompareAndSwap(nil, sl) // or another goroutine was faster
	return at.Load(), nil
}

// exchange sends c, alone or in a batch, and returns its reply, or an error when
// ctx ends.
func (s *Store) exchange(ctx context.Context, sl *slot, c *command) (reply, error) {
	if err := ctx.Err(); err != nil {
		return reply{}, &Error{Err: err}
	}
	if s.maxBatch() <= 1 || c.carriedAt != 0 { // the header of a batch has no carriedAt
		return s.call(ctx, sl, c)
	}
	w, round, err := s.enqueue(sl, c)
	switch {
	case err != nil:
		return reply{}, err
	case w == nil:
		defer s.endCall(sl, round)
		return s.call(ctx, sl, c)
	}
	select {
	case <-w.done:
		return w.reply, w.err
	case <-ctx.Done():
		return sl.abandon(ctx, w)
	}
}

// enqueue queues c and returns its waiter; or it returns nil, and counts a call
// of that round that the caller makes.
func (s *Store) enqueue(sl *slot, c *command) (w *waiter, round int, err error) {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	if sl.inFlight < usualCalls && sl.inFlight+sl.stuck < maxCalls {
		sl.inFlight++
		sl.changed = c.created
		return nil, sl.round, nil
	}
	if len(sl.waiting) >= maxWaiting {
		return nil, 0, &Error{Err: fmt.Errorf("%d Takes wait for Redis already", maxWaiting)}
	}
	w = &waiter{command: *c, done: make(chan struct{})}
	sl.waiting = append(sl.waiting, w)
	if !sl.watched {
		sl.watched = true
		time.AfterFunc(stuckAfter, func() { s.watch(sl) })
	}
	return w, 0, nil
}

// watch lets those that wait go in a call beside those in flight, if none of these
// came back for stuckAfter. It is called again for as long as any wait.
func (s *Store) watch(sl *slot) {
	sl.mu.Lock()
	if sl.watched = len(sl.waiting) > 0; !sl.watched {
		sl.mu.Unlock()
		return
	}
	rest := stuckAfter - time.Since(sl.changed)
	var b *batch
	var ctx context.Context
	if rest <= 0 {
		sl.stuck, sl.inFlight, sl.round = sl.stuck+sl.inFlight, 0, sl.round+1
		b, ctx = s.beginBatch(sl)
		rest = stuckAfter
	}
	time.AfterFunc(rest, func() { s.watch(sl) })
	sl.mu.Unlock()
	s.runBatches(ctx, sl, b)
}

// abandon removes w from the queue, or from its batch, after ctx has ended. The
// last caller of a batch cancels the call.
func (sl *slot) abandon(ctx context.Context, w *waiter) (reply, error) {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	select {
	case <-w.done: // just now
		return w.reply, w.err
	default:
	}
	if b := w.batch; b != nil {
		if b.callers--; b.callers == 0 {
			b.cancel()
		}
		return reply{}, &Error{Charged: true, Err: ctx.Err()}
	}
	if i := slices.Index(sl.waiting, w); i >= 0 {
		sl.waiting = slices.Delete(sl.waiting, i, i+1)
	}
	return reply{}, &Error{Err: ctx.Err()}
}

// endCall ends a call of a round, and starts a batch if Takes wait.
func (s *Store) endCall(sl *slot, round int) {
	if b, ctx := s.nextBatch(sl, round); b != nil {
		go s.runBatches(ctx, sl, b) // until none wait, or all their callers have given up
	}
}

// nextBatch ends a call of a round, and returns the next batch, or nil if there is
// none.
func (s *Store) nextBatch(sl *slot, round int) (*batch, context.Context) {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	if round == sl.round {
		sl.inFlight--
	} else {
		sl.stuck--
	}
	return s.beginBatch(sl)
}

// beginBatch begins a call for those that wait, or returns nil if none do, or too
// many calls are in flight. Caller holds the lock of sl.
func (s *Store) beginBatch(sl *slot) (*batch, context.Context) {
	if len(sl.waiting) == 0 {
		return nil, nil
	}
	sl.changed = time.Now()
	if sl.inFlight >= usualCalls || sl.inFlight+sl.stuck >= maxCalls {
		return nil, nil
	}
	n, keys := 0, 0
	for n < min(len(sl.waiting), s.maxBatch()) && keys < maxKeys {
		keys += sl.waiting[n].keys
		n++
	}
	ctx, cancel := context.WithCancel(context.Background())
	b := &batch{waiters: slices.Clone(sl.waiting[:n]), callers: n, round: sl.round, cancel: cancel}
	for _, w := range b.waiters {
		w.batch = b
	}
	sl.waiting = slices.Delete(sl.waiting, 0, n)
	sl.inFlight++
	return b, ctx
}

// runBatches sends batches, beginning with b, as long as Takes wait. If the client
// ends the goroutine, another one goes on.
func (s *Store) runBatches(ctx context.Context, sl *slot, b *batch) {
	for b != nil {
		ended := true
		func() {
			defer func() {
				sl.answer(b, ended)
				if ended {
					s.endCall(sl, b.round)
				}
			}()
			s.callBatch(ctx, sl, b)
			ended = false
		}()
		b, ctx = s.nextBatch(sl, b.round)
	}
}

// answer lets the waiters of b go, with an error if the goroutine of the call has
// ended.
func (sl *slot) answer(b *batch, ended bool) {
	b.cancel()
	sl.mu.Lock()
	defer sl.mu.Unlock()
	for _, w := range b.waiters {
		if ended {
			w.err = errGone
		}
		close(w.done)
	}
}

// callBatch sends b in one call, and gives each waiter its part of the reply.
func (s *Store) callBatch(ctx context.Context, sl *slot, b *batch) {
	r, err := s.callAlone(ctx, sl, merge(b.waiters))
	for _, w := range b.waiters {
		if err == nil {
			w.reply = r
			w.reply.answers, r.answers, err = r.split(w.keys)
		}
		w.err = err
	}
}

// callAlone is callServer in a goroutine of its own: a panic of the client
// becomes an error, as no caller could recover from it.
func (s *Store) callAlone(ctx context.Context, sl *slot, c *command) (r reply, err error) {
	defer func() {
		if p := recover(); p != nil {
			r, err = reply{}, &Error{Charged: true, Err: fmt.Errorf("the client panicked: %v", p)}
		}
	}()
	return s.callServer(ctx, sl, c)
}
