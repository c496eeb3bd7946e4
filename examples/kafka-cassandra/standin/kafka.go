package standin

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kfake"
)

// Kafka starts a broker in this process, with topics of so many partitions. Its
// groups, rebalances and commits are as those of a real one.
func Kafka(partitions int32, topics ...string) (addr string, stop func(), err error) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, topics...))
	if err != nil {
		return "", nil, fmt.Errorf("standin: starting Kafka: %w", err)
	}
	return c.ListenAddrs()[0], c.Close, nil
}
