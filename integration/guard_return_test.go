package integration

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttle-go/throttle/integration/rig"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/store"
)

// soon is how long after its return a store must decide again.
const soon = 2 * time.Second

// A guardCase is one client at one distance, behind a guard.
type guardCase struct {
	client  guardClient
	network time.Duration // there and back
	timeout time.Duration
	callers int
	pause   time.Duration

	guard *store.Guard
	slow  atomic.Int64 // calls of OnState with ErrSlow
	plain store.Store  // the same, without a guard

	mu   sync.Mutex
	took []time.Duration // by plain, since the last measure
}

func (c *guardCase) String() string {
	return fmt.Sprintf("%s, %v of network, Timeout %v, %d callers", c.client.name, c.network, c.timeout, c.callers)
}

// guardLimit is a limit that refuses nothing.
var guardLimit = limit.Limit{Count: 1_000_000, Period: time.Second}

// open makes the clients, one with a guard.
func (c *guardCase) open(t *testing.T, target string) {
	p := rig.NewProxy(t, target)
	p.Set(rig.Fault{Delay: c.network / 2})
	c.plain = c.client.store(t, p.Addr)
	c.guard.Store = c.client.store(t, p.Addr)
	c.guard.OnState = func(err error) {
		if errors.Is(err, store.ErrSlow) {
			c.slow.Add(1)
		}
	}
}

// keepOn calls both stores until ctx ends.
func (c *guardCase) keepOn(ctx context.Context, t *testing.T, all *sync.WaitGroup) {
	for i := range c.callers {
		key := fmt.Sprint(c, i)
		all.Go(func() {
			for ctx.Err() == nil {
				if _, err := store.Take(t.Context(), c.guard, key, guardLimit, 1); err != nil {
					t.Errorf("%v: %v, want a decision", c, err)
				}
				rest(ctx, c.pause)
			}
		})
		if i >= 2 {
			continue // it shall not disturb the other
		}
		all.Go(func() {
			for ctx.Err() == nil {
				limited, cancel := context.WithTimeout(t.Context(), soon)
				began := time.Now()
				if _, err := store.Take(limited, c.plain, key, guardLimit, 1); err == nil {
					c.mu.Lock()
					c.took = append(c.took, time.Since(began))
					c.mu.Unlock()
				}
				cancel()
				rest(ctx, c.pause)
			}
		})
	}
}

// p99 is that of the store without the guard, since the last call of p99. It is
// an hour if the machine is too busy for some calls.
func (c *guardCase) p99() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	took := c.took
	c.took = nil
	if len(took) < 20 {
		return time.Hour
	}
	slices.Sort(took)
	return took[len(took)*99/100]
}

// decides is nil if the store has decided nearly all between two Stats, where the
// Timeout is twice what the store takes; and if otherwise the guard says what is
// wrong, and that the store is not away. It is errBusy if the machine cannot tell.
func (c *guardCase) decides(least float64, from, to store.GuardStats) error {
	decided, all := to.Decided-from.Decided, to.Decided-from.Decided+to.Fallback-from.Fallback
	got, p99 := float64(decided)/float64(max(all, 1)), c.p99()
	saw := fmt.Sprintf("%v: p99 %v without the guard; %.2f%% of %d decided", c, p99.Round(100*time.Microsecond), 100*got, all)
	switch {
	case got >= least:
		return nil
	case 2*p99 <= c.timeout:
		return fmt.Errorf("%s, want %.2f%%: %+v", saw, 100*least, to)
	case p99 >= 10*c.timeout || got+1/math.Sqrt(float64(max(all, 1))) >= 0.5: // a share of few is rough
		return fmt.Errorf("%s: %w", saw, errBusy)
	case to.Away:
		return fmt.Errorf("%s: %+v; want it not away, as it answers", saw, to)
	case c.slow.Load() == 0:
		return fmt.Errorf("%s: %+v; want OnState called with ErrSlow", saw, to)
	}
	return nil
}

var errBusy = errors.New("the machine is too busy, this is NOT tested")

// TestGuardReturns: whatever the client and the network, a store decides soon
// after a cold start, and soon after a crash of the server.
func TestGuardReturns(t *testing.T) {
	t.Parallel()
	crash(t, guardCases(
		guardCase{network: time.Millisecond, timeout: 20 * time.Millisecond},
		guardCase{network: 8 * time.Millisecond, timeout: 20 * time.Millisecond},
		guardCase{network: 50 * time.Millisecond, timeout: 150 * time.Millisecond},
		guardCase{network: 50 * time.Millisecond, timeout: 20 * time.Millisecond},
	), 0.99)
}

// TestGuardReturnsSoak is that for each distance alone.
func TestGuardReturnsSoak(t *testing.T) {
	if os.Getenv("THROTTLE_SOAK") == "" {
		t.Skip("THROTTLE_SOAK=1 runs it, for 2 minutes")
	}
	for _, at := range []struct{ network, timeout time.Duration }{
		{0, 20}, {1, 20}, {2, 20}, {4, 20}, {8, 20}, {16, 20}, {20, 150}, {50, 150}, {50, 20},
	} {
		t.Run(fmt.Sprint(int(at.network), " ms, Timeout ", int(at.timeout), " ms"), func(t *testing.T) {
			crash(t, guardCases(guardCase{network: at.network * time.Millisecond, timeout: at.timeout * time.Millisecond}), 0.99)
		})
	}
}

// TestGuardBusy: many callers on few connections are no outage.
func TestGuardBusy(t *testing.T) {
	for _, c := range guardCases(guardCase{network: time.Millisecond, timeout: 20 * time.Millisecond}) {
		t.Run(c.client.name, func(t *testing.T) {
			if c.client.name != "redigo" && c.client.name != "pgx" && os.Getenv("THROTTLE_SOAK") == "" {
				t.Skip("THROTTLE_SOAK=1 runs it")
			}
			c.callers, c.pause = 64, 2*time.Millisecond
			if strings.HasPrefix(c.client.name, "database/sql") {
				c.guard.MaxCalls = guardConns // so that calls wait in order
			}
			crash(t, []*guardCase{c}, 0.95)
		})
	}
}

// guardCases are some cases with each client.
func guardCases(some ...guardCase) (all []*guardCase) {
	for _, client := range guardClients() {
		for i := range some {
			all = append(all, &guardCase{
				client: client, network: some[i].network, timeout: some[i].timeout, callers: 2, pause: 10 * time.Millisecond,
				guard: &store.Guard{Timeout: some[i].timeout, Fallback: store.FallbackDeny},
			})
		}
	}
	return all
}

// crash starts the cases cold, then ends their servers and starts them again.
func crash(t *testing.T, cases []*guardCase, least float64) {
	t.Helper()
	r, p := rig.Redis(t), guardPostgres(t)
	var all sync.WaitGroup
	for _, c := range cases {
		target := r.Addr
		if c.client.postgres {
			target = p.Addr
		}
		c.open(t, target)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer all.Wait()
	defer stop()
	for _, c := range cases {
		c.keepOn(ctx, t, &all)
	}
	measured(t, cases, "cold", least)
	r.Kill()
	p.Kill()
	rest(ctx, time.Second)
	for _, c := range cases {
		if s := c.guard.Stats(); !s.Away && !s.Slow || s.AwaySince.IsZero() || s.LastErr == nil {
			t.Errorf("%v: %+v without its server, want it away, since when and why", c, s)
		}
	}
	r.Restart(t)
	p.Restart(t)
	measured(t, cases, "after a crash", least)
}

// measured checks the second after soon. On a busy machine it may be one of the
// next.
func measured(t *testing.T, cases []*guardCase, when string, least float64) {
	t.Helper()
	rest(t.Context(), soon)
	for seconds := 1; len(cases) > 0; seconds++ {
		from := make([]store.GuardStats, len(cases))
		for i, c := range cases {
			from[i] = c.guard.Stats()
			c.p99()
		}
		rest(t.Context(), time.Second)
		var again []*guardCase
		busy := 0
		for i, c := range cases {
			err := c.decides(least, from[i], c.guard.Stats())
			switch {
			case err == nil:
			case seconds < 5:
				again = append(again, c)
			case errors.Is(err, errBusy):
				busy++
			default:
				t.Errorf("%s: %v", when, err)
			}
		}
		t.Logf("%s, second %d: of %d cases %d are tried again; of %d NOTHING is known, as the machine is too busy",
			when, seconds, len(cases), len(again), busy)
		cases = again
	}
}
