package clients

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/throttle-go/throttle/throttleredis"
)

// GoRedis makes a Do of a client or cluster client of go-redis.
func GoRedis(c redis.UniversalClient) throttleredis.Do {
	return func(ctx context.Context, args ...any) (any, error) {
		cmd := once{redis.NewCmd(ctx, args...)}
		_ = c.Process(ctx, cmd)
		return cmd.Result()
	}
}

// once is a command that is not repeated: it may have been carried out.
type once struct{ *redis.Cmd }

// NoRetry says so.
func (once) NoRetry() bool { return true }

// GoRedisOptions returns the options for a single server.
func GoRedisOptions(addr string) *redis.Options {
	return &redis.Options{
		Addr:                  addr,
		ContextTimeoutEnabled: true, // or the deadline of a Take has no say
		DialTimeout:           200 * time.Millisecond,
		ReadTimeout:           200 * time.Millisecond,
		WriteTimeout:          200 * time.Millisecond,
		DialerRetries:         1,
	}
}

// GoRedisClusterOptions returns the options for a Cluster. By default it would
// look for the new master of a slot only once a minute.
func GoRedisClusterOptions(addrs ...string) *redis.ClusterOptions {
	return &redis.ClusterOptions{
		Addrs:                      addrs,
		ClusterStateReloadInterval: 500 * time.Millisecond,
		ContextTimeoutEnabled:      true,
		DialTimeout:                200 * time.Millisecond,
		ReadTimeout:                200 * time.Millisecond,
		WriteTimeout:               200 * time.Millisecond,
		DialerRetries:              1,
	}
}

// GoRedisFailoverOptions returns the options for the master that sentinels know by
// a name. The client asks a sentinel while it connects to the master. It leaves one
// that does not answer if DialTimeout is above twice ReadTimeout for each try, of which
// MaxRetries leaves one; by default it stays with it for as long as that is frozen.
func GoRedisFailoverOptions(master string, sentinels ...string) *redis.FailoverOptions {
	return &redis.FailoverOptions{
		MasterName:            master,
		SentinelAddrs:         sentinels,
		ContextTimeoutEnabled: true,
		DialTimeout:           time.Second,
		ReadTimeout:           200 * time.Millisecond,
		WriteTimeout:          200 * time.Millisecond,
		DialerRetries:         1,
		MaxRetries:            -1,
	}
}
