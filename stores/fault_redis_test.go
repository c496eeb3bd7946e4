package stores

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/stores/rig"
	"github.com/throttle-go/throttle/throttleredis"
)

// doFunc is how a store asks Redis.
type doFunc = throttleredis.Do

// quick is how long a client waits for a connection or an answer before it
// takes the other side for dead.
const quick = 200 * time.Millisecond

// fence is in the name of every key of a store with one slot.
const fence = "{0}"

// redisStore is a store for a Redis that is replaced by another when it fails.
func redisStore(do doFunc) throttle.Store {
	return &throttleredis.Store{Do: do, Overlap: overlap}
}

// overlap is how long a master that was replaced may go on.
const overlap = rig.NodeTimeout*time.Millisecond + time.Second

// cluster is a client with the settings that recover quickly: by default
// go-redis asks for the nodes of a cluster once a minute, tries a dead one five
// times and does not heed deadlines.
func clusterDo(t testing.TB, addrs []string) doFunc {
	c := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: addrs, ContextTimeoutEnabled: true, ClusterStateReloadInterval: time.Second,
		DialerRetries: 1, DialTimeout: quick, ReadTimeout: quick, WriteTimeout: quick,
	})
	t.Cleanup(func() { c.Close() })
	return func(ctx context.Context, args ...any) (any, error) { return c.Do(ctx, args...).Result() }
}

// singleDo is a client of one server that charges nothing twice: by default
// go-redis sends again what it has no answer to.
func singleDo(t testing.TB, addr string) doFunc {
	c := redis.NewClient(&redis.Options{
		Addr: addr, ContextTimeoutEnabled: true, MaxRetries: -1,
		DialerRetries: 1, DialTimeout: quick, ReadTimeout: quick, WriteTimeout: quick,
	})
	t.Cleanup(func() { c.Close() })
	return func(ctx context.Context, args ...any) (any, error) { return c.Do(ctx, args...).Result() }
}

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
func back(t *testing.T, s throttle.Store, key string) {
	t.Helper()
	rig.Until(t, "the store answers", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), tight)
		defer cancel()
		_, err := throttle.Take(ctx, s, key, perMinute, 0)
		return err
	})
}

// takenOver waits until another node than before serves the keys, and returns
// when it was so.
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

const recovery = rig.NodeTimeout*time.Millisecond + 2*time.Second

func TestFaultCluster(t *testing.T) {
	t.Parallel()
	c := rig.SharedCluster(t)
	for name, fault := range map[string]func(*testing.T, *rig.Clustered, throttle.Store){
		"killed":    faultKilled,
		"frozen":    faultFrozen,
		"planned":   faultPlanned,
		"scripts":   faultScripts,
		"resharded": faultResharded,
	} {
		t.Run(name, func(t *testing.T) {
			c.Mend(t)
			fault(t, c, redisStore(clusterDo(t, c.Addrs())))
		})
	}
}

// faultKilled: calls fail in time while the cluster elects, then the replica
// decides.
func faultKilled(t *testing.T, c *rig.Clustered, s throttle.Store) {
	key := "killed"
	master, replica := c.Owner(t, fence)
	back(t, s, key)
	l := load{store: s, keys: []string{key}, limit: perMinute, callers: 8, deadline: tight}
	var killed, elected time.Time
	got := l.run(t, func() {
		rest(t.Context(), 500*time.Millisecond)
		c.Nodes[master].Kill()
		killed = time.Now()
		elected = takenOver(t, c, replica)
		back(t, s, key)
		rest(t.Context(), 300*time.Millisecond)
	})
	recovered(t, got, killed, elected)
	got.inTime(t, tight)
	got.within(t, perMinute, 0)
}

// recovered checks how long a fail-over took.
func recovered(t *testing.T, got calls, since, elected time.Time) {
	t.Helper()
	d, failed, err := got.outage(t, since)
	if d > recovery+got.slack() {
		t.Errorf("no answer for %v after the fault, want at most %v + %v; the cluster had elected after %v; %d calls failed, the last with: %v",
			d, recovery, got.slack(), elected.Sub(since), failed, err)
	}
	t.Logf("elected after %v, answers after %v, %d calls failed, the last with: %v", elected.Sub(since), d, failed, err)
}

// faultFrozen: as killed, and what the old master does when it wakes up does
// not count.
func faultFrozen(t *testing.T, c *rig.Clustered, s throttle.Store) {
	key := "frozen"
	master, replica := c.Owner(t, fence)
	back(t, s, key)
	l := load{store: s, keys: []string{key}, limit: perMinute, callers: 8, deadline: tight}
	var frozen, elected time.Time
	got := l.run(t, func() {
		rest(t.Context(), 20*time.Millisecond) // some of the burst is left
		c.Nodes[master].Freeze()
		frozen = time.Now()
		elected = takenOver(t, c, replica)
		rest(t.Context(), time.Until(frozen.Add(4*time.Second)))
		c.Nodes[master].Thaw()
		back(t, s, key)
		rest(t.Context(), 500*time.Millisecond)
	})
	recovered(t, got, frozen, elected)
	got.inTime(t, tight)
	got.within(t, perMinute, 0)
}

// faultPlanned: nobody notices.
func faultPlanned(t *testing.T, c *rig.Clustered, s throttle.Store) {
	key := "planned"
	_, replica := c.Owner(t, fence)
	back(t, s, key)
	l := load{store: s, keys: []string{key}, limit: perMinute, callers: 8, deadline: sure}
	got := l.run(t, func() {
		rest(t.Context(), 100*time.Millisecond)
		c.Nodes[replica].Must(t, "CLUSTER", "FAILOVER")
		takenOver(t, c, replica)
		rest(t.Context(), 200*time.Millisecond)
	})
	unnoticed(t, got)
	got.within(t, perMinute, 0)
}

// unnoticed checks that no call failed, nor waited much.
func unnoticed(t *testing.T, got calls) {
	t.Helper()
	if n, some := got.failures(); n > 0 {
		t.Errorf("%d of %d calls failed, want none:%s", n, len(got.all), some)
	}
	if want := 250*time.Millisecond + got.slack(); got.gap() > want {
		t.Errorf("no answer for %v, want at most %v", got.gap(), want)
	}
	t.Logf("%d calls, no answer for at most %v", len(got.all), got.gap())
}

// faultScripts: SCRIPT FLUSH, again and again.
func faultScripts(t *testing.T, c *rig.Clustered, s throttle.Store) {
	l := load{store: s, keys: []string{"a", "b", "c", "d", "e"}, limit: perMinute, callers: 10, deadline: sure}
	got := l.run(t, func() {
		for range 50 {
			for _, n := range c.Nodes {
				if n.Says("replication", "role:master") == nil {
					n.Must(t, "SCRIPT", "FLUSH")
				}
			}
		}
	})
	unnoticed(t, got)
	got.within(t, perMinute, 0)
}

// faultResharded: the slot of all keys moves to another master and back.
func faultResharded(t *testing.T, c *rig.Clustered, s throttle.Store) {
	back(t, s, "resharded")
	from, _ := c.Owner(t, fence)
	to := slices.IndexFunc(c.Nodes[:], func(n *rig.Node) bool { return n != c.Nodes[from] && n.Says("replication", "role:master") == nil })
	l := load{store: s, keys: []string{"resharded", "a", "b", "c"}, limit: perMinute, callers: 8, deadline: sure}
	got := l.run(t, func() {
		for range 6 {
			c.MoveSlot(t, fence, to)
			from, to = to, from
		}
	})
	unnoticed(t, got)
	got.within(t, perMinute, 0)
}
