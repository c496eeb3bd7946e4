package stores

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// dialer makes the connections to Redis, and says in their errors where one side may
// speak TLS and the other does not. It is safe for concurrent use.
type dialer struct {
	timeout time.Duration // of a connection, and again of its handshake
	tls     *tls.Config   // if nil, without TLS

	waited atomic.Bool // a handshake of TLS has begun
	met    atomic.Bool // one has ended, or Redis has answered
}

// dial connects, with TLS if that is wanted.
func (d *dialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := redis.NewDialer(&redis.Options{DialTimeout: d.timeout})(ctx, network, addr)
	if err != nil || d.tls == nil {
		return conn, err
	}
	config := d.tls.Clone()
	config.ServerName, _, _ = net.SplitHostPort(addr)
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	d.waited.Store(true)
	secured := tls.Client(conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	d.met.Store(true)
	return secured, nil
}

// explain adds to an error of a command what it may come from, as long as no server has
// been met. Without a handshake nothing was sent.
func (d *dialer) explain(err error) error {
	var answer redis.Error
	switch {
	case err == nil || errors.As(err, &answer):
		d.met.Store(true)
	case d.met.Load():
	case d.tls != nil && d.waited.Load() && errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("failed to connect: no answer to the handshake of TLS yet; if the server speaks none, write redis in place of rediss in the URL: %w", err)
	case d.tls == nil && errors.Is(err, io.EOF):
		return fmt.Errorf("the server closed the connection; if it wants TLS, write rediss in place of redis in the URL: %w", err)
	}
	return err
}
