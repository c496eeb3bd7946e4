package crowd

import (
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/throttlehttp"
)

// ServerOrders are what a server is to do.
type ServerOrders struct {
	Addr string
	// Workers work on requests, each for Work, a fifth more or less. Queue more
	// wait, and beyond that requests are refused as too many at once. If Workers is
	// zero, none is.
	Workers, Queue int
	Work           time.Duration
	// Rate, if above zero, is how many requests are served a second, of all
	// clients together.
	Rate int64
	// Tells says that answers state what is left of that, Shares that they state the
	// part of each client too.
	Tells, Shares bool
}

// Seen is what a server has counted of one client, by the header field X-Client.
type Seen struct{ Served, Refused int64 }

// server serves a crowd, and counts.
type server struct {
	orders ServerOrders
	places chan struct{} // of the workers and the queue
	work   chan struct{}

	works, worked atomic.Int64 // how often, and for how many nanoseconds

	mu   sync.Mutex
	seen map[string]Seen
}

// Serve starts a server.
func (p *Peer) Serve(o ServerOrders, _ *bool) error {
	s := &server{orders: o, seen: map[string]Seen{}}
	s.places, s.work = make(chan struct{}, o.Workers+o.Queue), make(chan struct{}, o.Workers)
	p.server = s
	handler := http.Handler(http.HandlerFunc(s.answer))
	if o.Rate > 0 {
		headers := throttlehttp.Draft
		if !o.Tells {
			headers = throttlehttp.Silent
		}
		all := &admit.Control{Limit: limit.Limit{Count: o.Rate, Period: time.Second, Burst: o.Rate}}
		handler = &throttlehttp.Handler{Control: all, Headers: headers, Next: handler, Request: func(r *http.Request, q admit.Request) admit.Request {
			if q.Key = "all"; o.Shares {
				q.Caller = r.Header.Get("X-Client")
			}
			return q
		}}
	}
	l, err := net.Listen("tcp", o.Addr)
	if err != nil {
		return err
	}
	go func() { _ = http.Serve(l, s.counted(handler)) }() // until the process ends
	return nil
}

// counted counts the answers of next.
func (s *server) counted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status := &statusWriter{w, http.StatusOK}
		next.ServeHTTP(status, r)
		s.mu.Lock()
		defer s.mu.Unlock()
		client := r.Header.Get("X-Client")
		n := s.seen[client]
		if status.code == http.StatusTooManyRequests {
			n.Refused++
		} else {
			n.Served++
		}
		s.seen[client] = n
	})
}

// statusWriter remembers the status.
type statusWriter struct {
	http.ResponseWriter
	code int
}

// WriteHeader passes on the status.
func (w *statusWriter) WriteHeader(code int) {
	w.code = code
	w.ResponseWriter.WriteHeader(code)
}

// answer works on a request, or refuses it.
func (s *server) answer(w http.ResponseWriter, r *http.Request) {
	if s.orders.Workers == 0 {
		return
	}
	select {
	case s.places <- struct{}{}:
		defer func() { <-s.places }()
	default:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = w.Write([]byte(`{"code": "TooManyConcurrentRequests"}`))
		return
	}
	s.work <- struct{}{}
	began := time.Now()
	time.Sleep(time.Duration((0.8 + 0.4*rand.Float64()) * float64(s.orders.Work)))
	<-s.work
	s.worked.Add(int64(time.Since(began)))
	s.works.Add(1)
}

// Capacity is how many requests a second the server could work on, by the time that
// they took: timers are late.
func (p *Peer) Capacity(_ int, perSecond *float64) error {
	s := p.server
	*perSecond = float64(s.orders.Workers) * float64(s.works.Load()) / time.Duration(s.worked.Load()).Seconds()
	return nil
}

// Counts are what the server has seen so far.
func (p *Peer) Counts(_ int, seen *map[string]Seen) error {
	p.server.mu.Lock()
	defer p.server.mu.Unlock()
	*seen = maps.Clone(p.server.seen)
	return nil
}
