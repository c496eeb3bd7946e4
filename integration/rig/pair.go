package rig

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
)

// Replicated is a primary and the replica that follows it through a proxy. A
// stall of Link makes the replica lag, and what is held back in it is lost when
// the replica is promoted.
type Replicated struct {
	Primary, Replica *Node
	Link             *Proxy
}

// RedisPair starts a primary and a replica, with the same arguments, and waits
// until the replica follows.
func RedisPair(t testing.TB, args ...string) *Replicated {
	t.Helper()
	return pair(t, Redis, args)
}

// ValkeyPair starts a pair as RedisPair does, with valkey-server.
func ValkeyPair(t testing.TB, args ...string) *Replicated {
	t.Helper()
	return pair(t, Valkey, args)
}

// Redis8Pair starts a pair as RedisPair does, of Redis 8.
func Redis8Pair(t testing.TB, args ...string) *Replicated {
	t.Helper()
	return pair(t, Redis8, args)
}

func pair(t testing.TB, start func(testing.TB, ...string) *Node, args []string) *Replicated {
	t.Helper()
	r := &Replicated{Primary: start(t, args...)}
	r.Link = NewProxy(t, r.Primary.Addr)
	r.Replica = start(t, append(follow(r.Link.Port), args...)...)
	Until(t, "the replica follows", r.Replica.follows)
	return r
}

func follow(port int) []string { return []string{"--replicaof", fmt.Sprintf("127.0.0.1 %d", port)} }

// Promote makes a replica a primary and waits until it says so.
func (n *Node) Promote(t testing.TB) {
	t.Helper()
	n.Must(t, "REPLICAOF", "NO", "ONE")
	Until(t, "the replica is a primary", func() error { return n.Says("replication", "role:master") })
}

// follows is nil for a replica that has all that its primary sends.
func (n *Node) follows() error { return n.Says("replication", "master_link_status:up") }

// Says returns nil if a section of INFO, or CLUSTER INFO, has a line.
func (n *Node) Says(section, line string) error {
	ask := []any{"INFO", section}
	if section == "cluster" {
		ask = []any{"CLUSTER", "INFO"}
	}
	text, err := redis.String(n.Do(ask...))
	if err == nil && !strings.Contains(text, line+"\r\n") {
		err = errors.New(n.Addr + " says no " + line)
	}
	return err
}

// InStep returns nil if the replica has all writes of the primary.
func (r *Replicated) InStep() error {
	text, err := redis.String(r.Primary.Do("INFO", "replication"))
	if err != nil {
		return err
	}
	_, offset, _ := strings.Cut(text, "master_repl_offset:")
	offset, _, _ = strings.Cut(offset, "\r\n")
	return r.Replica.Says("replication", "slave_repl_offset:"+offset)
}
