package scene

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Tally counts the answers to requests. The zero value is ready, and it is safe
// for concurrent use.
type Tally struct {
	mu     sync.Mutex
	sent   int
	status map[int]int
	took   []time.Duration // of those served
	untold int
	least  int // seconds, of Retry-After
	most   int
	failed int
	err    error // the first
}

// Add counts one answer, or an error instead of one.
func (t *Tally) Add(a Answer, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sent++
	if err != nil {
		t.failed++
		t.err = cmp.Or(t.err, err)
		return
	}
	if t.status == nil {
		t.status = make(map[int]int)
	}
	t.status[a.Status]++
	if a.Status < 300 {
		t.took = append(t.took, a.Took)
		return
	}
	seconds, err := strconv.Atoi(a.Header.Get("Retry-After"))
	if err != nil || seconds < 1 {
		t.untold++
		return
	}
	if t.least == 0 {
		t.least = seconds
	}
	t.least, t.most = min(t.least, seconds), max(t.most, seconds)
}

// Sent returns the number of requests.
func (t *Tally) Sent() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sent
}

// Served returns the number of answers of 2xx.
func (t *Tally) Served() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.took)
}

// Of returns the number of answers with the status.
func (t *Tally) Of(status int) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.status[status]
}

// Refused returns the number of answers of 429.
func (t *Tally) Refused() int { return t.Of(http.StatusTooManyRequests) }

// Unanswered returns the number of requests without an answer.
func (t *Tally) Unanswered() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failed
}

// Untold returns the number of answers other than 2xx that did not say when to
// come again.
func (t *Tally) Untold() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.untold
}

// Told returns the least and the largest number of seconds that an answer said
// to wait: zero if none did.
func (t *Tally) Told() (least, most int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.least, t.most
}

// Median returns the median time of the requests served: zero if there are none.
func (t *Tally) Median() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.took) == 0 {
		return 0
	}
	took := slices.Sorted(slices.Values(t.took))
	return took[(len(took)-1)/2]
}

// Err returns the error of the first request without an answer, nil if there is
// none.
func (t *Tally) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

// Row returns the counts as cells of a [Table]: sent, served, and 429.
func (t *Tally) Row() string {
	return fmt.Sprintf("%d|%d|%d", t.Sent(), t.Served(), t.Refused())
}
