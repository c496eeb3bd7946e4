package main

import (
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// faults are what happens to requests on their way to next. Which ones it
// happens to depends on nothing but Seed, and how often the same was asked for
// before. It is safe for concurrent use.
type faults struct {
	next *shop
	seed uint64
	// pause is for how long no shipments are taken, once in a while.
	pause time.Duration
	// late is when a request is executed that was answered by 504.
	late time.Duration

	mu     sync.Mutex // guards what follows
	asked  map[string]int
	parcel int
	closed time.Time // until when no shipments are taken

	running sync.WaitGroup // requests that are late
}

// draw is a number below 1000 that hangs on the words alone.
func draw(words string) int {
	h := fnv.New64a()
	h.Write([]byte(words))
	return rand.New(rand.NewPCG(h.Sum64(), 1)).IntN(1000)
}

// A fault is one way in which a request goes wrong.
type fault struct {
	name   string
	parts  int // of 1000 requests
	status int // the answer; 0: the connection is cut instead
	runs   bool
	late   bool // it runs later
}

var all = []fault{
	{"no server", 20, http.StatusServiceUnavailable, false, false},
	{"cut off before", 20, 0, false, false},
	{"answer lost", 40, 0, true, false},
	{"bad gateway", 30, http.StatusBadGateway, true, false},
	{"gateway timeout", 20, http.StatusGatewayTimeout, true, true},
}

// of is the fault of a request, nil if there is none.
func (f *faults) of(r *http.Request) *fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	what := r.Method + r.URL.Path
	f.asked[what]++
	n := draw(strconv.FormatUint(f.seed, 10) + what + strconv.Itoa(f.asked[what]))
	for i := range all {
		if n -= all[i].parts; n < 0 {
			return &all[i]
		}
	}
	return nil
}

// shut is how long no shipments are taken: every 300th request closes the
// counter.
func (f *faults) shut(r *http.Request) time.Duration {
	if r.PathValue("kind") != shipments {
		return 0
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if left := f.closed.Sub(now); left > 0 {
		return left
	}
	if f.parcel++; f.parcel%300 == 150 {
		f.closed = now.Add(f.pause)
		return f.pause
	}
	return 0
}

func (f *faults) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if d := f.shut(r); d > 0 {
		w.Header().Set("Retry-After", strconv.FormatFloat(d.Seconds(), 'f', 3, 64))
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	wrong := f.of(r)
	if wrong == nil {
		f.next.ServeHTTP(w, r)
		return
	}
	run := func() {
		f.next.execute(r.Method, r.PathValue("kind"), r.PathValue("job"), r.Header.Get("Idempotency-Key"))
	}
	switch {
	case wrong.late:
		f.running.Add(1)
		time.AfterFunc(f.late, func() { defer f.running.Done(); run() })
	case wrong.runs:
		run()
	}
	if wrong.status == 0 {
		panic(http.ErrAbortHandler) // closes the connection
	}
	w.WriteHeader(wrong.status)
}
