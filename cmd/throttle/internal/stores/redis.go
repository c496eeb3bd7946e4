package stores

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/throttle-go/throttle/throttleredis"
)

// openRedis makes a client, which connects when it is asked.
func openRedis(u *redisURL, o Options) *Named {
	redis.SetLogger(silent{}) // what it has to say is in the errors
	d := &dialer{timeout: o.patience()}
	if u.tls {
		d.tls = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	c := u.client(o, d)
	s := &throttleredis.Store{Prefix: u.prefix, Slots: u.slots, MaxBatch: u.batch, Overlap: u.overlap, Strict: u.strict}
	s.Do = func(ctx context.Context, args ...any) (any, error) {
		cmd := once{redis.NewCmd(ctx, args...)}
		_ = c.Process(ctx, cmd) // the error is in the command
		result, err := cmd.Result()
		return result, u.advise(d.explain(err))
	}
	return &Named{s, u.name(), func() { _ = c.Close() }, true}
}

// once is a command that is not repeated: it may have been carried out.
type once struct{ *redis.Cmd }

// NoRetry says so.
func (once) NoRetry() bool { return true }

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// client is a client of go-redis that gives up in time. It asks the sentinels while it
// dials, and leaves one that does not answer if the time for two answers, with all
// their retries, fits into DialTimeout.
func (u *redisURL) client(o Options, d *dialer) redis.UniversalClient {
	patience := o.patience()
	ro := redis.UniversalOptions{
		Dialer: d.dial, TLSConfig: d.tls,
		Addrs: u.addrs, Username: u.user, Password: u.password, DB: u.db, MasterName: u.master,
		SentinelUsername: u.sentinelUser, SentinelPassword: u.sentinelPassword,
		ContextTimeoutEnabled: true, DialTimeout: o.connectWithin(), ReadTimeout: patience, WriteTimeout: patience, DialerRetries: 1,
	}
	if o.Callers > 0 {
		ro.PoolSize = min(max(o.Callers, 10), 100)
	}
	switch {
	case u.cluster:
		cluster := ro.Cluster()
		cluster.ClusterStateReloadInterval = time.Second
		return redis.NewClusterClient(cluster)
	case u.master != "":
		ro.MaxRetries = -1
		return redis.NewFailoverClient(ro.Failover())
	}
	return redis.NewClient(ro.Simple())
}

// advise adds to an error what in the URL may be wrong. A MOVED or READONLY of a Cluster
// or a master that sentinels watch passes by itself.
func (u *redisURL) advise(err error) error {
	if err == nil {
		return nil
	}
	text, hint := err.Error(), ""
	switch sentinel := u.master != ""; {
	case sentinel && strings.Contains(text, "NOAUTH"):
		hint = "if it is the sentinels that want a password, add ?sentinel_password= to the URL"
	case sentinel && errors.Is(err, redis.Nil):
		hint = "the sentinels know no master by the name in the URL"
	case sentinel || u.cluster:
	case strings.HasPrefix(text, "MOVED "):
		hint = "the server is a node of a Cluster: add ?cluster=true to the URL"
	case strings.HasPrefix(text, "READONLY "):
		hint = "the server is a replica: name its primary in the URL, or its sentinels"
	}
	if hint == "" {
		return err
	}
	return fmt.Errorf("%w; %s", err, hint)
}
