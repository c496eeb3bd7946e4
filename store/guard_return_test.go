package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/store"
)

// A pooled store is some trips away, behind connections that it makes as they
// are needed, and closes when the context of a call ends in it, as pgx does.
type pooled struct {
	memory.Store
	most          int // connections
	connect, trip time.Duration
	slower        atomic.Int64  // added to each trip
	slots         chan struct{} // in use
	mu            sync.Mutex
	warm          int
	refuses       bool
}

func newPooled(most int, connect, trip time.Duration) *pooled {
	return &pooled{most: most, connect: connect, trip: trip, slots: make(chan struct{}, most)}
}

// crash closes all connections, and refuses others until it is called again.
func (p *pooled) crash(refuses bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.warm, p.refuses = 0, refuses
}

func (p *pooled) Take(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	defer func() { <-p.slots }()
	p.mu.Lock()
	takes := p.trip + time.Duration(p.slower.Load())
	if p.warm > 0 {
		p.warm--
	} else {
		takes += p.connect
	}
	refuses := p.refuses
	p.mu.Unlock()
	if refuses {
		return false, errDown
	}
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		return false, ctx.Err()
	}
	p.mu.Lock()
	p.warm++
	p.mu.Unlock()
	return p.Store.Take(ctx, a, d)
}

// calls calls a guard for a while, and returns the part that the store decided.
func guardCalls(t *testing.T, g *store.Guard, callers int, during time.Duration) float64 {
	t.Helper()
	before, end := g.Stats(), time.Now().Add(during)
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			for time.Now().Before(end) {
				began := time.Now()
				take(t, g, fmt.Sprint(i), limit.Limit{Count: 1_000_000, Period: time.Second}, 1)
				if waited := time.Since(began); waited > max(g.Timeout, 20*ms) {
					t.Errorf("a caller waited for %v, want at most the Timeout", waited)
				}
				time.Sleep(time.Duration(1+callers/16) * ms)
			}
		})
	}
	all.Wait()
	after := g.Stats()
	decided := after.Decided - before.Decided
	return float64(decided) / float64(decided+after.Fallback-before.Fallback)
}

// Whatever the time to connect and the trip, a store that starts cold or is back
// decides within 2 s.
func TestGuardReturns(t *testing.T) {
	bubble.Long(t)
	for _, test := range []struct {
		timeout, connect, trip time.Duration
		callers                int
	}{
		{20 * ms, 0, ms, 1},
		{20 * ms, 30 * ms, ms, 1},
		{20 * ms, 40 * ms, 4 * ms, 1},
		{20 * ms, 40 * ms, 4 * ms, 64},
		{20 * ms, 150 * ms, 9 * ms, 1},
		{20 * ms, 150 * ms, 9 * ms, 4},
		{20 * ms, 400 * ms, 2 * ms, 64},
		{150 * ms, 500 * ms, 50 * ms, 2},
		{150 * ms, 500 * ms, 50 * ms, 16},
	} {
		t.Run(fmt.Sprint(test), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				s := newPooled(16, test.connect, test.trip)
				g := &store.Guard{Store: s, Timeout: test.timeout, Fallback: store.FallbackDeny}
				guardCalls(t, g, test.callers, 2*time.Second)
				if got := guardCalls(t, g, test.callers, 2*time.Second); got < 0.99 {
					t.Errorf("2 s after a cold start the store decided %.3f, want 0.99: %+v", got, g.Stats())
				}
				for _, away := range []time.Duration{10 * ms, 100 * ms, 10 * time.Second} {
					s.crash(true)
					guardCalls(t, g, test.callers, away)
					s.crash(false)
					guardCalls(t, g, test.callers, 2*time.Second)
					if got := guardCalls(t, g, test.callers, 2*time.Second); got < 0.99 {
						t.Errorf("2 s after an absence of %v the store decided %.3f, want 0.99: %+v", away, got, g.Stats())
					}
				}
				time.Sleep(2 * time.Second) // until all questions have ended
			})
		})
	}
}

// A store that answers too late is not away, but slow, which is told. Most of its
// callers do not wait for it, and it is used again as soon as it is faster.
func TestGuardSlow(t *testing.T) {
	bubble.Long(t)
	for _, callers := range []int{1, 2, 64} {
		bubble.Test(t, func(t *testing.T) {
			s := newPooled(64, 30*ms, 5*ms)
			var mu sync.Mutex
			var told []string
			g := &store.Guard{Store: s, Fallback: store.FallbackDeny, OnState: func(err error) {
				mu.Lock()
				defer mu.Unlock()
				if err == nil || errors.Is(err, store.ErrSlow) {
					told = append(told, fmt.Sprint(err))
				}
			}}
			guardCalls(t, g, callers, 2*time.Second)
			told = nil
			s.slower.Store(int64(45 * ms))
			guardCalls(t, g, callers, 2*time.Second)
			before := g.Stats()
			guardCalls(t, g, callers, 10*time.Second)
			c := g.Stats()
			if late, without := c.Late-before.Late, c.Fallback-before.Fallback; late > without/10 || c.Away || !c.Slow || c.AwaySince.IsZero() || !errors.Is(c.LastErr, store.ErrSlow) {
				t.Errorf("%d callers: %d of %d waited in vain, %+v; want few, slow and since when", callers, late, without, c)
			}
			if len(told) == 0 || !strings.Contains(told[len(told)-1], "slower than Timeout, its last answer took ") || slices.Contains(told, "<nil>") {
				t.Errorf("%d callers: OnState was called with %.500q, want it slower and not back", callers, told)
			}
			told = nil
			s.slower.Store(0)
			guardCalls(t, g, callers, 2*time.Second)
			if got := guardCalls(t, g, callers, 10*time.Second); got < 0.99 || g.Stats().Slow || !slices.Contains(told, "<nil>") {
				t.Errorf("%d callers: 2 s after it was faster the store decided %.3f, OnState was called with %.500q: %+v", callers, got, told, g.Stats())
			}
			time.Sleep(2 * time.Second)
		})
	}
}

// Probes come at intervals that double and differ from guard to guard, so that
// many guards do not keep down a store that starts.
func TestGuardBackoff(t *testing.T) {
	bubble.Long(t)
	bubble.Test(t, func(t *testing.T) {
		const guards = 1000
		began := time.Now()
		perTick := map[time.Duration]int{} // after the first second
		probes := 0
		far := store.Func(func(context.Context, []limit.Ask, []limit.Decision) (bool, error) {
			if at := time.Since(began); at > time.Second {
				perTick[at]++
				probes++
			}
			return false, errDown
		})
		var last error
		all := make([]store.Guard, guards)
		for i := range all {
			all[i].Store, all[i].OnState = far, func(err error) { last = err }
		}
		for range 1100 {
			for i := range all {
				ask(t, &all[i], "k", 0)
			}
			time.Sleep(10 * ms)
		}
		if most := guards * 10 * 1000 / 562 * 105 / 100; probes > most || probes < most/2 {
			t.Errorf("%d guards made %d probes in 10 s, want at most %d", guards, probes, most)
		}
		for at, n := range perTick {
			if n > guards/20 {
				t.Errorf("%d of %d guards probe at %v, want them spread", n, guards, at)
			}
		}
		c := all[0].Stats()
		if !c.Away || !c.AwaySince.Equal(began.Add(40*ms)) || c.LastErr != errDown {
			t.Errorf("Stats() = %+v, want it away since %v for %v", c, began.Add(40*ms), errDown)
		}
		if !errors.Is(last, errDown) || !strings.Contains(last.Error(), "away for 10.") {
			t.Errorf("OnState was called with %v, want for how long the store is away, and why", last)
		}
	})
}

// A call to the Store has the values of its caller's context, and continues
// without the caller, until the StoreTimeout at most.
func TestGuardStoreTimeout(t *testing.T) {
	type key struct{}
	for _, test := range []struct{ timeout, storeTimeout, want time.Duration }{
		{0, 0, 2 * time.Second},
		{time.Second, 0, 10 * time.Second},
		{time.Second, time.Millisecond, time.Second},
		{0, 100 * ms, 100 * ms},
	} {
		bubble.Test(t, func(t *testing.T) {
			began := time.Now()
			s := store.Func(func(ctx context.Context, _ []limit.Ask, _ []limit.Decision) (bool, error) {
				<-ctx.Done()
				if d, ok := ctx.Deadline(); time.Since(began) != test.want || !ok || !d.Equal(time.Now()) || ctx.Value(key{}) != "value" {
					t.Errorf("the context of the Store ended after %v, deadline %v, value %v; want %v", time.Since(began), d, ctx.Value(key{}), test.want)
				}
				return false, ctx.Err()
			})
			g := &store.Guard{Store: s, Timeout: test.timeout, StoreTimeout: test.storeTimeout}
			for _, patience := range []time.Duration{time.Millisecond, time.Minute} {
				ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "value"), patience)
				defer cancel()
				canceled, cancel := context.WithCancel(ctx)
				time.AfterFunc(2*ms, cancel)
				go store.Take(ctx, g, "k", perMinute, 1)
				go store.Take(canceled, g, "k", perMinute, 1)
			}
			time.Sleep(test.want + ms)
			if c := g.Stats(); c.Pending != 0 || c.Canceled != 1 {
				t.Errorf("Stats() = %+v, want none pending", c)
			}
		})
	}
}
