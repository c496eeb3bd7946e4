package throttleredis

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	defaultBatch = 128
	mostBatch    = 1024
	mostWaiting  = 1 << 16
	mostKeys     = 1024 // of a call, or a Take more
	// flights is how many calls of a slot are usually under way when Takes wait
	// for each other: one is being answered, one is on its way.
	flights = 2
	// mostFlights may be if none has come back for stuck.
	mostFlights = 32
	stuck       = 10 * time.Millisecond
)

// A lane is where the calls for one slot are.
type lane struct {
	fence string
	name  any // the fence
	met   atomic.Pointer[meeting]

	mu      sync.Mutex
	flying  int
	moved   time.Time // a call last began or ended
	waiting []*waiter
}

// A waiter is a question that waits for others to share a call, or shares one.
type waiter struct {
	pending
	reply  reply
	err    error
	done   chan struct{} // closed when answered
	flight *flight       // guarded by the lane
}

// A flight is one call for several callers.
type flight struct {
	all    []*waiter
	left   int // callers that are still there; guarded by the lane
	cancel context.CancelFunc
}

func (s *Store) batch() int {
	if s.MaxBatch == 0 {
		return defaultBatch
	}
	return min(s.MaxBatch, mostBatch)
}

// lane is that of a slot, or an error if no names can be made.
func (s *Store) lane(slot int) (*lane, error) {
	s.begin.Do(func() { s.lanes = make([]atomic.Pointer[lane], s.slots()) })
	at := &s.lanes[slot]
	if ln := at.Load(); ln != nil {
		return ln, nil
	}
	if strings.ContainsAny(s.prefix(), "{}") {
		return nil, fmt.Errorf("throttleredis: Prefix %.40q: has braces, which would decide on the slot; write it without", s.Prefix)
	}
	ln := &lane{fence: s.fence(slot)}
	ln.name = ln.fence
	ln.met.Store(s.meets(meeting{}, ordinary))
	at.CompareAndSwap(nil, ln) // or another was faster
	return at.Load(), nil
}

// ask puts one question and returns the answers, or an error when ctx ends.
func (s *Store) ask(ctx context.Context, ln *lane, p *pending) (reply, error) {
	if err := ctx.Err(); err != nil {
		return reply{}, &Error{Err: err}
	}
	if s.batch() <= 1 || p.at != 0 {
		return s.alone(ctx, ln, p)
	}
	w, err := ln.enter(p)
	switch {
	case err != nil:
		return reply{}, err
	case w == nil:
		defer s.landed(ln)
		return s.alone(ctx, ln, p)
	}
	select {
	case <-w.done:
		return w.reply, w.err
	case <-ctx.Done():
		return ln.leave(ctx, w)
	}
}

// enter begins a call for p, or has it wait for others.
func (ln *lane) enter(p *pending) (*waiter, error) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if ln.flying < flights || ln.flying < mostFlights && time.Since(ln.moved) > stuck {
		ln.flying++
		ln.moved = p.sent
		return nil, nil
	}
	if len(ln.waiting) >= mostWaiting {
		return nil, &Error{Err: fmt.Errorf("%d Takes wait for Redis already", mostWaiting)}
	}
	w := &waiter{pending: *p, done: make(chan struct{})}
	ln.waiting = append(ln.waiting, w)
	return w, nil
}

// leave is for a caller whose ctx has ended.
func (ln *lane) leave(ctx context.Context, w *waiter) (reply, error) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	select {
	case <-w.done: // just now
		return w.reply, w.err
	default:
	}
	if f := w.flight; f != nil {
		if f.left--; f.left == 0 {
			f.cancel()
		}
		return reply{}, &Error{Charged: true, Err: ctx.Err()}
	}
	if i := slices.Index(ln.waiting, w); i >= 0 {
		ln.waiting = slices.Delete(ln.waiting, i, i+1)
	}
	return reply{}, &Error{Err: ctx.Err()}
}

// landed ends a call, and begins the next if any wait for it.
func (s *Store) landed(ln *lane) {
	if f, ctx := s.next(ln); f != nil {
		go s.fly(ctx, ln, f) // until none wait, or all their callers have left
	}
}

// next ends a call and returns the next, or nil.
func (s *Store) next(ln *lane) (*flight, context.Context) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if len(ln.waiting) == 0 {
		ln.flying--
		return nil, nil
	}
	ln.moved = time.Now()
	n, keys := 0, 0
	for n < min(len(ln.waiting), s.batch()) && keys < mostKeys {
		keys += ln.waiting[n].keys
		n++
	}
	if n == 0 || ln.flying > flights {
		ln.flying--
		return nil, nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	f := &flight{all: slices.Clone(ln.waiting[:n]), left: n, cancel: cancel}
	for _, w := range f.all {
		w.flight = f
	}
	ln.waiting = slices.Delete(ln.waiting, 0, n)
	return f, ctx
}

// fly makes calls as long as any wait for one.
func (s *Store) fly(ctx context.Context, ln *lane, f *flight) {
	for f != nil {
		s.together(ctx, ln, f.all)
		f.cancel()
		ln.mu.Lock()
		for _, w := range f.all {
			close(w.done)
		}
		ln.mu.Unlock()
		f, ctx = s.next(ln)
	}
}

// together makes one call for all, and answers each of them.
func (s *Store) together(ctx context.Context, ln *lane, all []*waiter) {
	r, err := s.send(ctx, ln, joined(all))
	for _, w := range all {
		if err == nil {
			w.reply = r
			w.reply.body, r.body, err = r.cut(w.keys)
		}
		w.err = err
	}
}

// joined is the questions of all as one.
func joined(all []*waiter) *pending {
	n, sort := 0, all[0].sort
	for _, w := range all {
		n += w.keys
		switch {
		case w.sort == withLogs:
			sort = withLogs
		case w.sort != sort && sort != withLogs:
			sort = ordinary
		}
	}
	p, k := newPending(n), 0
	p.sort = sort
	for _, w := range all {
		copy(p.names()[k:], w.names())
		copy(p.asks()[k:], w.asks())
		k += w.keys
	}
	return &p
}
