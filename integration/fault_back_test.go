package integration

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/throttle-go/throttle/integration/clients"
	"github.com/throttle-go/throttle/integration/rig"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/throttleredis"
)

// TestFaultMigrated: Valkey 9 moves the slot of all keys at once, there and back,
// under load.
func TestFaultMigrated(t *testing.T) {
	t.Parallel()
	c := rig.ValkeyCluster(t)
	from, _ := c.Owner(t, fence)
	to := slices.IndexFunc(c.Nodes[:], func(n *rig.Node) bool { return n != c.Nodes[from] && n.Says("replication", "role:master") == nil })
	l := load{keys: []string{"a", "b", "c", "d"}, limit: perMinute, callers: 4, deadline: sure}
	runAll(t, clusterStores(t, c.Addrs(), sure), l, func() {
		for range 4 {
			rest(t.Context(), 100*time.Millisecond)
			c.Migrate(t, fence, to)
			from, to = to, from
		}
	}, func(t *testing.T, got calls) {
		got.unnoticed(t)
	})
}

// TestFaultSentinelBackSoak: sentinels replace a primary that stands still, of whose
// last writes its replica has heard nothing; it wakes up, is made a replica, which
// loses them, and takes over again in the same way. Some callers only ever meet one
// of the two.
func TestFaultSentinelBackSoak(t *testing.T) {
	soak(t)
	t.Parallel()
	w := rig.Sentinel(t, 3)
	f := redis.NewFailoverClient(clients.GoRedisFailoverOptions(w.Name, w.Addrs()...))
	t.Cleanup(func() { f.Close() })
	const overlap = 8 * time.Second
	s := &throttleredis.Store{Do: clients.GoRedis(f), Overlap: overlap}
	back(t, s)
	slowly := limit.Limit{Count: 1000, Period: time.Hour}
	led := load{store: s, keys: []string{"a", "b"}, limit: slowly, callers: 4, deadline: tight}
	stale := led
	stale.store = &throttleredis.Store{Do: quickDo(t, w.Servers[0].Addr), Overlap: overlap}
	var alone calls
	got := led.run(t, func() {
		alone = stale.run(t, func() {
			for range 2 {
				sentinelLoses(t, w)
				back(t, s)
				rest(t.Context(), 500*time.Millisecond)
			}
		})
	})
	got.add(alone)
	got.inTime(t, tight)
	got.within(t, slowly, 0)
	for _, key := range led.keys {
		t.Logf("%s: %d of 1000 an hour admitted", key, got.admitted(key))
		if got.admitted(key) == 0 {
			t.Errorf("nothing was admitted of %s", key)
		}
	}
	if n := s.Stats().Replaced; n < 2 {
		t.Errorf("Stats().Replaced = %d after two fail-overs, want 2 at least", n)
	}
}

// sentinelLoses lets the replica take over without the last writes of the primary,
// which follows it then.
func sentinelLoses(t *testing.T, w *rig.Watched) {
	t.Helper()
	old := w.Primary(t)
	young := w.Servers[0]
	if young == old {
		young = w.Servers[1]
	}
	young.Freeze()
	old.Must(t, "CLIENT", "KILL", "TYPE", "replica") // what it sends now never arrives
	rest(t.Context(), 300*time.Millisecond)
	old.Freeze()
	young.Thaw()
	rig.Until(t, "the sentinels have elected", func() error {
		if w.Primary(t) != young {
			return errors.New("not yet")
		}
		return young.Says("replication", "role:master")
	})
	rest(t.Context(), 300*time.Millisecond)
	old.Thaw()
	rig.Until(t, "the old primary follows", func() error {
		return errors.Join(old.Says("replication", "role:slave"), old.Says("replication", "master_link_status:up"))
	})
}
