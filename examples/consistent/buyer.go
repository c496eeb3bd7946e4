package main

import (
	"net/http"
	"path"
	"sync"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/load"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/throttlehttp"
)

// Priorities of the calls.
const (
	forward = load.Normal
	back    = load.High // weighs ten times as much: a job half done is worse than one not begun
)

// buyer makes jobs: all of their steps, or none. It is safe for concurrent use,
// but for one job at a time.
type buyer struct {
	url    string
	client http.Client
	// naive believes that what failed did not happen: so it may be retried, and
	// need not be taken back.
	naive bool
	// maxWait is the longest that a step waits, in line and between tries.
	maxWait time.Duration
	// patience is how long a job is being taken back before that is left for later.
	patience time.Duration
	// undo makes the calls again that take steps back. It paces nothing, as the
	// Transport below does; its tries and its budget are its own: when the calls
	// that go forward have used up theirs, jobs are still taken back.
	undo throttle.Throttle

	mu      sync.Mutex      // guards what follows
	journal map[string]int  // of jobs not over: how many steps may have run
	done    map[string]bool // of jobs that are over
	seen    tally
}

// tally counts what happened.
type tally struct {
	surely  int           // steps that failed and surely had not run
	perhaps int           // steps that failed and may have
	left    int           // parcels of those that had left all the same
	refused int           // steps for which there was no time
	longest time.Duration // what one of them would have had to wait
	spent   time.Duration // what one of them had waited when that was known
	later   int           // jobs that were taken back later
}

func newBuyer(url string, base http.RoundTripper, naive bool) *buyer {
	b := &buyer{
		url: url, naive: naive, maxWait: 500 * time.Millisecond, patience: time.Second,
		journal: map[string]int{}, done: map[string]bool{},
	}
	b.client.Transport = &throttlehttp.Transport{
		Base: base,
		// Of each kind apart: while no parcels are taken, money can be given back.
		Name:   func(r *http.Request) string { return path.Dir(r.URL.Path) },
		Repeat: func(*http.Request) bool { return naive },
		Throttles: &throttle.Group{New: func(string) *throttle.Throttle {
			return &throttle.Throttle{Weights: map[load.Priority]float64{back: 10}}
		}},
	}
	b.undo.Control = &pace.Backoff{Base: 20 * time.Millisecond, Jitter: pace.UpwardJitter, Spread: 0.5}
	b.undo.Retries = 10
	b.undo.Budget = pace.Budget{Max: 100, Call: 1}
	return b
}

// begun notes, before each step and after each that is no longer in force, how
// many steps of a job may have run. A program that must outlive a crash writes
// it to a table; what is found there is the word that settle goes by.
func (b *buyer) begun(job string, steps int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.journal[job] = steps
}

// over ends a job.
func (b *buyer) over(job string, done bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.journal, job)
	b.done[job] = done
}

// count adds to the tally.
func (b *buyer) count(add func(*tally)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	add(&b.seen)
}
