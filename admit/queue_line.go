package admit

import (
	"context"
	"math"
	"time"

	"github.com/throttle-go/throttle/internal/list"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/store"
)

// line holds the callers that wait for one key. It exists while there are any.
type line struct {
	limit limit.Limit
	queue list.List[queued]
	sum   int64 // tokens that all in line want
	asked int64 // of these, what the Store is being asked for
	plan  plan
}

// queued is one caller in line.
type queued struct {
	place    list.Node[queued]
	line     *line // nil: in none
	key      string
	n        int64
	called   bool          // its turn has come
	asks     bool          // it is calling the Store
	deadline time.Time     // zero: none
	turn     chan struct{} // holds one: call the Store, or read refused
	refused  *store.Error  // why it was removed from its line
}

// change makes l the limit of the line, and lets the first call the Store.
// Caller holds mu.
func (at *line) change(l limit.Limit) {
	at.limit, at.plan = l, plan{}
	at.queue.Front().poke()
}

// call gives the turn to those that may pass by the last decision, and to the
// first in any case. One that is calling the Store counts as not yet served,
// though it may have been: rather one turn too few. Caller holds mu.
func (at *line) call() {
	now, sum := time.Now(), int64(0)
	for w := range at.queue.All() {
		sum += w.n
		if w != at.queue.Front() && !at.room(now, sum) {
			return
		}
		if !w.called {
			w.called = true
			w.poke()
		}
	}
}

// room reports whether n may pass at once, by the last decision: no more than
// Max do, also where a window was not in use, or has ended since. Caller holds mu.
func (at *line) room(now time.Time, n int64) bool {
	return at.plan.known() && foreseeable(at.limit) && n <= at.limit.Max() && at.plan.wait(at.limit, now, n) == 0
}

// forecast returns the time until n more, behind all in line, may pass:
// limit.Never if it is unknown. One that is calling the Store counts as served,
// though it may not be: rather too early. Caller holds mu. at may be nil.
func (at *line) forecast(n int64) time.Duration {
	if at == nil || !at.plan.known() || n > math.MaxInt64-at.sum {
		return limit.Never
	}
	return at.plan.wait(at.limit, time.Now(), at.sum-at.asked+n)
}

// asking records whether w is calling the Store. Caller holds mu.
func (at *line) asking(w *queued, asks bool) {
	switch {
	case asks && !w.asks:
		at.asked += w.n
	case !asks && w.asks:
		at.asked -= w.n
	}
	w.asks = asks
}

// hopeless returns why w will not be served, nil if it may be. sum is what
// passes from p on, including w. Caller holds mu.
func (at *line) hopeless(w *queued, p plan, sum int64) *store.Error {
	if w.n > at.limit.Max() {
		return &store.Error{Reason: store.ErrNeverFits, Wait: limit.Never}
	}
	if wait := p.wait(at.limit, p.at, sum); w.late(p.at, wait) {
		return &store.Error{Reason: context.DeadlineExceeded, Wait: wait}
	}
	return nil
}

// again returns how long w sleeps after a refusal of the Store, or why it does
// not.
func (w *queued) again(now time.Time, d limit.Decision) (time.Duration, error) {
	switch {
	case d.RetryAfter == limit.Never:
		return 0, &store.Error{Reason: store.ErrNeverFits, Wait: limit.Never}
	case w.late(now, d.RetryAfter):
		return 0, &store.Error{Reason: context.DeadlineExceeded, Wait: d.RetryAfter}
	case d.RetryAfter <= 0: // a Store that contradicts itself
		return time.Millisecond, nil
	}
	return d.RetryAfter, nil
}

// poke wakes w.
func (w *queued) poke() {
	select {
	case w.turn <- struct{}{}:
	default: // it is woken already
	}
}

// late reports whether w cannot wait that long. A turn at the deadline is too
// late.
func (w *queued) late(now time.Time, wait time.Duration) bool {
	return !w.deadline.IsZero() && wait >= w.deadline.Sub(now)
}

// sleep waits until it is the turn of w (told is true), or for d, or for the end of
// ctx.
func (w *queued) sleep(ctx context.Context, d time.Duration) (told bool, err error) {
	var ring <-chan time.Time
	if d != limit.Never {
		timer := time.NewTimer(d)
		defer timer.Stop()
		ring = timer.C
	}
	select {
	case <-ring:
		return false, nil
	case <-w.turn:
		if w.refused != nil {
			return true, w.refused
		}
		return true, nil
	case <-ctx.Done():
		return false, store.Ended(ctx, nil)
	}
}
