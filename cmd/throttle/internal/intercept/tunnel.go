package intercept

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"
)

// tunnel connects to the target of c, and copies in both directions until both ends have
// said that nothing follows, or nothing moves.
func (p *Proxy) tunnel(w http.ResponseWriter, r *http.Request, c *conn) *refusal {
	up, err := p.dial(r.Context(), c.target)
	if err != nil {
		return undialled(c.target, err)
	}
	defer up.Close()
	p.open.become(c, tunneled) // before the caller may count on it
	if no, ok := c.take(w); !ok {
		return no
	}
	defer c.Close()
	p.carry(c, up)
	return nil
}

// errPrivate refuses an address that a listed name has and that is not public.
var errPrivate = errors.New("which is not public; list the address too")

// dial connects to a target, at an address that is allowed.
func (p *Proxy) dial(ctx context.Context, t Target) (net.Conn, error) {
	d := net.Dialer{Timeout: positive(p.DialTimeout, 10*time.Second), Control: func(_, address string, _ syscall.RawConn) error {
		a, err := netip.ParseAddrPort(address)
		if err == nil && !p.Tunnel.AllowsAddr(a) {
			err = fmt.Errorf("it has the address %s, %w", a.Addr(), errPrivate)
		}
		return err
	}}
	return d.DialContext(ctx, "tcp", t.String())
}

// undialled says why a target cannot be reached.
func undialled(t Target, err error) *refusal {
	late, in := net.Error(nil), (*net.OpError)(nil)
	switch {
	case errors.Is(err, errPrivate):
		if errors.As(err, &in) {
			err = in.Err // without the address again
		}
		return &refusal{http.StatusForbidden, "private-address", fmt.Sprintf("%s: %v", t, err)}
	case errors.As(err, &late) && late.Timeout():
		return &refusal{http.StatusGatewayTimeout, "timeout", fmt.Sprintf("%s: %v", t, err)}
	}
	return &refusal{http.StatusBadGateway, "unreachable", fmt.Sprintf("%s: %v", t, err)}
}

// lastIdle bounds the time in which nothing moves in a tunnel, once the Proxy ends.
const lastIdle = time.Second

// carry copies in both directions. It ends with both copies, or the Proxy, or if nothing has
// moved for Idle; a copy that is left ends as the connections are closed.
func (p *Proxy) carry(c *conn, up net.Conn) {
	began, moved, done := time.Now(), new(atomic.Int64), make(chan struct{}, 2)
	one := func(to, from net.Conn) {
		copyHalf(to, from, func() { moved.Store(int64(time.Since(began))) })
		done <- struct{}{}
	}
	go one(up, c)
	go one(c, up)
	idle, draining := positive(p.Idle, 5*time.Minute), p.draining
	timer := time.NewTimer(idle)
	defer timer.Stop()
	for left := 2; left > 0; {
		select {
		case <-done:
			left--
		case <-draining:
			draining, idle = nil, min(idle, lastIdle)
			timer.Reset(idle)
		case <-timer.C:
			rest := idle - (time.Since(began) - time.Duration(moved.Load()))
			if rest <= 0 {
				return
			}
			timer.Reset(rest)
		case <-p.cut:
			return
		}
	}
}

// copyHalf copies until from ends, and then says to that nothing follows. Where that cannot
// be said, or one of them breaks, both are closed.
func copyHalf(to, from net.Conn, moved func()) {
	buffer := make([]byte, 16<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			moved()
			if _, failed := to.Write(buffer[:n]); failed != nil {
				break
			}
			moved()
		}
		if errors.Is(err, io.EOF) && closeWrite(to) == nil {
			return
		}
		if err != nil {
			break
		}
	}
	to.Close()
	from.Close()
}
