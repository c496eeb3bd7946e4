package clients

import (
	"context"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/throttle-go/throttle/throttleredis"
)

// Redigo makes a Do of a pool of redigo, which knows no Cluster.
func Redigo(pool *redis.Pool) throttleredis.Do {
	return func(ctx context.Context, args ...any) (any, error) {
		c, err := pool.GetContext(ctx)
		if err != nil {
			return nil, err
		}
		defer c.Close()
		return redis.DoContext(c, ctx, args[0].(string), args[1:]...)
	}
}

// RedigoPool returns a pool of connections to a single server.
func RedigoPool(addr string) *redis.Pool {
	return &redis.Pool{
		MaxActive: 64,
		MaxIdle:   64,
		Wait:      true,
		// Those that were closed while idle, as by a crash of the server, are
		// not handed out one after the other.
		TestOnBorrowContext: func(ctx context.Context, c redis.Conn, since time.Time) error {
			if time.Since(since) < time.Second {
				return nil
			}
			_, err := redis.DoContext(c, ctx, "PING")
			return err
		},
		DialContext: func(ctx context.Context) (redis.Conn, error) {
			return redis.DialContext(ctx, "tcp", addr,
				redis.DialConnectTimeout(200*time.Millisecond),
				redis.DialReadTimeout(200*time.Millisecond),
				redis.DialWriteTimeout(200*time.Millisecond))
		},
	}
}
