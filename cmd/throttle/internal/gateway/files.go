package gateway

import (
	"context"
	"errors"
	"sync"
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

var (
	errNoPlace = errors.New("more streams of HTTP/2 are in flight than there may be connections to upstreams")
	errShare   = errors.New("requests of this route hold most connections: the rest is for other routes")
)

// shares counts the places of exchanges by the upstreams that they wait for.
type shares struct {
	mu   sync.Mutex
	held map[*upstream.Pool]int
	sum  int
}

// take takes one of so many places, unless the pool holds three times as many as are free:
// so one pool takes at most three quarters, two three sevenths each, and some are always left
// for others, whatever hangs.
func (s *shares) take(p *upstream.Pool, places int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[p] >= 3*(places-s.sum) {
		return false
	}
	if s.held == nil {
		s.held = map[*upstream.Pool]int{}
	}
	s.held[p]++
	s.sum++
	return true
}

// give gives one back.
func (s *shares) give(p *upstream.Pool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sum--; s.held[p] == 1 {
		delete(s.held, p)
		return
	}
	s.held[p]--
}

// share takes one of so many places for the upstreams of the exchange, where there are other
// ones. An upstream that accepts requests and answers none would take all that there are,
// and no caller of another route would be served.
func (x *exchange) share(s *shares, places int) error {
	if !x.g.several.Load() {
		return nil
	}
	if !s.take(x.pool, places) {
		return &upstream.Unsent{Err: errShare}
	}
	x.shares = s
	return nil
}

// enter takes the places of the exchange: its part of the connections of callers, and, if it is
// a stream of HTTP/2 that needs a connection to an upstream, one for that: one is kept for each
// connection of a caller, and all share those beside. Without that, a few callers with many
// streams take all files or ports, and no other caller is served. Streams wait for a place;
// requests of HTTP/1 are bounded by their connections.
func (x *exchange) enter(ctx context.Context) error {
	c, _ := ctx.Value(connKey{}).(*conn)
	switch {
	case c == nil:
		return nil
	case x.old || x.chunks:
		return x.share(&c.of.shares, cap(c.of.room))
	case x.pool.Shares():
		return nil
	}
	select {
	case c.first <- struct{}{}:
		x.holds = c.first
		return x.share(&c.of.shares, cap(c.of.room))
	default:
	}
	timer := time.NewTimer(x.pool.DialTimeout())
	defer timer.Stop()
	select {
	case c.first <- struct{}{}:
		x.holds = c.first
		return x.share(&c.of.shares, cap(c.of.room))
	case x.g.beside <- struct{}{}:
		x.holds = x.g.beside
		return x.share(&x.g.shares, cap(x.g.beside))
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return &upstream.Unsent{Err: errNoPlace}
	}
}

// spare closes the connections to upstreams that carry no request, as files are scarce.
func (g *Gateway) spare() {
	for _, p := range pools(*g.routes.Load()) {
		p.Spare()
	}
}
