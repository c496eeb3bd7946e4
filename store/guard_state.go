package store

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"
)

// route reports whether to call the Store, and whether that call is a probe.
func (g *Guard) route() (calls, probe bool) {
	if !g.open.Load() {
		return true, false
	}
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.state.open {
		return true, false
	}
	probe = g.state.probe(now)
	return probe, probe
}

// yield lets the goroutines of the calls that the Store has not returned from
// run before a caller that does not wait: callers that ask again at once would
// keep all processors busy, and every answer would be late.
func (g *Guard) yield() {
	if g.pending.Load() > 0 {
		runtime.Gosched()
	}
}

// change changes the state.
func (g *Guard) change(f func(*breaker)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f(&g.state)
	g.open.Store(g.state.open)
	g.uneasy.Store(!g.state.calm())
}

// succeeded counts a decision of the Store, the first of which closes the
// breaker.
func (g *Guard) succeeded(probe bool) {
	g.decided.Add(1)
	if !probe && !g.uneasy.Load() {
		return
	}
	var tell bool
	g.change(func(b *breaker) { tell = b.answered(probe) })
	if tell && g.OnState != nil {
		g.OnState(nil)
	}
}

// finished records how a call has ended that has no caller any more.
func (g *Guard) finished(c *guardCall) {
	took := time.Since(c.began)
	switch {
	case c.err != nil:
		g.change(func(b *breaker) { b.failedLate(c.err) })
	case took > g.timeout():
		g.change(func(b *breaker) { b.answeredLate(took, c.probe) })
	case g.uneasy.Load():
		g.change((*breaker).answeredAlone)
	}
}

// failed counts a failure of the Store. One that proves nothing is reported to
// OnState only.
func (g *Guard) failed(f failure) {
	now := time.Now()
	rules := breakerRules{
		failures: cmp.Or(max(g.Failures, 0), defaultFailures),
		timeout:  g.timeout(),
		minRest:  cmp.Or(max(g.ProbeInterval, 0), defaultProbe),
		jitter:   rand.Float64(),
	}
	rules.maxRest = max(rules.minRest, cmp.Or(max(g.MaxProbeInterval, 0), defaultProbeGrowth*rules.minRest))
	var was breaker
	g.change(func(b *breaker) {
		was = *b
		b.failed(now, f, rules)
	})
	if g.OnState == nil {
		return
	}
	err := f.err
	if f.probe && was.open {
		err = fmt.Errorf("store: the Store has been away for %v: %w", now.Sub(was.since).Round(time.Millisecond), err)
	}
	g.OnState(err)
}

// lateError returns the error for a caller that waited in vain.
func (g *Guard) lateError(waited time.Duration) error {
	g.mu.Lock()
	took := g.state.took
	g.mu.Unlock()
	err := fmt.Errorf("store: the Store has not answered in %v: %w", waited, context.DeadlineExceeded)
	if took > 0 {
		err = fmt.Errorf("%w: %w, its last answer took %v", err, ErrSlow, took)
	}
	return err
}

// releaseProbe lets another call be the probe.
func (g *Guard) releaseProbe(probe bool) {
	if probe {
		g.change(func(b *breaker) { b.probing = false })
	}
}

func (g *Guard) timeout() time.Duration { return cmp.Or(max(g.Timeout, 0), defaultTimeout) }

func (g *Guard) storeTimeout() time.Duration {
	timeout := g.timeout()
	return max(timeout, cmp.Or(max(g.StoreTimeout, 0), max(defaultStoreTimeout, leastStoreTimeouts*timeout)))
}

func (g *Guard) maxCalls() int { return cmp.Or(max(g.MaxCalls, 0), defaultMaxCalls) }
