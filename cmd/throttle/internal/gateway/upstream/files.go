package upstream

import (
	"net"
	"sync"
	"sync/atomic"
)

// Files keeps the connections of several Pools within what a process may open: those that
// carry no request make room for those that do. It does not bound the latter.
type Files struct {
	// Most is how many connections there may be, with those that carry no request.
	Most int64
	// Spare closes the connections of all Pools that carry no request.
	Spare func()

	open atomic.Int64
}

// room makes room for a connection where there is none. It reports whether err, of a connection
// that was tried, says so.
func (f *Files) room(err error) bool {
	if f == nil || err == nil && f.open.Load() < f.Most || err != nil && !Starved(err) {
		return false
	}
	f.Spare()
	return err != nil
}

// count counts a connection until it is closed.
func (f *Files) count(c net.Conn) net.Conn {
	tcp, ok := c.(*net.TCPConn)
	if f == nil || !ok {
		return c
	}
	f.open.Add(1)
	return &counted{TCPConn: tcp, in: f}
}

// counted is a connection that is counted.
type counted struct {
	*net.TCPConn
	in   *Files
	once sync.Once
}

// Close closes it.
func (c *counted) Close() error {
	c.once.Do(func() { c.in.open.Add(-1) })
	return c.TCPConn.Close()
}
