package gateway

import (
	"context"
	"errors"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/gateway/upstream"
)

// fewest is how many connections a socket holds, and streams beside the first of their
// connections all sockets together, where files are not scarce and nothing else is set.
const fewest = 10_000

func (l *Limits) maxConns() int {
	if l.MaxConns > 0 {
		return l.MaxConns
	}
	return fewest
}

// mostConns returns how many connections each socket may hold.
func (c *Config) mostConns(files int) int {
	return affordable(c.Limits.maxConns(), files, len(c.Listen))
}

// affordable returns how many of most connections each socket may hold where a process may
// open so many files, 0 being unknown. A third of them is for callers, a third to reach an
// upstream for each caller, without which no request is served, a third for more streams of
// HTTP/2, and some for all else.
func affordable(most, files, sockets int) int {
	if files <= 0 || files/3/most >= sockets {
		return most
	}
	return min(most, max((files-others(files))/3/sockets, 1))
}

// besides returns how many streams may be in flight beside the first of each of conns
// connections: each may need a connection to an upstream, hence a file, and a port of which
// there are some 28,000 to one address.
func besides(conns, files int) int {
	most := max(fewest, conns)
	if files <= 0 {
		return most
	}
	return max(min(most, files-others(files)-2*conns), 1)
}

// others is how many files are for all else.
func others(files int) int { return min(files/4, 64) }

var errNoPlace = errors.New("more streams of HTTP/2 are in flight than there may be connections to upstreams")

// enter waits for a place for the exchange, if it is a stream of HTTP/2 that needs a connection
// to an upstream: one is kept for each connection of a caller, and all share those beside.
// Without that, a few callers with many streams take all files or ports, and no other
// caller is served. Requests of HTTP/1 are bounded by their connections.
func (x *exchange) enter(ctx context.Context) error {
	c, _ := ctx.Value(connKey{}).(*conn)
	if c == nil || x.old || x.chunks || x.pool.Shares() {
		return nil
	}
	select {
	case c.first <- struct{}{}:
		x.holds = c.first
		return nil
	default:
	}
	timer := time.NewTimer(x.pool.DialTimeout())
	defer timer.Stop()
	select {
	case c.first <- struct{}{}:
		x.holds = c.first
	case x.g.beside <- struct{}{}:
		x.holds = x.g.beside
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return &upstream.Unsent{Err: errNoPlace}
	}
	return nil
}

// spare closes the connections to upstreams that carry no request, as files are scarce.
func (g *Gateway) spare() {
	for _, p := range pools(*g.routes.Load()) {
		p.Spare()
	}
}
