package operate

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"
)

// A Server is an http.Server that ends without losing a request. Shutdown of
// net/http closes, unanswered, connections that were accepted before it and whose
// first request it has not read yet. Drain waits for these. The zero value of all
// but Server is ready; it serves once.
type Server struct {
	// Server is what serves. Its ConnContext and ConnState may be set.
	*http.Server

	mu     sync.Mutex
	unread map[net.Conn]bool // connections without a request so far
	open   []net.Listener
	ended  sync.WaitGroup // of Serve
}

// grace bounds how long Drain waits for the first request of a connection.
const grace = 5 * time.Second

// Begin prepares the Server. Call it once, before Serve.
func (s *Server) Begin() {
	s.unread = make(map[net.Conn]bool)
	next, inner, state := s.Handler, s.ConnContext, s.ConnState
	if next == nil {
		next = http.DefaultServeMux
	}
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connKey{}).(net.Conn); ok {
			s.read(c)
		}
		next.ServeHTTP(w, r)
	})
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if inner != nil {
			ctx = inner(ctx, c)
		}
		return context.WithValue(ctx, connKey{}, c)
	}
	s.ConnState = func(c net.Conn, is http.ConnState) {
		switch is {
		case http.StateNew:
			s.mu.Lock()
			s.unread[c] = true
			s.mu.Unlock()
		case http.StateClosed, http.StateHijacked:
			s.read(c)
		}
		if state != nil {
			state(c, is)
		}
	}
}

type connKey struct{}

func (s *Server) read(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.unread, c)
}

func (s *Server) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.unread)
}

// Serve serves l until Drain, and returns nil then. With TLS, l does it already.
func (s *Server) Serve(l net.Listener) error {
	s.mu.Lock()
	s.open = append(s.open, l)
	s.ended.Add(1)
	s.mu.Unlock()
	defer s.ended.Done()
	err := s.Server.Serve(l)
	if errors.Is(err, net.ErrClosed) || errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Drain accepts no more connections, waits for the first request of each that was
// accepted, for up to 5 seconds, and until all are answered, or ctx ends: then it
// returns the error of ctx, and what is in flight goes on. A later request of a
// connection that is kept alive may still meet its end, as always in HTTP/1; tell
// callers by Connection: close before.
func (s *Server) Drain(ctx context.Context) error {
	s.mu.Lock()
	open := s.open
	s.mu.Unlock()
	for _, l := range open {
		_ = l.Close() // Serve returns why it ended
	}
	s.ended.Wait() // so that all that was accepted is known
	limit := time.Now().Add(grace)
	for s.waiting() > 0 && time.Now().Before(limit) && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	return s.Shutdown(ctx)
}
