package integration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/integration/rig"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/store"
	"github.com/throttle-go/throttle/throttleredis"
)

// refusals make a server answer, and decide nothing, by the word of its error.
var refusals = map[string]func(t *testing.T, n *rig.Node){
	"READONLY":   func(t *testing.T, n *rig.Node) { redisFollow(t, n, rig.NewProxy(t, n.Addr).Port) },
	"NOREPLICAS": func(t *testing.T, n *rig.Node) { n.Must(t, "CONFIG", "SET", "min-replicas-to-write", "1") },
	"OOM":        func(t *testing.T, n *rig.Node) { n.Must(t, "CONFIG", "SET", "maxmemory", "1") },
	"BUSY": func(t *testing.T, n *rig.Node) {
		n.Must(t, "CONFIG", "SET", "busy-reply-threshold", "1")
		go n.Do("EVAL", "for i = 1, 1e13 do end", 0) // for two seconds at most, and until the server ends
		t.Cleanup(func() { n.Do("SCRIPT", "KILL") })
	},
	"LOADING": func(t *testing.T, n *rig.Node) {
		n.Must(t, "EVAL", "for i = 1, 10000 do redis.call('SET', i, i) end", 0)
		n.Must(t, "SAVE")
		n.Must(t, "CONFIG", "SET", "key-load-delay", "500", "loading-process-events-interval-bytes", "1024")
		go n.Do("DEBUG", "RELOAD", "NOSAVE")
	},
}

// TestFaultRefuses: a replica, a server that loads its data, that lacks a replica it
// must have, that is full or runs a script without end:
// the error has the word of Redis and nothing was charged, through each client.
func TestFaultRefuses(t *testing.T) {
	t.Parallel()
	for name, start := range redisStarts {
		for word, refuse := range refusals {
			t.Run(name+"/"+word, func(t *testing.T) {
				t.Parallel()
				node := start(t, "--enable-debug-command", "yes")
				all := redisClients(t, node.Addr)
				for client, do := range all {
					redisTake(t, &throttleredis.Store{Do: do}, limit.Ask{Key: client, Limit: perMinute, N: 1})
				}
				refuse(t, node)
				for client, do := range all {
					s := &throttleredis.Store{Do: do}
					rig.Until(t, "the server refuses", func() error {
						ctx, cancel := context.WithTimeout(t.Context(), time.Second)
						defer cancel()
						_, err := store.Take(ctx, s, client, perMinute, 1)
						if err == nil || !strings.Contains(err.Error(), word) {
							return fmt.Errorf("%s: %v", client, err)
						}
						nothingCharged(t, err, word)
						return nil
					})
				}
			})
		}
	}
}

// faultDown: a master and its replica are killed, so that their slots have nobody,
// and started again without their data.
func faultDown(t *testing.T, c *rig.Clustered) {
	master, replica := c.Owner(t, fence)
	hourly := limit.Limit{Count: 1000, Period: time.Hour}
	l := load{keys: []string{"down"}, limit: hourly, callers: 3, deadline: tight}
	all := clusterStores(t, c.Addrs(), quick)
	runAll(t, all, l, func() {
		rest(t.Context(), 300*time.Millisecond)
		c.Nodes[replica].Kill()
		c.Nodes[master].Kill()
		rig.Until(t, "the cluster is down", func() error {
			for i, n := range c.Nodes {
				if i != master && i != replica {
					return n.Says("cluster", "cluster_state:fail")
				}
			}
			return errors.New("no node is left")
		})
		rest(t.Context(), 300*time.Millisecond)
		c.Mend(t)
		for _, s := range all {
			back(t, s)
		}
		rest(t.Context(), 300*time.Millisecond)
	}, func(t *testing.T, got calls) {
		if n, some := got.failures(); n == 0 || !strings.Contains(some, "nothing was charged: CLUSTERDOWN") {
			t.Errorf("%d calls failed:%s\nwant some as the cluster is down, and that charged nothing", n, some)
		}
	})
}
