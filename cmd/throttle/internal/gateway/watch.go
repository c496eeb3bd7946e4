package gateway

import (
	"sync"
	"time"
)

// watchlist cuts exchanges in which nothing moves. One timer looks at all of
// them, as a timer for each would cost more than all else that is done for a
// small answer.
type watchlist struct {
	idle  time.Duration
	start time.Time // that the times of the exchanges count from

	mu      sync.Mutex // guards what follows, and the links of the exchanges
	first   *exchange
	timer   *time.Timer // of the next look; nil if there is none
	retired bool        // the route is not in use any more
}

// every returns how often the list is looked at: an exchange is cut when nothing
// has moved for idle, or a quarter more.
func (w *watchlist) every() time.Duration { return max(w.idle/4, time.Millisecond) }

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
		w.timer = time.AfterFunc(w.every(), w.look)
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

// look cuts those in which nothing has moved. It looks again later, unless there
// are none.
func (w *watchlist) look() {
	now := time.Since(w.start)
	var stale []*exchange
	w.mu.Lock()
	for x := w.first; x != nil; x = x.after {
		if now-time.Duration(x.last.Load()) >= w.idle {
			stale = append(stale, x)
		}
	}
	if w.timer = nil; w.first != nil {
		w.timer = time.AfterFunc(w.every(), w.look)
	}
	w.mu.Unlock()
	for _, x := range stale {
		x.giveUp()
	}
}
