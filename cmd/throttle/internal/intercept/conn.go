package intercept

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// How far a connection is.
const (
	waiting  = iota // no request has come yet
	active          // a request is in flight
	resting         // none is
	tunneled        // bytes are copied, or it was upgraded, as to WebSocket
	states
)

// conns are the connections after CONNECT.
type conns struct {
	mu  sync.Mutex
	all map[*conn]int // how far each is
	n   [states]int
}

// enter adds a connection, if there are fewer than most.
func (s *conns) enter(c *conn, most int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) >= most {
		return false
	}
	if s.all == nil {
		s.all = map[*conn]int{}
	}
	s.all[c] = waiting
	s.n[waiting]++
	return true
}

// become notes how far a connection is, unless it is closed.
func (s *conns) become(c *conn, state int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if before, ok := s.all[c]; ok {
		s.n[before]--
		s.n[state]++
		s.all[c] = state
	}
}

// hold says what the connection is, once it was taken; false if it has been closed before.
func (s *conns) hold(c *conn, in net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.all[c]
	if ok {
		c.Conn = in
	}
	return ok
}

// leave removes a connection, and returns what it is; nil if it was not taken.
func (s *conns) leave(c *conn) net.Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if before, ok := s.all[c]; ok {
		s.n[before]--
		delete(s.all, c)
	}
	return c.Conn
}

// counts returns how many connections are how far.
func (s *conns) counts() [states]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n
}

// list returns the connections.
func (s *conns) list() (all []*conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.all {
		all = append(all, c)
	}
	return all
}

// conn is the connection of a caller after CONNECT.
type conn struct {
	net.Conn        // nil until it is taken
	early    []byte // came with the CONNECT, before it was answered
	target   Target
	leaf     *tls.Certificate // of the target; nil in a tunnel
	of       *conns
}

// take takes the connection from the http.Server, and answers the CONNECT. ok is false if
// it was not, as the Proxy has ended meanwhile; no is an answer in place of that.
func (c *conn) take(w http.ResponseWriter) (no *refusal, ok bool) {
	in, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return &refusal{http.StatusInternalServerError, "hijack", "the connection cannot be taken over: " + err.Error()}, false
	}
	early, _ := buffered.Reader.Peek(buffered.Reader.Buffered()) // it has as many
	c.early = append([]byte(nil), early...)
	if !c.of.hold(c, in) {
		in.Close()
		return nil, false
	}
	_ = c.SetDeadline(time.Time{}) // of the http.Server; an error comes again
	c.say("HTTP/1.1 200 Connection Established\r\n\r\n")
	return nil, true
}

// patience bounds the writing of a line to a caller.
const patience = 5 * time.Second

// say writes a short text. An error comes again with what follows.
func (c *conn) say(text string) {
	_ = c.SetWriteDeadline(time.Now().Add(patience))
	_, _ = c.Conn.Write([]byte(text))
	_ = c.SetWriteDeadline(time.Time{})
}

// Read reads what came with the CONNECT, and then the rest.
func (c *conn) Read(p []byte) (int, error) {
	if len(c.early) == 0 {
		return c.Conn.Read(p)
	}
	n := copy(p, c.early)
	c.early = c.early[n:]
	return n, nil
}

// CloseWrite says that nothing follows.
func (c *conn) CloseWrite() error { return closeWrite(c.Conn) }

func closeWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// Close closes the connection, and makes room.
func (c *conn) Close() error {
	if in := c.of.leave(c); in != nil {
		return in.Close()
	}
	return nil
}

// queue is the listener of the connections whose TLS was terminated.
type queue struct{ p *Proxy }

// Accept waits for one.
func (q queue) Accept() (net.Conn, error) {
	select {
	case c := <-q.p.accepted:
		return c, nil
	case <-q.p.cut:
		return nil, net.ErrClosed
	}
}

func (queue) Close() error   { return nil }
func (queue) Addr() net.Addr { return &net.TCPAddr{} }

// shake does the handshake, within HeaderTimeout.
func (p *Proxy) shake(c *tls.Conn) error {
	ctx, cancel := context.WithTimeout(context.Background(), p.headerTimeout())
	defer cancel()
	return c.HandshakeContext(ctx)
}

// sparse logs one line a second at most, and then how many were left out.
type sparse struct {
	log *slog.Logger

	mu   sync.Mutex // guards what follows
	next time.Time
	left int
}

// warn logs a line, or counts it.
func (s *sparse) warn(now time.Time, text string, about ...any) {
	if s.log == nil {
		return
	}
	s.mu.Lock()
	if now.Before(s.next) {
		s.left++
		s.mu.Unlock()
		return
	}
	if s.left > 0 {
		about = append(about, "left_out", s.left)
	}
	s.next, s.left = now.Add(time.Second), 0
	s.mu.Unlock()
	s.log.Warn(text, about...)
}
