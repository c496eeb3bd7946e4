package stores

import (
	"strconv"
	"testing"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/stores/clients"
	"github.com/throttle-go/throttle/stores/rig"
	"github.com/throttle-go/throttle/throttleredis"
	"github.com/throttle-go/throttle/throttlesql"
)

// refill is how long a bucket of perMinute takes to refill. Clocks may differ
// by a second without being noticed.
const refill = time.Minute + time.Second + time.Second/10

// TestFaultClockOfReplica: a replica whose clock is five minutes off is
// promoted. What the primary wrote is then of the far future, or long past.
func TestFaultClockOfReplica(t *testing.T) {
	t.Parallel()
	for name, off := range map[string]time.Duration{"behind": -5 * time.Minute, "ahead": 5 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := rig.NewClock(t)
			clock.Shift(t, off)
			primary := rig.Redis(t)
			replica := clock.Redis(t, "--replicaof", "127.0.0.1 "+strconv.Itoa(primary.Port))
			pair := rig.Replicated{Primary: primary, Replica: replica}
			var got calls
			drain(t, &throttleredis.Store{Do: goRedis(t, primary.Addr)}, name, perMinute, &got)
			rig.Until(t, "the replica has all", pair.InStep)
			primary.Kill()
			replica.Promote(t)
			s := &throttleredis.Store{Do: goRedis(t, replica.Addr)}
			wait := locked(t, s, name)
			clock.Shift(t, off+wait)
			passes(t, s, name)
			t.Logf("after the fail-over the next passes in %v", wait)
		})
	}
}

// TestFaultClockStep: the clock of a server is put back and forward under it.
func TestFaultClockStep(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T, *rig.Clock) throttle.Store{
		"Redis": func(t *testing.T, c *rig.Clock) throttle.Store {
			return &throttleredis.Store{Do: goRedis(t, c.Redis(t).Addr)}
		},
		"PostgreSQL": func(t *testing.T, c *rig.Clock) throttle.Store {
			return created(t, &throttlesql.Store{Query: clients.Pgx(pool(t, c.Postgres(t).URL))})
		},
	} {
		t.Run(name, func(t *testing.T) {
			clock := rig.NewClock(t)
			s := start(t, clock)
			var got calls
			const key = "stepped"
			drain(t, s, key, perMinute, &got)
			clock.Shift(t, -time.Hour)
			wait := locked(t, s, key)
			t.Logf("an hour back the next passes in %v", wait)
			clock.Shift(t, -time.Hour+wait)
			passes(t, s, key)
			clock.Shift(t, time.Hour)
			got = calls{}
			drain(t, s, key, perMinute, &got)
			got.within(t, perMinute, 0)
		})
	}
}

// locked is how long a drained key is told to wait, at most a refill.
func locked(t *testing.T, s throttle.Store, key string) time.Duration {
	t.Helper()
	d, err := throttle.Take(t.Context(), s, key, perMinute, 1)
	switch {
	case err != nil:
		t.Fatalf("Take(%q): %v", key, err)
	case d.OK:
		t.Errorf("Take(%q) = %+v, want a refusal: a burst was just taken", key, d)
	case d.RetryAfter > refill:
		t.Errorf("Take(%q) = %+v, want to pass within %v", key, d, refill)
	}
	return d.RetryAfter
}

// passes checks that what was said is so.
func passes(t *testing.T, s throttle.Store, key string) {
	t.Helper()
	if d, err := throttle.Take(t.Context(), s, key, perMinute, 1); err != nil || !d.OK {
		t.Errorf("Take(%q) = %+v, %v when the time it told had passed, want OK", key, d, err)
	}
}
