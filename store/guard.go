package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
)

// Fallback chooses how a [Guard] decides without its Store.
type Fallback uint8

const (
	// FallbackLocal decides by a [memory.Store] of this process, with limits
	// divided by the number of Instances.
	FallbackLocal Fallback = iota
	// FallbackAllow admits everything, uncharged (fail open).
	FallbackAllow
	// FallbackDeny refuses everything, with a RetryAfter of one second (fail
	// closed). Refunds are accepted, and lost.
	FallbackDeny
)

// Guard bounds the latency of a [Store]: a timeout, a circuit breaker, and a
// local fallback. It calls the Store; on an error, or when the Timeout has
// passed, it decides by the Fallback. After several failures in a row the
// breaker opens. While it is open, the Store gets one probe for each
// ProbeInterval, and the first probe that succeeds closes it.
//
// No call is retried, and nothing that the Store may have charged is refunded:
// a grant that comes too late stays charged and is wasted, so that no more is
// admitted than was charged.
//
// Let a limit have a burst of B and a rate of r. In a time T during which some
// or all instances are without the Store, their FallbackLocal shares admit at
// most
//
//	B + r × T
//
// together, if B is at least Instances; otherwise with Instances in place of B,
// as each share admits at least one. This comes on top of what the Store itself
// admits, as it does not learn what the shares admitted. So over any length of
// time, whichever instances reach the Store and however often it fails, at most
// twice the limit is admitted. With FallbackAllow there is no bound; with
// FallbackDeny the bound is the limit.
//
// A Guard is safe for concurrent use and needs no closing. It must not be
// copied, nor its fields changed, after first use.
type Guard struct {
	// Store decides. It should end its calls with their context; those that it
	// does not end count against MaxCalls.
	Store Store
	// Fallback chooses how to decide without the Store. If zero, FallbackLocal.
	Fallback Fallback
	// Instances is the number of processes that share each limit, for
	// FallbackLocal. If zero or below, 1: this process allows the whole limit.
	Instances int
	// Timeout bounds one call to the Store; the deadline of the caller's
	// context may end it earlier. If zero or below, 20 ms.
	Timeout time.Duration
	// Failures is the number of failures in a row that opens the breaker. If
	// zero or below, 5.
	Failures int
	// ProbeInterval is the time from the opening of the breaker, or a failed
	// probe, to the next probe. If zero or below, 250 ms.
	ProbeInterval time.Duration
	// MaxCalls bounds concurrent calls to the Store, including abandoned ones
	// that have timed out but not returned. Further calls wait for a slot until
	// the Timeout. If zero or below, 1024. Probes are not included: there are
	// at most 4, of which at most one has a caller that waits.
	MaxCalls int
	// OnState is called with the error of each failed call, and with nil when
	// the breaker closes. It runs in the goroutine of the caller, which waits
	// for it, and may be called concurrently. If nil, nothing is called.
	OnState func(error)

	local   memory.Store
	decided atomic.Int64
	without atomic.Int64
	errors  atomic.Int64
	late    atomic.Int64
	left    atomic.Int64
	pending atomic.Int64

	row  atomic.Int64 // failures in a row
	open atomic.Bool

	mu      sync.Mutex
	next    time.Time     // of the next probe; guarded by mu
	probing bool          // guarded by mu
	calls   chan struct{} // semaphore of MaxCalls; made once, under mu
	probes  chan struct{} // semaphore of the probes
}

// GuardStats counts what a [Guard] did since its first use.
type GuardStats struct {
	// Decided counts the calls of Take that the Store decided in time, whatever
	// the number of keys.
	Decided int64
	// Without counts the calls decided by the Fallback. For Errors and Late of
	// them the Store was called first; for the others it was not.
	Without int64
	// Errors counts the calls that the Store answered with an error.
	Errors int64
	// Late counts the calls that the Store did not answer before the Timeout.
	Late int64
	// Left counts the calls whose context was canceled before a decision.
	Left int64
	// Pending is the number of late calls that the Store has not returned from.
	Pending int64
	// Away reports whether the breaker is open.
	Away bool
}

const (
	defaultTimeout  = 20 * time.Millisecond
	defaultFailures = 5
	defaultProbe    = 250 * time.Millisecond
	defaultMaxCalls = 1024
	maxProbes       = 4
	retrySoon       = time.Second
	minPatience     = 2 // a wait below the Timeout over this proves nothing about the Store
)

var (
	errNoStore = errors.New("store: the Guard has no Store")
	errGone    = errors.New("store: the Store ended its goroutine")

	_ Store = (*Guard)(nil)
)

// Take decides a into d, see [Store]. It returns an error only for malformed
// asks, and for a context that is canceled, or had ended before the call.
func (g *Guard) Take(ctx context.Context, a []limit.Ask, d []limit.Decision) (ok bool, err error) {
	if err := limit.CheckAsks(a, d); err != nil {
		return false, err
	}
	switch {
	case len(a) == 0:
		return true, nil
	case ctx.Err() != nil:
		return false, g.canceled(ctx)
	}
	if calls, probe := g.route(time.Now()); calls {
		ok, left, err := g.ask(ctx, probe, a, d)
		switch {
		case err == nil:
			g.succeeded(probe)
			return ok, nil
		case left:
			g.releaseProbe(probe)
			return false, g.canceled(ctx)
		}
	}
	g.without.Add(1)
	return g.decide(ctx, a, d)
}

// Stats returns the numbers so far. They are read one after the other, while
// other calls change them.
func (g *Guard) Stats() GuardStats {
	return GuardStats{
		Decided: g.decided.Load(),
		Without: g.without.Load(),
		Errors:  g.errors.Load(),
		Late:    g.late.Load(),
		Left:    g.left.Load(),
		Pending: g.pending.Load(),
		Away:    g.open.Load(),
	}
}

// canceled returns the error for a caller whose context has ended.
func (g *Guard) canceled(ctx context.Context) error {
	g.left.Add(1)
	return fmt.Errorf("store: not decided: %w", context.Cause(ctx))
}

// route reports whether to call the Store, and whether that call is a probe.
func (g *Guard) route(now time.Time) (calls, probe bool) {
	if !g.open.Load() {
		return true, false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.open.Load() {
		return true, false
	}
	if g.probing || now.Before(g.next) {
		return false, false
	}
	g.probing = true
	return true, true
}

// succeeded counts a decision of the Store; that of a probe closes the breaker.
func (g *Guard) succeeded(probe bool) {
	g.decided.Add(1)
	if g.row.Load() != 0 {
		g.row.Store(0)
	}
	if !probe {
		return
	}
	g.mu.Lock()
	g.probing = false
	g.open.Store(false)
	g.mu.Unlock()
	if g.OnState != nil {
		g.OnState(nil)
	}
}

// failed counts a failure of the Store. One that does not count, as it proves
// nothing, is reported to OnState only.
func (g *Guard) failed(probe, counts bool, err error) {
	now := time.Now()
	g.mu.Lock()
	switch {
	case probe:
		g.probing = false
		g.next = now.Add(cmp.Or(max(g.ProbeInterval, 0), defaultProbe))
	case !counts || g.open.Load():
	case g.row.Add(1) >= int64(cmp.Or(max(g.Failures, 0), defaultFailures)):
		g.open.Store(true)
		g.next = now.Add(cmp.Or(max(g.ProbeInterval, 0), defaultProbe))
	}
	g.mu.Unlock()
	if g.OnState != nil {
		g.OnState(err)
	}
}

// releaseProbe lets another call be the probe.
func (g *Guard) releaseProbe(probe bool) {
	if !probe {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.probing = false
}
