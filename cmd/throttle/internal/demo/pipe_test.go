package demo

import (
	"context"
	"net"

	"github.com/throttle-go/throttle/sim"
)

// pipes is a network in memory, for a server and its clients in one bubble: there
// time is virtual, and no figure is up to the machine.
type pipes struct {
	accepted chan net.Conn
	closed   chan struct{}
}

// servePiped is serve on such a network.
func servePiped(s sim.Scenario, seed uint64) (*liveServer, error) {
	p := pipes{make(chan net.Conn), make(chan struct{})}
	return serveOn(p, p.dial, s, seed), nil
}

func (p pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.accepted <- server:
		return client, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accepted:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close is called once: http.Server sees to that.
func (p pipes) Close() error {
	close(p.closed)
	return nil
}

func (p pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }
