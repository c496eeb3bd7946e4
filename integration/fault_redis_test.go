package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/valkey-io/valkey-go"

	"github.com/throttle-go/throttle/integration/clients"
	"github.com/throttle-go/throttle/integration/rig"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/store"
	"github.com/throttle-go/throttle/throttleredis"
)

// fence is in the name of every key of a store with one slot.
const fence = "{0}"

// overlap is how long a master that was replaced may go on.
const overlap = rig.NodeTimeout*time.Millisecond + time.Second

// often is how often clients look at what the nodes of a cluster say of it, and
// whether their connections are alive.
const often = 500 * time.Millisecond

// clusterStores are a store for each client that knows clusters. They share no
// keys, but all of theirs are in one hash slot. For so long a connection may
// show no sign of being alive: quick, or sure where nothing is to fail.
func clusterStores(t *testing.T, addrs []string, alive time.Duration) map[string]*throttleredis.Store {
	t.Helper()
	forGoRedis := clients.GoRedisClusterOptions(addrs...)
	forGoRedis.ClusterStateReloadInterval = often
	forGoRedis.DialTimeout, forGoRedis.ReadTimeout, forGoRedis.WriteTimeout = alive, alive, alive
	g := redis.NewClusterClient(forGoRedis)
	t.Cleanup(func() { g.Close() })
	forRueidis := clients.RueidisOptions(addrs...)
	forRueidis.ClusterOption.ShardsRefreshInterval = often
	forRueidis.ConnWriteTimeout, forRueidis.Dialer.KeepAlive, forRueidis.Dialer.Timeout = alive, quick, alive
	r := connected(t, func() (rueidis.Client, error) { return rueidis.NewClient(forRueidis) })
	t.Cleanup(r.Close)
	forValkey := clients.ValkeyOptions(addrs...)
	forValkey.ClusterOption.ShardsRefreshInterval = often
	forValkey.ConnWriteTimeout, forValkey.Dialer.KeepAlive, forValkey.Dialer.Timeout = alive, quick, alive
	v := connected(t, func() (valkey.Client, error) { return valkey.NewClient(forValkey) })
	t.Cleanup(v.Close)
	all := map[string]*throttleredis.Store{}
	for name, do := range map[string]throttleredis.Do{
		"go-redis": clients.GoRedis(g), "rueidis": clients.Rueidis(r), "valkey-go": clients.Valkey(v),
	} {
		all[name] = &throttleredis.Store{Do: do, Prefix: t.Name() + name, Overlap: overlap}
		back(t, all[name])
	}
	return all
}

// connected is a client that connects when it is made.
func connected[T any](t *testing.T, connect func() (T, error)) (c T) {
	t.Helper()
	rig.Until(t, "a client has connected", func() (err error) {
		c, err = connect()
		return err
	})
	return c
}

// quickDo is a client of one server.
func quickDo(t testing.TB, addr string) throttleredis.Do {
	c := redis.NewClient(clients.GoRedisOptions(addr))
	t.Cleanup(func() { c.Close() })
	return clients.GoRedis(c)
}

// quick is how long a connection may take to be made or to show that it is
// alive.
const quick = 200 * time.Millisecond

// perMinute is what most faults are tried with: a second's refill is small
// against the burst, so that a burst too many shows.
var perMinute = limit.Limit{Count: 1000, Period: time.Minute}

// sure is a deadline that no call should need.
const sure = 10 * time.Second

// tight is a deadline that calls to a dead server will reach.
const tight = 100 * time.Millisecond

// slack is what a bound on a duration is exceeded by on a machine where timers
// are late.
func (c calls) slack() time.Duration {
	d := 20 * c.late
	if raced {
		d += 20 * time.Second
	}
	return d
}

// back waits until the store answers.
func back(t *testing.T, s store.Store) {
	t.Helper()
	rig.Until(t, "the store answers", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), tight)
		defer cancel()
		_, err := store.Take(ctx, s, "back", perMinute, 0)
		return err
	})
}

// takenOver waits until the replica serves the keys, and returns when it was so.
func takenOver(t *testing.T, c *rig.Clustered, replica int) time.Time {
	t.Helper()
	rig.Until(t, "the replica is master", func() error {
		if got, _, err := c.OwnerBy(replica, fence); err != nil || got != replica {
			return errors.Join(fmt.Errorf("node %d is", got), err)
		}
		return nil
	})
	return time.Now()
}

// recovery is how long a cluster may take to answer again.
const recovery = rig.NodeTimeout*time.Millisecond + 2*time.Second

// recovered checks how long a fail-over took.
func (c calls) recovered(t *testing.T, since, elected time.Time) {
	t.Helper()
	d, failed, err := c.outage(t, since)
	want := max(recovery, elected.Sub(since)+time.Second) + c.slack() // a busy cluster elects late
	if d > want {
		t.Errorf("no answer for %v after the fault, want at most %v; the cluster had elected after %v; %d calls failed, the last with: %v",
			d, want, elected.Sub(since), failed, err)
	}
	t.Logf("elected after %v, answers after %v, %d calls failed, the last with: %v", elected.Sub(since), d, failed, err)
}

// unnoticed checks that no call failed, nor waited much.
func (c calls) unnoticed(t *testing.T) {
	t.Helper()
	if n, some := c.failures(); n > 0 {
		t.Errorf("%d of %d calls failed, want none:%s", n, len(c.all), some)
	}
	if want := 250*time.Millisecond + c.slack(); c.gap() > want {
		t.Errorf("no answer for %v, want at most %v", c.gap(), want)
	}
	t.Logf("%d calls, no answer for at most %v", len(c.all), c.gap())
}

// runAll keeps up a load on each store while during runs, and then checks each.
// If the load has a tight deadline another load is on a guard before each store,
// which is to keep to it whatever the client does.
func runAll(t *testing.T, all map[string]*throttleredis.Store, l load, during func(), check func(*testing.T, calls)) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	start := func(s store.Store, key string, deadline time.Duration) *calls {
		one, got := l, new(calls)
		one.store, one.keys, one.deadline = s, append([]string{key}, l.keys[1:]...), deadline
		running.Go(func() { *got = one.run(t, func() { <-ctx.Done() }) })
		return got
	}
	bare, guarded := map[string]*calls{}, map[string]*calls{}
	for name, s := range all {
		bare[name] = start(s, l.keys[0], l.deadline)
		if l.deadline == tight {
			guarded[name] = start(&store.Guard{Store: s, Timeout: tight, Fallback: store.FallbackDeny}, "guarded", sure)
		}
	}
	func() {
		defer running.Wait()
		defer stop()
		during()
	}()
	for name, c := range bare {
		t.Run(name, func(t *testing.T) {
			check(t, *c)
			c.within(t, l.limit, 0)
			if g := guarded[name]; g != nil {
				g.inTime(t, tight)
				g.within(t, l.limit, 0)
				if n, some := g.failures(); n > 0 {
					t.Errorf("%d guarded calls failed:%s", n, some)
				}
			}
		})
	}
}

func TestFaultCluster(t *testing.T) {
	t.Parallel()
	c := rig.SharedCluster(t)
	for name, fault := range map[string]func(*testing.T, *rig.Clustered){
		"killed": faultKilled, "frozen": faultFrozen, "planned": faultPlanned, "flushed": faultFlushed, "moved": faultMoved, "down": faultDown,
	} {
		t.Run(name, func(t *testing.T) {
			c.Mend(t)
			fault(t, c)
		})
	}
}

// faultKilled: calls fail in time while the cluster elects, then the replica
// decides.
func faultKilled(t *testing.T, c *rig.Clustered) {
	master, replica := c.Owner(t, fence)
	l := load{keys: []string{"killed"}, limit: perMinute, callers: 3, deadline: tight}
	all := clusterStores(t, c.Addrs(), quick)
	var killed, elected time.Time
	runAll(t, all, l, func() {
		rest(t.Context(), 500*time.Millisecond)
		c.Nodes[master].Kill()
		killed = time.Now()
		elected = takenOver(t, c, replica)
		for _, s := range all {
			back(t, s)
		}
		rest(t.Context(), 300*time.Millisecond)
	}, func(t *testing.T, got calls) {
		got.recovered(t, killed, elected)
	})
}

// faultFrozen: as killed, and what the old master does when it wakes up does
// not count.
func faultFrozen(t *testing.T, c *rig.Clustered) {
	master, replica := c.Owner(t, fence)
	l := load{keys: []string{"frozen"}, limit: perMinute, callers: 3, deadline: tight}
	all := clusterStores(t, c.Addrs(), quick)
	var frozen, elected time.Time
	runAll(t, all, l, func() {
		rest(t.Context(), 20*time.Millisecond) // some of the burst is left
		c.Nodes[master].Freeze()
		frozen = time.Now()
		elected = takenOver(t, c, replica)
		rest(t.Context(), time.Until(frozen.Add(4*time.Second)))
		c.Nodes[master].Thaw()
		for _, s := range all {
			back(t, s)
		}
		rest(t.Context(), 500*time.Millisecond)
	}, func(t *testing.T, got calls) {
		got.recovered(t, frozen, elected)
	})
}

// faultPlanned: nobody notices, and, as the store was told, no bucket is
// emptied.
func faultPlanned(t *testing.T, c *rig.Clustered) {
	_, replica := c.Owner(t, fence)
	_, about, _ := strings.Cut(c.Nodes[replica].Must(t, "INFO", "server"), "run_id:")
	process, _, _ := strings.Cut(about, "\r\n")
	l := load{keys: []string{"planned"}, limit: perMinute, callers: 4, deadline: sure}
	all := clusterStores(t, c.Addrs(), sure)
	runAll(t, all, l, func() {
		rest(t.Context(), 100*time.Millisecond)
		for _, s := range all {
			if err := s.Expect(t.Context(), process, time.Minute); err != nil {
				t.Error(err)
			}
		}
		c.Nodes[replica].Must(t, "CLUSTER", "FAILOVER")
		takenOver(t, c, replica)
		rest(t.Context(), 200*time.Millisecond)
	}, func(t *testing.T, got calls) {
		got.unnoticed(t)
	})
	for name, s := range all {
		if d, err := store.Take(t.Context(), s, "untouched", perMinute, 0); err != nil || d.Remaining < perMinute.Count {
			t.Errorf("%s: after a planned fail-over Take of none of a key never asked for = %+v, %v, want a full bucket", name, d, err)
		}
	}
}

// faultFlushed: SCRIPT FLUSH, again and again.
func faultFlushed(t *testing.T, c *rig.Clustered) {
	l := load{keys: []string{"a", "b", "c", "d", "e"}, limit: perMinute, callers: 5, deadline: sure}
	master, _ := c.Owner(t, fence)
	runAll(t, clusterStores(t, c.Addrs(), sure), l, func() {
		for range 50 {
			c.Nodes[master].Must(t, "SCRIPT", "FLUSH")
			rest(t.Context(), 2*pause)
		}
	}, func(t *testing.T, got calls) {
		got.unnoticed(t)
	})
}

// faultMoved: the slot of all keys moves to another master and back.
func faultMoved(t *testing.T, c *rig.Clustered) {
	from, _ := c.Owner(t, fence)
	to := slices.IndexFunc(c.Nodes[:], func(n *rig.Node) bool { return n != c.Nodes[from] && n.Says("replication", "role:master") == nil })
	l := load{keys: []string{"a", "b", "c", "d"}, limit: perMinute, callers: 4, deadline: sure}
	runAll(t, clusterStores(t, c.Addrs(), sure), l, func() {
		for range 6 {
			c.MoveSlot(t, fence, to)
			from, to = to, from
		}
	}, func(t *testing.T, got calls) {
		got.unnoticed(t)
	})
}

// TestSoakFaultCluster: one fault after another, in any order, for minutes.
func TestSoakFaultCluster(t *testing.T) {
	soak(t)
	c := rig.Cluster(t)
	all := clusterStores(t, c.Addrs(), quick)
	l := load{keys: []string{"soaked"}, limit: perMinute, callers: 2, deadline: tight}
	runAll(t, all, l, func() {
		for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); {
			master, replica := c.Owner(t, fence)
			rest(t.Context(), time.Duration(rand.Int64N(int64(time.Second))))
			switch rand.IntN(4) {
			case 0:
				c.Nodes[master].Kill()
				takenOver(t, c, replica)
			case 1:
				c.Nodes[master].Freeze()
				takenOver(t, c, replica)
				rest(t.Context(), time.Second)
			case 2:
				c.Nodes[master].Freeze() // not for long enough to be replaced
				rest(t.Context(), rig.NodeTimeout*time.Millisecond/2)
			case 3:
				c.Nodes[replica].Must(t, "CLUSTER", "FAILOVER")
				takenOver(t, c, replica)
			}
			c.Mend(t)
			for _, s := range all {
				back(t, s)
			}
		}
	}, func(*testing.T, calls) {})
}
