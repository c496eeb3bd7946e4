package store

import (
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
	a     []limit.Ask
	d     []limit.Decision
	ok    bool
	err   error
	began time.Time
	probe bool
	done  chan struct{} // closed when the Store returned in time
	end   atomic.Bool   // the Store returned, or the wait ended: whichever came first

	one  [1]limit.Ask
	none [1]limit.Decision
}

func newGuardCall(a []limit.Ask, probe bool) *guardCall {
	c := &guardCall{began: time.Now(), probe: probe, done: make(chan struct{})}
	c.a = append(c.one[:0], a...)
	c.d = c.none[:]
	if len(a) > 1 {
		c.d = make([]limit.Decision, len(a))
	}
	return c
}

// outcome is how a call to the Store ended for its caller.
type outcome uint8

const (
	inTime outcome = iota
	failed         // an error, or none of the others
	late           // the Timeout or the deadline of the caller has passed
	left           // the context of the caller was canceled
	wrong          // the asks are malformed
)

// ask calls the Store with a, waits for its decision, and counts the outcome.
func (g *Guard) ask(ctx context.Context, probe bool, a []limit.Ask, d []limit.Decision) (ok bool, end outcome, err error) {
	began := time.Now()
	ok, end, err = g.await(ctx, probe, a, d)
	switch end {
	case inTime:
		g.succeeded(probe)
	case failed:
		g.errors.Add(1)
		g.failed(failure{began: began, probe: probe, waits: true, err: err})
	case late:
		g.late.Add(1)
		waited := time.Since(began)
		g.failed(failure{
			began: began, probe: probe, late: true, waits: waited >= g.timeout()/minPatience, err: g.lateError(waited),
		})
	case left, wrong: // which prove nothing about the Store
		g.releaseProbe(probe)
	}
	return ok, end, err
}

// await returns the decision or the error of the Store, or why it did not wait
// for it any longer. The call goes on then.
func (g *Guard) await(ctx context.Context, probe bool, a []limit.Ask, d []limit.Decision) (ok bool, end outcome, err error) {
	over := time.NewTimer(g.timeout())
	defer over.Stop()
	slots := g.slots(probe)
	select {
	case slots <- struct{}{}:
	default:
		select {
		case slots <- struct{}{}:
		case <-over.C:
			return false, late, nil
		case <-ctx.Done():
			return false, ended(ctx), nil
		}
	}
	c := newGuardCall(a, probe)
	g.begin(ctx, c, slots)
	end = failed
	select {
	case <-c.done:
	case <-over.C:
		end = late
	case <-ctx.Done():
		end = ended(ctx)
	}
	if end != failed && c.end.CompareAndSwap(false, true) {
		g.pending.Add(1)
		return false, end, nil
	}
	<-c.done
	switch {
	case errors.Is(c.err, limit.ErrAsks):
		return false, wrong, c.err
	case c.err != nil:
		return false, failed, c.err
	}
	copy(d, c.d)
	return c.ok, inTime, nil
}

// ended returns how a call ends whose caller's context has ended.
func ended(ctx context.Context) outcome {
	if errors.Is(ctx.Err(), context.Canceled) {
		return left
	}
	return late
}

// begin calls the Store in a goroutine that ends when the Store returns, which
// is asked to do so after the StoreTimeout. It frees the slot.
func (g *Guard) begin(ctx context.Context, c *guardCall, slots chan struct{}) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.storeTimeout())
	go func() {
		defer func() {
			cancel()
			<-slots
		}()
		g.call(ctx, c)
	}()
}

// slots returns the semaphore for calls, or for probes.
func (g *Guard) slots(probe bool) chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.calls == nil {
		g.calls = make(chan struct{}, g.maxCalls())
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
			return
		}
		g.finished(c)
		g.pending.Add(-1)
	}()
	if g.Store == nil {
		c.err = errNoStore
		return
	}
	c.ok, c.err = g.Store.Take(ctx, c.a, c.d)
}
