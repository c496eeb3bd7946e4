package clients

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/throttle-go/throttle/throttleredis"
)

// Rueidis makes a Do of a client of rueidis, for a single server or a Cluster.
func Rueidis(c rueidis.Client) throttleredis.Do {
	return func(ctx context.Context, args ...any) (any, error) {
		words := make([]string, len(args))
		for i := range args {
			words[i] = args[i].(string)
		}
		// The key says which node; the command is not known to be one that only
		// reads, so it is not repeated.
		cmd := c.B().Arbitrary(words[:3]...).Keys(words[3]).Args(words[4:]...).Build()
		return c.Do(ctx, cmd).ToAny()
	}
}

// RueidisOptions returns the options for a single server or, with several
// addresses, a Cluster.
func RueidisOptions(addrs ...string) rueidis.ClientOption {
	o := rueidis.ClientOption{
		InitAddress:      addrs,
		DisableCache:     true,
		ConnWriteTimeout: 200 * time.Millisecond, // after which a frozen server is given up
		ClusterOption:    rueidis.ClusterOption{ShardsRefreshInterval: 500 * time.Millisecond},
	}
	o.Dialer.Timeout, o.Dialer.KeepAlive = 200*time.Millisecond, 200*time.Millisecond
	return o
}
