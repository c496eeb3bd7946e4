package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// A guardCall is one question with the Store. It has its own copy of it, as the
// caller may be gone before the answer comes.
type guardCall struct {
	a    []limit.Ask
	d    []limit.Decision
	ok   bool
	err  error
	done chan struct{} // closed if it was answered while somebody waited
	end  atomic.Bool   // it has been answered, or is late: whichever comes first

	one  [1]limit.Ask
	none [1]limit.Decision
}

func newGuardCall(a []limit.Ask) *guardCall {
	c := &guardCall{done: make(chan struct{})}
	c.a = append(c.one[:0], a...)
	c.d = c.none[:]
	if len(a) > 1 {
		c.d = make([]limit.Decision, len(a))
	}
	return c
}

// ask puts a to the Store and waits for the answer. It notes why there is none,
// unless the caller has left.
func (g *Guard) ask(ctx context.Context, probe bool, a []limit.Ask, d []limit.Decision) (ok, left bool, err error) {
	began := time.Now()
	deadline := cmp.Or(max(g.Timeout, 0), defaultDeadline)
	timed, cancel := context.WithTimeout(ctx, deadline)
	ok, err = g.await(timed, cancel, probe, a, d)
	switch {
	case err == nil:
	case errors.Is(ctx.Err(), context.Canceled): // looked at once: it may end at any moment
		left = true
	case errors.Is(timed.Err(), context.DeadlineExceeded):
		g.late.Add(1)
		waited := time.Since(began)
		err = fmt.Errorf("throttle: the store has not answered in %v: %w", waited, err)
		g.failed(probe, waited >= deadline/partOfPatience, err)
	default:
		g.errors.Add(1)
		g.failed(probe, true, err)
	}
	return ok, left, err
}

// await is the answer of the Store, or the error of a context that has ended.
// cancel is called when the Store is done, be it later.
func (g *Guard) await(ctx context.Context, cancel func(), probe bool, a []limit.Ask, d []limit.Decision) (ok bool, err error) {
	places := g.places(probe)
	select {
	case places <- struct{}{}:
	default:
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
			cancel()
			return false, ctx.Err()
		}
	}
	c := newGuardCall(a)
	go func() {
		defer func() {
			cancel()
			<-places
		}()
		g.call(ctx, c)
	}()
	select {
	case <-c.done:
	case <-ctx.Done():
		if c.end.CompareAndSwap(false, true) {
			g.pending.Add(1)
			return false, ctx.Err()
		}
		<-c.done
	}
	copy(d, c.d)
	return c.ok, c.err
}

// places are those of the questions with the Store.
func (g *Guard) places(probe bool) chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.calls == nil {
		g.calls = make(chan struct{}, cmp.Or(max(g.MaxCalls, 0), defaultCalls))
		g.probes = make(chan struct{}, mostProbes)
	}
	if probe {
		return g.probes
	}
	return g.calls
}

// call lets the Store answer c. A panic is an error: nobody may be there any
// more to recover from it.
func (g *Guard) call(ctx context.Context, c *guardCall) {
	c.err = errGone
	defer func() {
		if p := recover(); p != nil {
			c.ok, c.err = false, fmt.Errorf("throttle: the store panicked: %v", p)
		}
		if c.end.CompareAndSwap(false, true) {
			close(c.done)
		} else {
			g.pending.Add(-1)
		}
	}()
	if g.Store == nil {
		c.err = errNoStore
		return
	}
	c.ok, c.err = g.Store.Take(ctx, c.a, c.d)
}
