package standin

import (
	"context"
	"fmt"
	"net"

	"github.com/twmb/franz-go/pkg/kfake"
)

// Network is a network in memory, for tests in virtual time (testing/synctest).
// A nil one is the loopback.
type Network = kfake.VirtualNetwork

// Dial returns what connects in a network in memory, for the clients of both.
func Dial(n *Network) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := n.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return tcp{c}, nil
	}
}

// tcp has an address of TCP, as the driver of Cassandra wants one.
type tcp struct{ net.Conn }

func (tcp) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9042} }

// Kafka starts a broker in this process, with topics of so many partitions. Its
// groups, rebalances and commits are as those of a real one; sessions of members
// may be as short as half a second.
func Kafka(n *Network, partitions int32, topics ...string) (addr string, stop func(), err error) {
	o := []kfake.Opt{
		kfake.NumBrokers(1), kfake.SeedTopics(partitions, topics...),
		kfake.BrokerConfigs(map[string]string{"group.min.session.timeout.ms": "500"}),
	}
	if n != nil {
		o = append(o, kfake.Ports(9092), kfake.ListenFn(n.Listen))
	}
	c, err := kfake.NewCluster(o...)
	if err != nil {
		return "", nil, fmt.Errorf("standin: starting Kafka: %w", err)
	}
	return c.ListenAddrs()[0], c.Close, nil
}
