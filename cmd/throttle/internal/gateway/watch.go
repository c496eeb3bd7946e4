package gateway

import (
	"sync"
	"time"
)

// watchlist cuts exchanges in which nothing moves. One timer looks at all of
// them, as a timer for each would cost more than all else that is done for a
// small answer.
type watchlist struct {
	idle   time.Duration
	answer time.Duration // that an upstream may take to begin its answer, besides
	start  time.Time     // that the times of the exchanges count from

	mu      sync.Mutex // guards what follows, and the links of the exchanges
	first   *exchange
	timer   *time.Timer // of the next look; nil if there is none
	retired bool        // the route is not in use any more
}

// soonest is the least time between two looks: an exchange is cut when nothing has
// moved for idle, or a 64th more.
func (w *watchlist) soonest() time.Duration { return max(w.idle/64, time.Millisecond) }

// patience returns how long nothing may move in x: once its body was read, for idle, in
// which the upstream may take the rest of it, and then until the answer is due.
func (w *watchlist) patience(x *exchange) time.Duration {
	if x.whole.Load() && !x.answers.Load() {
		return w.idle + w.answer
	}
	return w.idle
}

func (w *watchlist) add(x *exchange) {
	w.mu.Lock()
	defer w.mu.Unlock()
	x.watched = true
	x.after = w.first
	if w.first != nil {
		w.first.before = x
	}
	w.first = x
	if w.timer == nil {
		w.timer = time.AfterFunc(w.idle, w.look)
	}
}

func (w *watchlist) remove(x *exchange) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if x.after != nil {
		x.after.before = x.before
	}
	if x.before != nil {
		x.before.after = x.after
	} else {
		w.first = x.after
	}
	x.before, x.after = nil, nil
	w.restLocked()
}

// retire ends the looks once there are no exchanges: until the next, the timer would
// hold the route and its upstreams, which adds up where there are many reloads.
func (w *watchlist) retire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.retired = true
	w.restLocked()
}

func (w *watchlist) restLocked() {
	if w.retired && w.first == nil && w.timer != nil && w.timer.Stop() {
		w.timer = nil
	}
}

// look cuts those in which nothing has moved. It looks again when the next may have
// to be cut, unless there are none.
func (w *watchlist) look() {
	now, next := time.Since(w.start), w.idle
	var stale []*exchange
	w.mu.Lock()
	for x := w.first; x != nil; x = x.after {
		patience := w.patience(x) // before last, which is set before what it looks at
		left := time.Duration(x.last.Load()) + patience - now
		if left <= 0 {
			stale = append(stale, x)
			continue
		}
		next = min(next, left)
	}
	if w.timer = nil; w.first != nil {
		w.timer = time.AfterFunc(max(next, w.soonest()), w.look)
	}
	w.mu.Unlock()
	for _, x := range stale {
		x.giveUp()
	}
}
