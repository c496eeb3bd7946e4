package rig

import (
	"fmt"
	"net"
	"testing"

	"github.com/gomodule/redigo/redis"
)

// Watched is a primary, a replica, and sentinels that promote the replica when
// most of them have not heard of the primary for a second.
type Watched struct {
	// Name is the sentinels' name of the primary.
	Name      string
	Servers   [2]*Node // at the start the primary is the first
	Sentinels []*Node
}

// Sentinel starts a primary and a replica and so many sentinels.
func Sentinel(t testing.TB, sentinels int) *Watched {
	t.Helper()
	primary := Redis(t)
	w := &Watched{Name: "primary", Servers: [2]*Node{primary, Redis(t, follow(primary.Port)...)}}
	Until(t, "the replica follows", w.Servers[1].follows)
	for range sentinels {
		w.Sentinels = append(w.Sentinels, server(t, plan{
			find: redisServer, args: []string{"sentinel.conf", "--sentinel"},
			files: map[string]string{"sentinel.conf": fmt.Sprintf(
				"sentinel monitor %[1]s 127.0.0.1 %[2]d %[3]d\nsentinel down-after-milliseconds %[1]s 1000\n"+
					"sentinel failover-timeout %[1]s 3000\n", w.Name, primary.Port, sentinels/2+1)},
		}))
	}
	Until(t, "the sentinels know each other", func() error {
		for _, s := range w.Sentinels {
			if err := s.Says("sentinel", fmt.Sprintf("slaves=1,sentinels=%d", sentinels)); err != nil {
				return err
			}
		}
		return nil
	})
	return w
}

// Addrs returns the addresses of the sentinels.
func (w *Watched) Addrs() (all []string) {
	for _, s := range w.Sentinels {
		all = append(all, s.Addr)
	}
	return all
}

// Primary returns the primary according to the first sentinel that answers.
func (w *Watched) Primary(t testing.TB) *Node {
	t.Helper()
	for _, s := range w.Sentinels {
		at, err := redis.Strings(s.Do("SENTINEL", "get-master-addr-by-name", w.Name))
		if err != nil || len(at) != 2 {
			continue
		}
		for _, n := range w.Servers {
			if n.Addr == net.JoinHostPort(at[0], at[1]) {
				return n
			}
		}
	}
	t.Fatal("rig: no sentinel knows the primary")
	return nil
}
