package integration

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/throttle-go/throttle/integration/clients"
	"github.com/throttle-go/throttle/integration/rig"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/store"
	"github.com/throttle-go/throttle/throttleredis"
	"github.com/throttle-go/throttle/throttlesql"
)

// refill is how long a bucket of perMinute takes to refill. Clocks may differ
// by a second without being noticed.
const refill = time.Minute + time.Second + time.Second/10

// clocked are stores on engines under a clock of their own.
var clocked = map[string]func(*testing.T, *rig.Clock) store.Store{
	"Redis": func(t *testing.T, c *rig.Clock) store.Store {
		return &throttleredis.Store{Do: goRedis(t, c.Redis(t).Addr)}
	},
	"PostgreSQL": func(t *testing.T, c *rig.Clock) store.Store {
		return created(t, &throttlesql.Store{Query: clients.Pgx(pool(t, c.Postgres(t).URL))})
	},
}

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
	for name, start := range clocked {
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

// TestFaultClockSlew: the clock of a server runs too fast or too slow, by as much
// as one that is being corrected does, and by far more. What passes is what the
// limit allows by that clock.
func TestFaultClockSlew(t *testing.T) {
	t.Parallel()
	for name, start := range clocked {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := rig.NewClock(t)
			s := start(t, clock)
			l := limit.Limit{Count: 500, Period: time.Second, Burst: 100} // what refills in 200 ms in which nobody asks is not lost
			if _, err := store.Take(t.Context(), s, "slewed", l, 100); err != nil {
				t.Fatal(err)
			}
			var off time.Duration
			for _, by := range []float64{500e-6, -500e-6, 0.1, -0.1} {
				for try := 1; ; try++ {
					stop := clock.Slew(t, off, by)
					got := load{store: s, keys: []string{"slewed"}, limit: l, callers: 2, deadline: sure}.run(t, func() { rest(t.Context(), time.Second/2) })
					off = stop()
					err := slewed(t, got, l, by)
					if err == nil {
						break
					}
					if try == 10 {
						t.Error(err)
						break
					}
					t.Log(err)
				}
			}
		})
	}
}

// slewed checks what passed while the clock of the server was off by a part. The error
// is that less passed than may: so it may be where the callers stood still for longer
// than a burst lasts, on a busy machine, but not again and again.
func slewed(t *testing.T, got calls, l limit.Limit, by float64) error {
	t.Helper()
	if n, some := got.failures(); n > 0 {
		t.Errorf("%+.2g: %d calls failed:%s", by, n, some)
	}
	for _, one := range got.all {
		if !one.d.OK && (one.d.RetryAfter <= 0 || one.d.RetryAfter > time.Second/100) {
			t.Fatalf("%+.2g: %+v, want a refusal for at most the time of a burst", by, one.d)
		}
	}
	got.within(t, l, 0)
	// By the clock of this process, from the first call to the last.
	first, last := got.all[0], got.all[len(got.all)-1]
	rate, took := float64(l.Count)*(1+by), last.end().Sub(first.began).Seconds()
	least := 0.99*rate*last.began.Sub(first.end()).Seconds() - float64(last.d.Remaining) - 3
	most := 1.01*rate*took + float64(first.d.Remaining) + 3
	n := float64(got.admitted("slewed"))
	if n > most {
		t.Errorf("%+.2g: %v admitted in %.3f s, want at most %.0f", by, n, took, most)
	}
	if n < least && len(got.all) >= int(most) { // else there were not enough calls
		return fmt.Errorf("%+.2g: %v of %d admitted in %.3f s, want %.0f or more", by, n, len(got.all), took, least)
	}
	return nil
}

// locked is how long a drained key is told to wait, at most a refill.
func locked(t *testing.T, s store.Store, key string) time.Duration {
	t.Helper()
	d, err := store.Take(t.Context(), s, key, perMinute, 1)
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
func passes(t *testing.T, s store.Store, key string) {
	t.Helper()
	if d, err := store.Take(t.Context(), s, key, perMinute, 1); err != nil || !d.OK {
		t.Errorf("Take(%q) = %+v, %v when the time it told had passed, want OK", key, d, err)
	}
}
