package main

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/examples/owners/internal/scene"
	"github.com/throttle-go/throttle/rules"
	"github.com/throttle-go/throttle/store"
	"github.com/throttle-go/throttle/throttlehttp"
)

// policy lets three requests of one customer for one operation be in flight, and
// eight in all.
const policy = `{"rules": [
	{"name": "operation", "key": "client+path:1", "in_flight": 3},
	{"name": "all", "in_flight": 8}
]}`

var customers = scene.Keys{"k1": "first", "k2": "second", "k3": "third"}

// service counts in inFlight what is in flight at a backend. Outermost is the
// timeout: so a request is in flight for as long as the backend works for it, and
// not only until its caller gets the answer that it takes too long.
func service(b *backend, inFlight *store.InFlight, timeout time.Duration) (http.Handler, error) {
	compiled, err := rules.Parse([]byte(policy))
	if err != nil {
		return nil, err
	}
	live := new(rules.Live)
	live.Swap(compiled)
	handler := &throttlehttp.Handler{Control: &admit.Control{Rules: live, InFlight: inFlight}, Request: customers.Request, Next: b}
	return http.TimeoutHandler(handler, timeout, "the backend takes too long"), nil
}

// backend has a thread for each request. Its exports can be made to hang.
type backend struct {
	mu      sync.Mutex
	hanging chan struct{}  // closed when they no longer do
	threads map[string]int // by customer::operation, and all
	peaks   map[string]int // the most of each
}

func newBackend() *backend {
	b := &backend{hanging: make(chan struct{}), threads: make(map[string]int), peaks: make(map[string]int)}
	b.resume()
	return b
}

func (b *backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	operation := strings.TrimPrefix(r.URL.Path, "/")
	key := customers.Customer(r) + "::" + operation
	hanging := b.count(key, +1)
	defer b.count(key, -1)
	if r.FormValue("bug") != "" {
		panic("a bug")
	}
	if operation == "export" {
		select {
		case <-hanging:
		case <-r.Context().Done(): // the caller is gone, or it takes too long
			return
		}
	}
	fmt.Fprintln(w, "done")
}

// count counts a thread; hanging is closed when exports do not hang.
func (b *backend) count(key string, n int) (hanging <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, k := range []string{key, "all"} {
		b.threads[k] += n
		b.peaks[k] = max(b.peaks[k], b.threads[k])
	}
	return b.hanging
}

func (b *backend) hang() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hanging = make(chan struct{})
}

func (b *backend) resume() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.hanging)
}

// busy is how many threads there are now, and were at most.
func (b *backend) busy(key string) (now, peak int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.threads[key], b.peaks[key]
}
