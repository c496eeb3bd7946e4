package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
)

// Fallback chooses how a [Guard] decides without its Store: FallbackLocal,
// FallbackAllow (fail open) or FallbackDeny (fail closed).
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
// breaker opens. While it is open, the Store gets one probe at a time, at
// intervals that grow, and its answer closes the breaker.
//
// A call to the Store continues without its caller, for up to the StoreTimeout,
// so that a new connection becomes usable, and a connection in use is not
// closed. Its late answer shows that the Store is not away.
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
// as each share admits at least one. Of a log or slots B is the Count, of a window
// twice the Count, as so much passes around an edge. This comes on top of what the Store itself
// admits, as it does not learn what the shares admitted. So over any length of
// time, whichever instances reach the Store and however often it fails, at most
// twice the limit is admitted. With FallbackAllow there is no bound; with
// FallbackDeny the bound is the limit.
//
// A Guard is safe for concurrent use and needs no closing. It must not be
// copied, nor its fields changed, after first use.
type Guard struct {
	// Store decides. If nil, the Fallback does. It should end its calls with their
	// context; those that it does not end count against MaxCalls. Their context has
	// the values of the caller's, and the StoreTimeout in place of its deadline and
	// cancelation.
	Store Store
	// Fallback chooses how to decide without the Store. If zero, FallbackLocal.
	Fallback Fallback
	// Instances is the number of processes that share each limit, for
	// FallbackLocal. If zero or below, 1: this process allows the whole limit.
	// InstancesFunc, if set, is used in its place.
	Instances int
	// InstancesFunc returns the current number of Instances, where it changes.
	// FallbackLocal calls it for each decision, in the goroutine of the caller
	// and concurrently, so it should return a number that is known already.
	// Zero or below counts as 1. If nil, Instances is used.
	InstancesFunc func() int
	// Timeout bounds the wait for the Store; the deadline of the caller's
	// context may end it earlier. If zero or below, 20 ms. It should be twice
	// the round trip at the 99th percentile.
	Timeout time.Duration
	// StoreTimeout bounds one call to the Store, which continues without its
	// caller after the Timeout. It should suffice to connect. If zero or below,
	// 2 s or ten Timeouts, whichever is longer; at least the Timeout.
	StoreTimeout time.Duration
	// Failures is the number of errors in a row that opens the breaker. If zero
	// or below, 5. As many calls without an answer open it too, if the last of
	// them began after the first had timed out. A Store that answers, but answers
	// no call in time for ten Timeouts, counts as slow, which opens it as well.
	Failures int
	// ProbeInterval is the longest time from the opening of the breaker to the
	// first probe. It doubles with each failed probe, up to MaxProbeInterval;
	// each probe comes after a random part of it, at least half. If zero or
	// below, 250 ms.
	ProbeInterval time.Duration
	// MaxProbeInterval bounds the time between probes, and so how late the
	// return of the Store is noticed. If zero or below, 3 ProbeIntervals.
	MaxProbeInterval time.Duration
	// MaxCalls bounds concurrent calls to the Store (a bulkhead), including
	// those without a caller. Further calls wait for a slot until the Timeout.
	// If zero or below, 1024. Probes are not included: there are at most 4, of
	// which at most one has a caller that waits. While the Store has returned
	// from none of the 4, no other probe is sent, and it counts as away.
	MaxCalls int
	// OnState is called with the error of each failed call, and with nil when
	// the Store decides in time after the breaker was open. The error is an
	// [ErrSlow] if the Store answers, but too late; that of a probe also says
	// how long the Store has been away. OnState runs in the goroutine of a
	// caller, which waits for it, and may be called concurrently, so that the
	// error of an earlier call can come after nil: Stats has the state. If nil,
	// nothing is called.
	OnState func(error)

	local   memory.Store
	decided atomic.Int64
	without atomic.Int64
	errors  atomic.Int64
	late    atomic.Int64
	left    atomic.Int64
	pending atomic.Int64

	open   atomic.Bool // state.open
	uneasy atomic.Bool // not state.calm(): an answer in time changes something

	mu     sync.Mutex
	state  breaker       // guarded by mu
	calls  chan struct{} // semaphore of MaxCalls; made once, under mu
	probes chan struct{} // semaphore of the probes
}

// GuardStats counts what a [Guard] did since its first use.
type GuardStats struct {
	// Decided counts the calls of Take that the Store decided in time, whatever
	// the number of keys.
	Decided int64
	// Fallback counts the calls decided by the Fallback. For Errors and Late of
	// them the Store was called first; for the others it was not.
	Fallback int64
	// Errors counts the calls that the Store answered with an error.
	Errors int64
	// Late counts the calls that the Store did not answer before the Timeout.
	Late int64
	// Canceled counts the calls whose context was canceled before a decision.
	Canceled int64
	// Pending is the number of calls without a caller that the Store has not
	// returned from.
	Pending int64
	// Away reports whether the breaker is open because the Store fails or does
	// not answer, Slow whether the Store answers, but later than the Timeout.
	Away, Slow bool
	// AwaySince is when the breaker opened, first since an answer in time. Zero
	// if the Store is neither away nor slow.
	AwaySince time.Time
	// LastErr is the error of the last failure, also after the breaker has
	// closed. Nil if nothing has failed.
	LastErr error
}

const (
	defaultTimeout      = 20 * time.Millisecond
	defaultStoreTimeout = 2 * time.Second
	leastStoreTimeouts  = 10 // Timeouts
	defaultFailures     = 5
	defaultProbe        = 250 * time.Millisecond
	defaultProbeGrowth  = 3
	defaultMaxCalls     = 1024
	maxProbes           = 4
	retrySoon           = time.Second
	minPatience         = 2 // a wait below the Timeout over this proves nothing about the Store
)

// ErrSlow says that a Store answers, but later than the Timeout of its [Guard].
var ErrSlow = errors.New("slower than Timeout")

var (
	errNoStore = errors.New("store: the Guard has no Store")
	errGone    = errors.New("store: the Store ended its goroutine")

	_ Store = (*Guard)(nil)
)

// Take decides a into d, see [Store]. It returns an error only for malformed
// asks, also those that the Store says are ([limit.ErrAsks]), and for a context
// that is canceled, or had ended before the call.
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
	if calls, probe := g.route(); calls {
		ok, end, err := g.ask(ctx, probe, a, d)
		switch end {
		case inTime:
			return ok, nil
		case wrong:
			return false, err
		case left:
			return false, g.canceled(ctx)
		}
	} else {
		g.yield()
	}
	g.without.Add(1)
	return g.decide(ctx, a, d)
}

// Stats returns the numbers so far. They are read one after the other, while
// other calls change them.
func (g *Guard) Stats() GuardStats {
	g.mu.Lock()
	b := g.state
	g.mu.Unlock()
	return GuardStats{
		Decided:   g.decided.Load(),
		Fallback:  g.without.Load(),
		Errors:    g.errors.Load(),
		Late:      g.late.Load(),
		Canceled:  g.left.Load(),
		Pending:   g.pending.Load(),
		Away:      b.open && !b.slow,
		Slow:      b.slow,
		AwaySince: b.since,
		LastErr:   b.err,
	}
}

// canceled returns the error for a caller whose context has ended.
func (g *Guard) canceled(ctx context.Context) error {
	g.left.Add(1)
	return fmt.Errorf("store: not decided: %w", context.Cause(ctx))
}
