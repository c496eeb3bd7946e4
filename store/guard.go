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

// Fallback is how a [Guard] decides without its Store.
type Fallback uint8

const (
	// FallbackLocal decides by a [memory.Store] of this process, that of each limit
	// allows one part of as many as there are Instances.
	FallbackLocal Fallback = iota
	// FallbackAllow lets all pass, uncharged.
	FallbackAllow
	// FallbackDeny refuses all, to come again in a second. Only what is given
	// back is taken, and lost.
	FallbackDeny
)

// Guard is a [Store] that answers in time, whatever becomes of the one behind
// it. It asks that one; if it has no answer by the Deadline, or an error, it
// decides without, in the way chosen by Away. After several failures in a row
// the Store counts as away: then it costs nothing, but for one question at a
// time that is put to it every now and then, and the first that it answers
// brings it back.
//
// No question is put twice, and nothing that the Store may have charged is
// given back: where it answers too late, what it grants is charged to it and
// wasted, so that what is admitted is never more than was charged.
//
// Let a limit have a burst of B and a rate of r. In a time T during which some or
// all instances are without the Store, their shares admit at most
//
//	B + r × T
//
// together, provided that B is at least Instances; if it is less, Instances
// instead of B, as each lets one pass. This comes on top of what the Store
// itself admits, which is not told what the shares have admitted. So over any
// length of time, however often the Store comes and goes and whoever can reach
// it, at most twice the limit is admitted. With AwayOpen there is no bound, and
// with AwayClosed no more than the limit is.
//
// A Guard is safe for concurrent use, needs no closing, and must not be copied
// after first use. Its fields must not change in use.
type Guard struct {
	// Store is asked. It may ignore the context that it is given, though it
	// should not: see Calls.
	Store Store
	// Fallback is how to decide without the Store. If zero, AwayShare.
	Fallback Fallback
	// Instances is how many processes share each limit, for AwayShare. If zero
	// or below, 1: each of them allows all of it.
	Instances int
	// Timeout is how long the Store has for an answer, or less if the
	// context of the caller ends before. If zero or below, 20 ms.
	Timeout time.Duration
	// Failures is after how many failures in a row the Store counts as away.
	// If zero or below, 5.
	Failures int
	// ProbeInterval is how long a Store that is away is left alone before it is asked
	// again. If zero or below, 250 ms.
	ProbeInterval time.Duration
	// MaxCalls is how many questions may be with the Store at a time, those
	// included that nobody waits for any more, since they are late. What is
	// more waits for its turn until the Deadline. If zero or below, 1024.
	// Besides there are at most 4 probes, of which one may be waited for.
	MaxCalls int
	// OnState, if not nil, is told why, each time that the Store was asked and did
	// not decide, and nil when it is back after it was away. It is called by
	// the goroutine of the caller, which waits for it, and by several at once.
	OnState func(error)

	local   memory.Store
	decided atomic.Int64
	without atomic.Int64
	errors  atomic.Int64
	late    atomic.Int64
	left    atomic.Int64
	pending atomic.Int64

	row  atomic.Int64 // failures in a row
	away atomic.Bool

	mu      sync.Mutex
	next    time.Time     // of the next probe; guarded by mu
	probing bool          // guarded by mu
	calls   chan struct{} // made once, under mu; one for each question
	probes  chan struct{}
}

// GuardStats are what a [Guard] has counted since its first use.
type GuardStats struct {
	// Decided is how many questions the Store has decided, in time. It counts
	// calls of Take, of whatever number of keys.
	Decided int64
	// Without is how many were decided without it: of these Errors and Late
	// were asked in vain, the others not asked at all.
	Without int64
	// Errors is how many the Store has answered by an error.
	Errors int64
	// Late is how many it had not answered by the Deadline.
	Late int64
	// Left is how many callers have gone, their contexts canceled, before
	// anything was decided.
	Left int64
	// Pending is how many late questions are with the Store still.
	Pending int64
	// Away is whether the Store counts as away now.
	Away bool
}

const (
	defaultDeadline = 20 * time.Millisecond
	defaultFailures = 5
	defaultProbe    = 250 * time.Millisecond
	defaultCalls    = 1024
	mostProbes      = 4
	comeAgain       = time.Second
	partOfPatience  = 2 // who waits less than this part of the Deadline proves nothing
)

var (
	errNoStore = errors.New("throttle: the Guard has no Store")
	errGone    = errors.New("throttle: the Store ended its goroutine")

	_ Store = (*Guard)(nil)
)

// Take answers a in d, see [Store]. The only errors are those of bad questions,
// and of contexts that are canceled, or have ended before.
func (g *Guard) Take(ctx context.Context, a []limit.Ask, d []limit.Decision) (ok bool, err error) {
	if err := limit.CheckAsks(a, d); err != nil {
		return false, err
	}
	switch {
	case len(a) == 0:
		return true, nil
	case ctx.Err() != nil:
		return false, g.leave(ctx)
	}
	if asks, probe := g.turn(time.Now()); asks {
		ok, left, err := g.ask(ctx, probe, a, d)
		switch {
		case err == nil:
			g.answered(probe)
			return ok, nil
		case left:
			g.forget(probe)
			return false, g.leave(ctx)
		}
	}
	g.without.Add(1)
	return g.decide(ctx, a, d)
}

// Stats are the present ones. They are read one after the other, while others
// decide.
func (g *Guard) Stats() GuardStats {
	return GuardStats{
		Decided: g.decided.Load(),
		Without: g.without.Load(),
		Errors:  g.errors.Load(),
		Late:    g.late.Load(),
		Left:    g.left.Load(),
		Pending: g.pending.Load(),
		Away:    g.away.Load(),
	}
}

// leave is the error for a caller whose context has ended.
func (g *Guard) leave(ctx context.Context) error {
	g.left.Add(1)
	return fmt.Errorf("throttle: not decided: %w", context.Cause(ctx))
}

// turn tells whether a question is to be put to the Store, and whether as a
// probe.
func (g *Guard) turn(now time.Time) (asks, probe bool) {
	if !g.away.Load() {
		return true, false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.away.Load() {
		return true, false
	}
	if g.probing || now.Before(g.next) {
		return false, false
	}
	g.probing = true
	return true, true
}

// answered notes that the Store has decided.
func (g *Guard) answered(probe bool) {
	g.decided.Add(1)
	if g.row.Load() != 0 {
		g.row.Store(0)
	}
	if !probe {
		return
	}
	g.mu.Lock()
	g.probing = false
	g.away.Store(false)
	g.mu.Unlock()
	if g.OnState != nil {
		g.OnState(nil)
	}
}

// failed notes that it has not. If nothing can be concluded from it, it counts
// for a caller only.
func (g *Guard) failed(probe, counts bool, err error) {
	now := time.Now()
	g.mu.Lock()
	switch {
	case probe:
		g.probing = false
		g.next = now.Add(cmp.Or(max(g.ProbeInterval, 0), defaultProbe))
	case !counts || g.away.Load():
	case g.row.Add(1) >= int64(cmp.Or(max(g.Failures, 0), defaultFailures)):
		g.away.Store(true)
		g.next = now.Add(cmp.Or(max(g.ProbeInterval, 0), defaultProbe))
	}
	g.mu.Unlock()
	if g.OnState != nil {
		g.OnState(err)
	}
}

// forget lets somebody else probe.
func (g *Guard) forget(probe bool) {
	if !probe {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.probing = false
}
