package integration

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/throttle-go/throttle/integration/clients"
	"github.com/throttle-go/throttle/integration/rig"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/store"
	"github.com/throttle-go/throttle/throttleredis"
)

// TestFaultLostWrites: a primary is killed whose replica has heard nothing of
// the burst that was just admitted. What the replica admits after it is
// promoted is the refill, not another burst.
func TestFaultLostWrites(t *testing.T) {
	t.Parallel()
	t.Run("Redis", func(t *testing.T) { loseWrites(t, rig.RedisPair(t)) })
	t.Run("Redis 8", func(t *testing.T) { loseWrites(t, rig.Redis8Pair(t)) })
	t.Run("Valkey", func(t *testing.T) { loseWrites(t, rig.ValkeyPair(t)) })
}

func loseWrites(t *testing.T, pair *rig.Replicated) {
	const key = "lost"
	old := &throttleredis.Store{Do: goRedis(t, pair.Primary.Addr)}
	if _, err := store.Take(t.Context(), old, "another", perMinute, 1); err != nil { // the fence is there
		t.Fatal(err)
	}
	rig.Until(t, "the replica has all", pair.InStep)
	pair.Link.Set(rig.Fault{Stall: true})
	var got calls
	drain(t, old, key, perMinute, &got)
	before := got.admitted(key)
	if before < perMinute.Count {
		t.Errorf("the primary admitted %d, want %d and the refill", before, perMinute.Count)
	}
	pair.Primary.Kill()
	pair.Replica.Promote(t)
	promoted := &throttleredis.Store{Do: goRedis(t, pair.Replica.Addr)}
	l := load{store: promoted, keys: []string{key}, limit: perMinute, callers: 8, deadline: sure}
	after := l.run(t, func() { rest(t.Context(), time.Second) })
	if after.admitted(key) == 0 {
		t.Error("nothing was admitted in the second after the fail-over, want the refill")
	}
	got.all = append(got.all, after.all...)
	if n, some := got.failures(); n > 0 {
		t.Errorf("%d calls failed:%s", n, some)
	}
	got.within(t, perMinute, 0)
	t.Logf("admitted %d of %v before the fail-over and %d in the second after it", before, perMinute, after.admitted(key))
}

// drain takes until nothing is left.
func drain(t *testing.T, s store.Store, key string, l limit.Limit, made *calls) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), sure)
	defer cancel()
	for {
		c := call{key: key, began: time.Now()}
		c.d, c.err = store.Take(ctx, s, key, l, 1)
		if c.err != nil {
			t.Fatalf("Take(%q): %v", key, c.err)
		}
		made.all = append(made.all, c)
		if !c.d.OK {
			return
		}
	}
}

// leaveFrozen freezes the sentinel that the client of s asks, and cuts its connections to
// the primary, before each of which it asks one: it takes another.
func leaveFrozen(t *testing.T, w *rig.Watched, s store.Store) {
	t.Helper()
	primary := w.Primary(t)
	for _, one := range w.Sentinels {
		if !strings.Contains(one.Must(t, "CLIENT", "LIST", "TYPE", "pubsub"), " sub=") {
			continue
		}
		one.Freeze()
		primary.Must(t, "CLIENT", "KILL", "TYPE", "normal")
		frozen := time.Now()
		back(t, s)
		t.Logf("another sentinel after %v", time.Since(frozen))
		one.Thaw()
		return
	}
	t.Fatal("the client listens to no sentinel")
}

// TestFaultSentinel: sentinels replace a primary that was killed, after one of them was
// frozen.
func TestFaultSentinel(t *testing.T) {
	t.Parallel()
	w := rig.Sentinel(t, 3)
	c := redis.NewFailoverClient(clients.GoRedisFailoverOptions(w.Name, w.Addrs()...))
	t.Cleanup(func() { c.Close() })
	s := &throttleredis.Store{Do: clients.GoRedis(c), Overlap: overlap}
	back(t, s)
	leaveFrozen(t, w, s)
	l := load{store: s, keys: []string{"watched"}, limit: perMinute, callers: 4, deadline: tight}
	var killed, elected time.Time
	got := l.run(t, func() {
		rest(t.Context(), 300*time.Millisecond)
		old := w.Primary(t)
		old.Kill()
		killed = time.Now()
		rig.Until(t, "the sentinels have elected", func() error {
			if n := w.Primary(t); n != old {
				return n.Says("replication", "role:master")
			}
			return errors.New("not yet")
		})
		elected = time.Now()
		back(t, s)
		rest(t.Context(), 300*time.Millisecond)
	})
	got.recovered(t, killed, elected)
	got.inTime(t, tight)
	got.within(t, perMinute, 0)
}

// TestFaultParted: a master is cut off from the rest of its cluster together
// with some of its callers, and goes on until it notices; meanwhile the others
// elect its replica.
func TestFaultParted(t *testing.T) {
	t.Parallel()
	c := rig.ProxiedCluster(t)
	const key = "parted"
	master, replica := c.Owner(t, fence)
	within := clusterStores(t, c.Addrs(), quick)["go-redis"]
	without := &throttleredis.Store{Do: quickDo(t, c.Nodes[master].Addr), Prefix: within.Prefix, Overlap: overlap}
	quickly := limit.Limit{Count: 1000, Burst: 1000, Period: 10 * time.Second}
	most := load{store: within, keys: []string{key}, limit: quickly, callers: 4, deadline: tight}
	few := most
	few.store = without
	var parted, elected time.Time
	var alone calls
	got := most.run(t, func() {
		alone = few.run(t, func() {
			rest(t.Context(), 300*time.Millisecond)
			c.Part(master)
			parted = time.Now()
			elected = takenOver(t, c, replica)
			back(t, within)
			rest(t.Context(), 500*time.Millisecond)
		})
	})
	got.recovered(t, parted, elected)
	got.inTime(t, tight)
	alone.inTime(t, tight)
	t.Logf("the master that was cut off gave its last answer after %v", alone.last(parted))
	got.all = append(got.all, alone.all...)
	got.within(t, quickly, 0)
	c.Mend(t)
	back(t, within)
}

// TestFaultTwoPrimaries: a replica is promoted while the primary goes on, which
// callers that have not heard of it go on asking, until it ends.
func TestFaultTwoPrimaries(t *testing.T) {
	t.Parallel()
	const overlap = 3 * time.Second
	pair := rig.RedisPair(t)
	const key = "two"
	quickly := limit.Limit{Count: 1000, Period: 10 * time.Second}
	old := load{
		store: &throttleredis.Store{Do: goRedis(t, pair.Primary.Addr), Overlap: overlap},
		keys:  []string{key}, limit: quickly, callers: 4, deadline: sure,
	}
	young := old
	young.store = &throttleredis.Store{Do: goRedis(t, pair.Replica.Addr), Overlap: overlap}
	var made calls
	drain(t, old.store, key, quickly, &made)
	rig.Until(t, "the replica has all", pair.InStep)
	pair.Link.Set(rig.Fault{Stall: true})
	var promoted time.Time
	var both time.Duration
	got := old.run(t, func() {
		promoted = time.Now()
		pair.Replica.Promote(t)
		more := young.run(t, func() { rest(t.Context(), time.Second) })
		both = time.Since(promoted)
		made.all = append(made.all, more.all...)
	})
	made.all = append(made.all, got.all...)
	if both > overlap {
		t.Skipf("THIS MACHINE IS TOO SLOW: the primaries were two for %v, and only %v were foreseen", both, overlap)
	}
	rest(t.Context(), time.Until(promoted.Add(both+overlap)))
	last := young.run(t, func() { rest(t.Context(), time.Second/10) })
	if last.admitted(key) == 0 {
		t.Errorf("nothing was admitted %v after the fail-over, want the refill", time.Since(promoted))
	}
	made.all = append(made.all, last.all...)
	made.within(t, quickly, 0)
}
