package clients

import (
	"context"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/throttle-go/throttle/throttleredis"
)

// Valkey makes a Do of a client of valkey-go, for a single server or a Cluster.
func Valkey(c valkey.Client) throttleredis.Do {
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

// ValkeyOptions returns the options for a single server or, with several
// addresses, a Cluster.
func ValkeyOptions(addrs ...string) valkey.ClientOption {
	o := valkey.ClientOption{
		InitAddress:      addrs,
		DisableCache:     true,
		ConnWriteTimeout: 200 * time.Millisecond, // after which a frozen server is given up
		ClusterOption:    valkey.ClusterOption{ShardsRefreshInterval: 500 * time.Millisecond},
	}
	o.Dialer.Timeout, o.Dialer.KeepAlive = 200*time.Millisecond, 200*time.Millisecond
	return o
}
