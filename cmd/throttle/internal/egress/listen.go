package egress

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// bounded is a listener that has as many connections as there is room for; further ones
// wait in the queue of the kernel. Unlike those of netutil.LimitListener, its connections
// can be closed in one direction, as tunnels are.
type bounded struct {
	net.Listener
	take  time.Duration // bounds each Write of a connection
	room  chan struct{}
	once  sync.Once
	ended chan struct{}
}

func newBounded(l net.Listener, most int, take time.Duration) *bounded {
	return &bounded{Listener: l, take: take, room: make(chan struct{}, most), ended: make(chan struct{})}
}

// Accept waits for room, and for a connection.
func (b *bounded) Accept() (net.Conn, error) {
	select {
	case b.room <- struct{}{}:
	case <-b.ended:
		return nil, net.ErrClosed
	}
	c, err := b.Listener.Accept()
	if err != nil {
		<-b.room
		return nil, err
	}
	return &conn{Conn: c, take: b.take, leave: sync.OnceFunc(func() { <-b.room })}, nil
}

// Close closes the socket; Accept that waits for room ends.
func (b *bounded) Close() error {
	b.once.Do(func() { close(b.ended) })
	return b.Listener.Close()
}

// conn is a connection that is counted.
type conn struct {
	net.Conn
	take  time.Duration // bounds each Write, unless it has a deadline
	set   atomic.Bool   // it has one
	leave func()
}

// Write bounds the wait for a caller that does not read: an answer, a connection of HTTP/2, one
// that was upgraded, or one after CONNECT.
func (c *conn) Write(b []byte) (int, error) {
	if !c.set.Load() {
		_ = c.Conn.SetWriteDeadline(time.Now().Add(c.take)) // an error comes again
	}
	return c.Conn.Write(b)
}

// SetWriteDeadline sets a deadline in place of the bound of each Write; the zero Time is none.
func (c *conn) SetWriteDeadline(at time.Time) error {
	c.set.Store(!at.IsZero())
	return c.Conn.SetWriteDeadline(at)
}

// SetDeadline sets that, and the deadline of Read.
func (c *conn) SetDeadline(at time.Time) error {
	return errors.Join(c.SetWriteDeadline(at), c.SetReadDeadline(at))
}

// Close closes the connection, and makes room.
func (c *conn) Close() error {
	err := c.Conn.Close()
	c.leave()
	return err
}

// CloseWrite says that nothing follows.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}
