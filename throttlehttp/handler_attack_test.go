package throttlehttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/load"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/rules"
	"github.com/throttle-go/throttle/store"
	"github.com/throttle-go/throttle/throttlehttp"
)

// saboteur is what fails inside a Handler, at a place that chance picks.
type saboteur struct {
	mu     sync.Mutex
	chance *rand.Rand
}

// trap panics, aborts, or ends its goroutine, one time in eight.
func (s *saboteur) trap() {
	s.mu.Lock()
	n := s.chance.IntN(24)
	s.mu.Unlock()
	switch n {
	case 0:
		panic("trapped")
	case 1:
		panic(http.ErrAbortHandler)
	case 2:
		runtime.Goexit()
	}
}

// Take makes a Store of it.
func (s *saboteur) store(under store.Store) store.Store {
	return store.Func(func(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
		s.trap()
		ok, err := under.Take(ctx, a, d)
		s.trap()
		if s.chanceOf(10) {
			return false, errors.New("the store is away")
		}
		return ok, err
	})
}

func (s *saboteur) chanceOf(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.chance.IntN(n) == 0
}

const attacked = `{"rules": [
	{"name": "each", "key": "address", "in_flight": 3, "limits": "20/s", "phase": "before"},
	{"name": "all", "in_flight": 5, "limits": "50/s"},
	{"name": "tried", "in_flight": 2, "limits": "5/s", "shadow": true}
]}`

// handlers are two Handlers, before and after authorization, of which every
// function may fail.
func (s *saboteur) handlers(t *testing.T, counts *store.InFlight, shed *admit.Shedder) http.Handler {
	set, err := rules.Parse([]byte(attacked))
	if err != nil {
		t.Fatal(err)
	}
	var live rules.Live
	if err := live.Swap(set); err != nil {
		t.Fatal(err)
	}
	kept := s.store(new(memory.Store))
	refuse := func(w http.ResponseWriter, _ *http.Request, e admit.Event) {
		s.trap()
		w.WriteHeader(throttlehttp.Status(e.Verdict))
	}
	after := &throttlehttp.Handler{
		Control: &admit.Control{Rules: &live, Phase: rules.After, InFlight: counts, Store: kept, Shed: shed, OnEvent: func(admit.Event) { s.trap() }},
		Request: func(r *http.Request, q admit.Request) admit.Request {
			s.trap()
			q.Client, q.Priority, q.Caller = r.Header.Get("X-Client"), load.High, "caller"
			return q
		},
		Refuse: refuse,
		Next: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(10 * time.Millisecond)
			s.trap()
			io.WriteString(w, "ok")
			http.NewResponseController(w).Flush()
			s.trap()
		}),
	}
	return &throttlehttp.Handler{
		Control:  &admit.Control{Rules: &live, Phase: rules.Before, InFlight: counts, Store: kept},
		Request:  func(_ *http.Request, q admit.Request) admit.Request { s.trap(); return q },
		Refuse:   refuse,
		Error:    func(w http.ResponseWriter, _ *http.Request, _ error) { s.trap(); w.WriteHeader(503) },
		Next:     http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.trap(); after.ServeHTTP(w, r); s.trap() }),
		Degraded: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { s.trap() }),
	}
}

// Whatever fails inside a Handler, wherever, nothing stays in flight, neither of
// the counts nor of the Shedder, and the next request is decided as ever.
func TestHandlerSabotaged(t *testing.T) {
	for seed := range uint64(20) {
		bubble.Test(t, func(t *testing.T) {
			s := &saboteur{chance: rand.New(rand.NewPCG(seed, 3))}
			var counts store.InFlight
			shed := &admit.Shedder{MaxInFlight: 4, MaxWait: 50 * time.Millisecond}
			h := s.handlers(t, &counts, shed)
			var all sync.WaitGroup
			for i := range 300 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+i%30)*time.Millisecond)
				r := httptest.NewRequestWithContext(ctx, "GET", "/", nil)
				r.RemoteAddr = fmt.Sprintf("192.0.2.%d:1", i%5)
				if i%2 == 0 {
					r.Header.Set("X-Client", "known")
				}
				all.Go(func() {
					defer cancel()
					defer func() { recover() }()
					h.ServeHTTP(httptest.NewRecorder(), r)
				})
				time.Sleep(time.Millisecond)
			}
			all.Wait()
			if n := counts.Stats().Holds; n != 0 {
				t.Errorf("seed %d: %d held, want none", seed, n)
			}
			if st := shed.Stats(); st.InFlight != 0 || st.Waiting != 0 {
				t.Errorf("seed %d: shedder %+v, want nothing in flight", seed, st)
			}
		})
	}
}

// A client that resets each stream as soon as it has opened it (rapid reset)
// gets no more requests through than the limit, and leaves nothing in flight.
func TestHandlerRapidReset(t *testing.T) {
	const limited, sent = 50, 2000
	var counts store.InFlight
	var passed sync.Map
	set, err := rules.Parse([]byte(`{"rules": [{"name": "each", "key": "address", "limits": "50/h"}, {"name": "busy", "in_flight": 20}]}`))
	if err != nil {
		t.Fatal(err)
	}
	var live rules.Live
	if err := live.Swap(set); err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(&throttlehttp.Handler{
		Control: &admit.Control{Rules: &live, InFlight: &counts},
		Next: http.HandlerFunc(
			func(_ http.ResponseWriter, r *http.Request) {
				passed.Store(r, true)
				<-r.Context().Done() // the reset ends it
			}),
	})
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	defer s.Close()
	for stream := uint32(1); stream < 2*sent; {
		stream = resets(t, s.Listener.Addr().String(), stream)
	}
	for end := time.Now().Add(10 * time.Second); counts.Stats().Holds != 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	n := 0
	passed.Range(func(any, any) bool { n++; return true })
	if held := counts.Stats().Holds; held != 0 || n > limited || n == 0 {
		t.Errorf("%d passed and %d held; want at most %d and none", n, held, limited)
	}
}

// resets opens and resets streams over one connection until the server has had
// enough, 500 at most, and returns how far it came.
func resets(t *testing.T, address string, from uint32) uint32 {
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(c, preface)
	f := newFramer(c)
	defer f.end()
	f.write(frameSetting, 0, 0)
	get := append([]byte{0x82, 0x86, 0x84, 0x01, 1}, 'a') // GET http / with an authority
	for i := uint32(0); i < 500; i++ {
		f.write(frameHeaders, flagEnd|flagHeaders, 2*i+1, get...)
		f.write(frameReset, 0, 2*i+1, word(codeCancel)...)
	}
	f.write(framePing, 0, 0, make([]byte, 8)...)
	c.SetReadDeadline(time.Now().Add(5 * time.Second))
	for {
		kind, flags, _, _, err := f.read()
		if err != nil || kind == frameGoAway || kind == framePing && flags&flagEnd != 0 {
			return from + 1000
		}
	}
}
