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

// A guardCall is one call to the Store. It has its own copy of the asks, as the
// caller may have returned before the Store does.
type guardCall struct {
	a    []limit.Ask
	d    []limit.Decision
	ok   bool
	err  error
	done chan struct{} // closed when the Store returned in time
	end  atomic.Bool   // the Store returned, or the wait ended: whichever came first

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

// ask calls the Store with a and waits for its decision. It counts a failure,
// unless the caller has left.
func (g *Guard) ask(ctx context.Context, probe bool, a []limit.Ask, d []limit.Decision) (ok, left bool, err error) {
	began := time.Now()
	timeout := cmp.Or(max(g.Timeout, 0), defaultTimeout)
	timed, cancel := context.WithTimeout(ctx, timeout)
	ok, err = g.await(timed, cancel, probe, a, d)
	switch {
	case err == nil:
	case errors.Is(ctx.Err(), context.Canceled): // read once: it may end at any moment
		left = true
	case errors.Is(timed.Err(), context.DeadlineExceeded):
		g.late.Add(1)
		waited := time.Since(began)
		err = fmt.Errorf("store: the Store has not answered in %v: %w", waited, err)
		g.failed(probe, waited >= timeout/minPatience, err)
	default:
		g.errors.Add(1)
		g.failed(probe, true, err)
	}
	return ok, left, err
}

// await returns the decision of the Store, or the error of a context that has
// ended. cancel is called when the Store has returned, perhaps later.
func (g *Guard) await(ctx context.Context, cancel func(), probe bool, a []limit.Ask, d []limit.Decision) (ok bool, err error) {
	slots := g.slots(probe)
	select {
	case slots <- struct{}{}:
	default:
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			cancel()
			return false, ctx.Err()
		}
	}
	c := newGuardCall(a)
	go func() {
		defer func() {
			cancel()
			<-slots
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

// slots returns the semaphore for calls, or for probes.
func (g *Guard) slots(probe bool) chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.calls == nil {
		g.calls = make(chan struct{}, cmp.Or(max(g.MaxCalls, 0), defaultMaxCalls))
		g.probes = make(chan struct{}, maxProbes)
	}
	if probe {
		return g.probes
	}
	return g.calls
}

// call runs the Store for c. A panic becomes an error, as the caller that could
// recover from it may have returned.
func (g *Guard) call(ctx context.Context, c *guardCall) {
	c.err = errGone
	defer func() {
		if p := recover(); p != nil {
			c.ok, c.err = false, fmt.Errorf("store: the Store panicked: %v", p)
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
