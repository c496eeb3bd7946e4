package egress

import (
	"errors"
	"net"
	"sync"
)

// bounded is a listener that has as many connections as there is room for; further ones
// wait in the queue of the kernel. Unlike those of netutil.LimitListener, its connections
// can be closed in one direction, as tunnels are.
type bounded struct {
	net.Listener
	room  chan struct{}
	once  sync.Once
	ended chan struct{}
}

func newBounded(l net.Listener, most int) *bounded {
	return &bounded{Listener: l, room: make(chan struct{}, most), ended: make(chan struct{})}
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
	return &conn{Conn: c, leave: sync.OnceFunc(func() { <-b.room })}, nil
}

// Close closes the socket; Accept that waits for room ends.
func (b *bounded) Close() error {
	b.once.Do(func() { close(b.ended) })
	return b.Listener.Close()
}

// conn is a connection that is counted.
type conn struct {
	net.Conn
	leave func()
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
