package rig

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/gomodule/redigo/redis"
)

// NodeTimeout is the cluster-node-timeout of clusters, in milliseconds: a master
// that is not heard of for so long counts as dead.
const NodeTimeout = 1000

const (
	masters = 3
	nodes   = 2 * masters
	slots   = 16384
)

// Clustered is a Redis Cluster of three masters with a replica each.
type Clustered struct {
	// Nodes are the masters at the start, and then their replicas in the same
	// order.
	Nodes [nodes]*Node

	// clients and buses are the proxies before each node, or nil: see
	// [ProxiedCluster].
	clients, buses [nodes]*Proxy
}

// Cluster starts a cluster in some 2.5 s.
func Cluster(t testing.TB, args ...string) *Clustered {
	t.Helper()
	return cluster(t, redisServer, false, args)
}

// ValkeyCluster starts a cluster as Cluster does, with valkey-server.
func ValkeyCluster(t testing.TB, args ...string) *Clustered {
	t.Helper()
	return cluster(t, valkeyServer, false, args)
}

// ProxiedCluster starts a cluster whose nodes announce, to each other too, the
// addresses of proxies, so that [Clustered.Part] can take one away from the
// rest. Addrs are those of the proxies, Nodes[i].Addr goes straight to a node.
func ProxiedCluster(t testing.TB, args ...string) *Clustered {
	t.Helper()
	return cluster(t, redisServer, true, args)
}

// SharedCluster returns one cluster for all tests of the binary that ask for it.
// It is whole when it is given out, whatever was done to its nodes before; keys
// of others may be in it.
func SharedCluster(t testing.TB) *Clustered {
	t.Helper()
	c, err := sharedCluster()
	check(t, err)
	c.Mend(t)
	return c
}

var sharedCluster = sync.OnceValues(func() (*Clustered, error) {
	return again(func() (*Clustered, error) { return startCluster(redisServer, false, nil) })
})

func cluster(t testing.TB, find func() (string, error), proxied bool, args []string) *Clustered {
	t.Helper()
	c, err := again(func() (*Clustered, error) { return startCluster(find, proxied, args) })
	check(t, err)
	t.Cleanup(c.remove)
	Until(t, "the cluster is whole", c.whole)
	return c
}

func (c *Clustered) remove() {
	for i, n := range c.Nodes {
		if n != nil {
			n.remove()
		}
		if c.clients[i] != nil {
			c.clients[i].Close()
			c.buses[i].Close()
		}
	}
}

func startCluster(find func() (string, error), proxied bool, args []string) (c *Clustered, err error) {
	c = new(Clustered)
	defer func() {
		if err != nil {
			c.remove()
		}
	}()
	var own, told [nodes]address
	for i := range own {
		if own[i], err = freeAddress(); err != nil {
			return c, err
		}
		told[i] = own[i]
		if !proxied {
			continue
		}
		if c.clients[i], err = startProxy(local(own[i].port)); err != nil {
			return c, err
		}
		if c.buses[i], err = startProxy(local(own[i].bus)); err != nil {
			return c, err
		}
		told[i] = address{c.clients[i].Port, c.buses[i].Port}
	}
	shards, err := keepsShards(find)
	if err != nil {
		return c, err
	}
	for i := range c.Nodes {
		all := []string{
			"--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-port", fmt.Sprint(own[i].bus),
			"--cluster-node-timeout", fmt.Sprint(NodeTimeout), "--cluster-replica-validity-factor", "0",
			"--cluster-announce-ip", "127.0.0.1", "--cluster-announce-port", fmt.Sprint(told[i].port),
			"--cluster-announce-bus-port", fmt.Sprint(told[i].bus), "--bind-source-addr", source(i).String(),
		}
		p := plan{find: find, port: own[i].port, args: volatile(append(all, args...)...)}
		p.files = map[string]string{"nodes.conf": table(i, told, shards)}
		if c.Nodes[i], err = p.start(); err != nil {
			return c, err
		}
	}
	return c, nil
}

// source is the address from which a node connects to others.
func source(i int) netip.Addr { return netip.AddrFrom4([4]byte{127, 0, 1, byte(i + 1)}) }

// An address is the ports of a node, for clients and for other nodes.
type address struct{ port, bus int }

func freeAddress() (a address, err error) {
	if a.port, err = port(); err == nil {
		a.bus, err = port()
	}
	return a, err
}

// name is the name of a node.
func name(i int) string { return fmt.Sprintf("%040d", i+1) }

// table is what a node finds in its nodes.conf: a cluster it has always been
// in. So none has to be made, and the nodes agree as soon as they have met.
func table(myself int, at [nodes]address, shards bool) string {
	var b strings.Builder
	for i, a := range at {
		flags, of, owns, epoch, shard := "master", "-", "", i+1, ""
		if i < masters {
			owns = fmt.Sprintf(" %d-%d", i*slots/masters, (i+1)*slots/masters-1)
		} else {
			flags, of, epoch = "slave", name(i-masters), i-masters+1
		}
		if i == myself {
			flags = "myself," + flags
		}
		if shards {
			shard = ",,shard-id=" + name(i%masters)
		}
		fmt.Fprintf(&b, "%s 127.0.0.1:%d@%d%s %s %s 0 0 %d connected%s\n", name(i), a.port, a.bus, shard, flags, of, epoch, owns)
	}
	fmt.Fprintf(&b, "vars currentEpoch %d lastVoteEpoch 0\n", masters)
	return b.String()
}

// whole is nil if each node knows all, all slots are served, all agree by
// whom, in whatever way they are asked, and the replicas follow.
func (c *Clustered) whole() error {
	var agreed string
	var replicas int
	for _, n := range c.Nodes {
		for _, line := range []string{
			"cluster_state:ok", fmt.Sprintf("cluster_known_nodes:%d", nodes), fmt.Sprintf("cluster_size:%d", masters),
			fmt.Sprintf("cluster_slots_ok:%d", slots),
		} {
			if err := n.Says("cluster", line); err != nil {
				return err
			}
		}
		view, err := c.view(n)
		if err != nil {
			return err
		}
		if agreed == "" {
			agreed = view
		}
		if view != agreed {
			return fmt.Errorf("%s says%s, and another%s", n.Addr, view, agreed)
		}
		if err := sharded(n); err != nil {
			return err
		}
		if n.Says("replication", "role:slave") == nil {
			replicas++
			if err := n.follows(); err != nil {
				return err
			}
		}
	}
	if replicas != nodes-masters {
		return fmt.Errorf("%d nodes are replicas, want %d", replicas, nodes-masters)
	}
	return nil
}

// view is which node serves which slots, as a node has it.
func (c *Clustered) view(n *Node) (text string, err error) {
	ranges, err := redis.Values(n.Do("CLUSTER", "SLOTS"))
	for _, r := range ranges {
		master, replica := c.servers(r)
		if replica < 0 {
			return "", fmt.Errorf("%s knows no replica of node %d", n.Addr, master)
		}
		if fields, _ := redis.Values(r, nil); len(fields) > 1 {
			text += fmt.Sprintf(" %v-%v: %d, %d", fields[0], fields[1], master, replica)
		}
	}
	return text, err
}

// Mend thaws what is frozen, starts what was killed, joins what was parted and
// waits until the cluster is whole.
func (c *Clustered) Mend(t testing.TB) {
	t.Helper()
	for i, n := range c.Nodes {
		n.Thaw()
		if c.buses[i] != nil {
			c.buses[i].Heal()
			c.clients[i].Heal()
		}
		if !n.Running() {
			n.Restart(t)
		}
	}
	Until(t, "the cluster is whole", c.whole)
}

// Part takes node i of a [ProxiedCluster] away from the others, and from the
// clients that come through its proxy: nothing passes until Mend. Those that go
// straight to its address stay with it.
func (c *Clustered) Part(i int) {
	for j := range c.Nodes {
		var f Fault
		if j != i {
			f.From = source(i)
		}
		f.Stall = true
		c.clients[j].Set(f)
		c.buses[j].Set(f)
	}
}

// Addrs returns the addresses of all nodes for clients to use.
func (c *Clustered) Addrs() (all []string) {
	for i, n := range c.Nodes {
		if p := c.clients[i]; p != nil {
			all = append(all, p.Addr)
		} else {
			all = append(all, n.Addr)
		}
	}
	return all
}

// Owner returns which node serves a key as its master, as most nodes have it,
// and which replica of it follows, or -1.
func (c *Clustered) Owner(t testing.TB, key string) (master, replica int) {
	t.Helper()
	for i := range c.Nodes {
		if master, replica, err := c.OwnerBy(i, key); err == nil {
			return master, replica
		}
	}
	t.Fatalf("rig: no node knows who serves %q", key)
	return 0, 0
}

// OwnerBy returns what Owner does, as node i has it.
func (c *Clustered) OwnerBy(i int, key string) (master, replica int, err error) {
	n := c.Nodes[i]
	slot, err := redis.Int(n.Do("CLUSTER", "KEYSLOT", key))
	if err != nil {
		return 0, 0, err
	}
	ranges, err := redis.Values(n.Do("CLUSTER", "SLOTS"))
	if err != nil {
		return 0, 0, err
	}
	for _, r := range ranges {
		fields, _ := redis.Values(r, nil)
		ends, err := redis.Ints(fields[:min(2, len(fields))], nil)
		if err != nil || len(ends) < 2 || slot < ends[0] || slot > ends[1] {
			continue
		}
		if master, replica = c.servers(r); master >= 0 {
			return master, replica, nil
		}
	}
	return 0, 0, errors.New("nobody serves it")
}

// MoveSlot moves the hash slot of a key to the master that is node to, while
// it is in use, as redis-cli --cluster reshard does, and waits until all nodes
// know.
func (c *Clustered) MoveSlot(t testing.TB, key string, to int) {
	t.Helper()
	slot := c.Nodes[to].Must(t, "CLUSTER", "KEYSLOT", key)
	from, _ := c.Owner(t, key)
	source, target := c.Nodes[from], c.Nodes[to]
	target.Must(t, "CLUSTER", "SETSLOT", slot, "IMPORTING", name(from))
	source.Must(t, "CLUSTER", "SETSLOT", slot, "MIGRATING", name(to))
	for {
		keys, err := redis.Strings(source.Do("CLUSTER", "GETKEYSINSLOT", slot, 100))
		if err != nil {
			t.Fatal("rig:", err)
		}
		if len(keys) == 0 {
			break
		}
		for _, key := range keys {
			source.Must(t, "MIGRATE", "127.0.0.1", target.Port, key, 0, 5000)
		}
	}
	for _, n := range []*Node{target, source} {
		n.Must(t, "CLUSTER", "SETSLOT", slot, "NODE", name(to))
	}
	Until(t, "the nodes agree", c.whole)
}

// Migrate moves the hash slot of a key to the master that is node to, as Valkey 9
// does by itself, all its keys at once, and waits until all nodes know.
func (c *Clustered) Migrate(t testing.TB, key string, to int) {
	t.Helper()
	slot := c.Nodes[to].Must(t, "CLUSTER", "KEYSLOT", key)
	from, _ := c.Owner(t, key)
	c.Nodes[from].Must(t, "CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", name(to))
	Until(t, "the slot is moved", func() error {
		if at, _, err := c.OwnerBy(to, key); err != nil || at != to {
			return fmt.Errorf("node %d has it: %w", at, err)
		}
		return c.whole()
	})
}

// servers are the master and the replica, or -1, of a range of CLUSTER SLOTS.
func (c *Clustered) servers(r any) (master, replica int) {
	fields, _ := redis.Values(r, nil)
	master, replica = -1, -1
	if len(fields) > 2 {
		master = c.named(fields[2])
	}
	if len(fields) > 3 {
		replica = c.named(fields[3])
	}
	return master, replica
}

// named is which node a reply of CLUSTER SLOTS means.
func (c *Clustered) named(v any) int {
	fields, err := redis.Values(v, nil)
	if err != nil || len(fields) < 3 {
		return -1
	}
	id, _ := redis.String(fields[2], nil)
	for i := range c.Nodes {
		if id == name(i) {
			return i
		}
	}
	return -1
}
