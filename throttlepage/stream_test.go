package throttlepage

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/pace"
)

// watched counts how often it is looked at.
type watched struct {
	pace.Fixed
	looks atomic.Int64
}

func (w *watched) Why(time.Time) pace.Why { w.looks.Add(1); return pace.Why{} }

// open reads a stream until it ends.
func open(ctx context.Context, p *Page) (done chan *httptest.ResponseRecorder) {
	done = make(chan *httptest.ResponseRecorder, 1)
	go func() {
		w := httptest.NewRecorder()
		p.ServeHTTP(w, httptest.NewRequest("GET", "/events", nil).WithContext(ctx))
		done <- w
	}()
	return done
}

func pageOf(w *watched) *Page {
	return &Page{Throttles: map[string]*throttle.Throttle{"api": {Control: w}}}
}

// A stream has an event at once and one a second, ends with its request, and after
// half a minute in any case.
func TestStream(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := pageOf(new(watched))
		ctx, cancel := context.WithCancel(t.Context())
		first := open(ctx, p)
		time.Sleep(4500 * time.Millisecond)
		cancel()
		w := <-first
		if n := strings.Count(w.Body.String(), "\ndata: "); n != 5 || w.Header().Get("Content-Type") != "text/event-stream" || !w.Flushed {
			t.Errorf("%d events in 4.5 s, want 5: %v", n, w.Header())
		}
		for line := range strings.Lines(w.Body.String()) {
			if line != "\n" && !strings.HasPrefix(line, "data: \"") && line != "retry: 500\n" {
				t.Errorf("line %q", line)
			}
		}
		began := time.Now()
		<-open(t.Context(), p)
		if took := time.Since(began); took != lifetime {
			t.Errorf("a stream lasted %v, want %v", took, lifetime)
		}
	})
}

// Streams are bounded, and those that end make room.
func TestStreamsBounded(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := pageOf(new(watched))
		p.MaxStreams = 3
		ctx, cancel := context.WithCancel(t.Context())
		var all []chan *httptest.ResponseRecorder
		for range 3 {
			all = append(all, open(ctx, p))
		}
		synctest.Wait()
		for range 100 {
			if w := <-open(ctx, p); w.Code != 503 || w.Header().Get("Retry-After") != "10" || !strings.Contains(w.Body.String(), "too many streams") {
				t.Fatalf("the fourth: %d %s", w.Code, w.Body)
			}
		}
		if w := get(p, "GET", "/"); w.Code != 200 {
			t.Errorf("the page: %d", w.Code)
		}
		cancel()
		for _, s := range all {
			<-s
		}
		if n := p.streams.Load(); n != 0 {
			t.Errorf("%d streams are left", n)
		}
		ctx, cancel = context.WithCancel(t.Context())
		next := open(ctx, p)
		time.Sleep(time.Second)
		cancel()
		if w := <-next; w.Code != 200 {
			t.Errorf("after that: %d", w.Code)
		}
	})
}

// Many readers look as often as one does, and without one nothing happens: there is
// no goroutine, and nothing looks.
func TestStreamsCost(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := new(watched)
		p := pageOf(w)
		goroutines := runtime.NumGoroutine()
		time.Sleep(time.Hour)
		if n := w.looks.Load(); n != 0 {
			t.Errorf("%d looks before anybody asked", n)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var all []chan *httptest.ResponseRecorder
		for range 16 {
			all = append(all, open(ctx, p))
		}
		time.Sleep(9500 * time.Millisecond)
		if n := w.looks.Load(); n != 10 {
			t.Errorf("16 streams looked %d times in 9.5 s, want 10", n)
		}
		cancel()
		for _, s := range all {
			<-s
		}
		get(p, "GET", "/")
		synctest.Wait()
		before := w.looks.Load()
		time.Sleep(time.Hour)
		if n := w.looks.Load() - before; n != 0 {
			t.Errorf("%d looks in an hour without a reader", n)
		}
		if n := runtime.NumGoroutine(); n > goroutines {
			t.Errorf("%d goroutines, %d before", n, goroutines)
		}
	})
}

// broken is a reader that has gone.
type broken struct{ http.ResponseWriter }

func (broken) Write([]byte) (int, error) { return 0, errors.New("gone") }

// A stream ends when nothing can be written, even though its context goes on; and
// where nothing can be flushed.
func TestStreamBroken(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := pageOf(new(watched))
		began := time.Now()
		p.ServeHTTP(broken{httptest.NewRecorder()}, httptest.NewRequest("GET", "/events", nil))
		w := httptest.NewRecorder()
		p.ServeHTTP(struct{ http.ResponseWriter }{w}, httptest.NewRequest("GET", "/events", nil))
		if w.Code != http.StatusNotImplemented || !strings.Contains(w.Body.String(), "reload the page") {
			t.Errorf("without Flush: %d %s", w.Code, w.Body)
		}
		if time.Since(began) != 0 || p.streams.Load() != 0 {
			t.Errorf("after %v, %d streams are left", time.Since(began), p.streams.Load())
		}
	})
}

// wild panics when it is looked at for the first time.
type wild struct {
	pace.Fixed
	looked atomic.Bool
}

func (w *wild) Why(time.Time) pace.Why {
	if !w.looked.Swap(true) {
		panic("wild")
	}
	return pace.Why{}
}

// A Control that panics ends the request that looks at it, and no other.
func TestStreamPanic(t *testing.T) {
	p := &Page{Throttles: map[string]*throttle.Throttle{"api": {Control: new(wild)}}}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		get(p, "GET", "/events")
	}()
	if w := get(p, "GET", "/"); w.Code != 200 || p.streams.Load() != 0 {
		t.Errorf("the next: %d, with %d streams", w.Code, p.streams.Load())
	}
}

// Readers, callers and new members do not race.
func TestPageTogether(t *testing.T) {
	var group throttle.Group
	th := new(throttle.Throttle)
	p := &Page{Throttles: map[string]*throttle.Throttle{"api": th}, Groups: map[string]*throttle.Group{"web": &group}}
	site := httptest.NewServer(p)
	defer site.Close()
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for n := range 50 {
				m := group.Enter(string(rune('a' + (i*50+n)%26)))
				o := throttle.CallOptions{Needs: []throttle.Need{{Scope: string(rune('A' + n%26))}}}
				_ = m.Throttle().Try(throttle.WithOptions(t.Context(), o), func(context.Context) error { return nil })
				_ = th.Try(t.Context(), func(context.Context) error { return throttle.Throttled(nil, 0) })
				m.Leave()
			}
		})
		all.Go(func() {
			for _, path := range []string{"/", "/state.json", "/"} {
				p.mu.Lock()
				p.last = nil // as if it were old
				p.mu.Unlock()
				a, err := http.Get(site.URL + path)
				if err != nil || a.StatusCode != 200 {
					t.Errorf("%s: %v %v", path, a, err)
					return
				}
				a.Body.Close()
			}
		})
	}
	all.Wait()
}
