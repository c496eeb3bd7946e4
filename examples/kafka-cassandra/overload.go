package main

import (
	"context"
	"encoding/binary"
	"net"
	"sync/atomic"
)

// cqlDialer connects to Cassandra. With throw it asks Cassandra to refuse what is
// beyond its limits, with Overloaded, instead of delaying it: it adds
// THROW_ON_OVERLOAD to the first message of each connection, STARTUP, for which
// the driver has no option. The setting native_transport_throw_on_overload of the
// server does so for all its clients.
type cqlDialer struct {
	dial  dialer
	throw bool
}

// DialContext is what the driver calls.
func (d cqlDialer) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := d.dial(ctx, network, addr)
	if err != nil || !d.throw {
		return c, err
	}
	return &throwConn{Conn: c}, nil
}

type throwConn struct {
	net.Conn
	started atomic.Bool
}

func (c *throwConn) Write(b []byte) (int, error) {
	if c.started.Load() || !isStartup(b) {
		return c.Conn.Write(b)
	}
	c.started.Store(true)
	if _, err := c.Conn.Write(withThrow(b)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// isStartup reports whether b is one whole STARTUP: a header of nine bytes with
// the opcode in the fifth and the length after it, and a map of strings.
func isStartup(b []byte) bool {
	return len(b) >= 11 && b[4] == 1 && int(binary.BigEndian.Uint32(b[5:])) == len(b)-9
}

// withThrow adds an entry to the map of a STARTUP.
func withThrow(b []byte) []byte {
	x := append([]byte(nil), b...)
	for _, s := range []string{"THROW_ON_OVERLOAD", "1"} {
		x = append(binary.BigEndian.AppendUint16(x, uint16(len(s))), s...)
	}
	binary.BigEndian.PutUint32(x[5:], uint32(len(x)-9))
	binary.BigEndian.PutUint16(x[9:], binary.BigEndian.Uint16(x[9:])+1)
	return x
}
