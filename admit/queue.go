package admit

import (
	"cmp"
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/store"
)

// ErrQueueFull says that too many callers were waiting already: the Reason of the
// [store.Error] of a [Queue] or a [Shedder].
var ErrQueueFull = errors.New("too many callers are waiting")

// Queue is a shaper: it makes callers wait until their limit admits them, first
// come, first served for each key, in a bounded queue. With a token bucket of
// Burst 1 it is a leaky bucket as a queue: bursts leave it at a constant rate.
//
// The zero value is ready. A Queue is safe for concurrent use; it must not be
// copied, nor its fields changed, after first use. It starts no goroutine and
// needs no closing.
//
// Nothing is reserved. The first in line for a key takes from the Store at the
// time that the last decision gave, and those behind it for which there is room
// do so too; when it leaves, the next becomes the first. So callers that give
// up held no tokens and leave no hole. Requests that take from the Store
// without the Queue may overtake those in it.
//
// Timers fire late, by a millisecond or so, and a bucket of Burst 1 does not
// make up for it: to keep an average above some 100 a second, let Burst be what
// passes in a few milliseconds.
type Queue struct {
	// Store decides. If nil, a [memory.Store] of this Queue's own.
	Store store.Store
	// MaxWaiting bounds the callers in line, of all keys together and including
	// those that are calling the Store; further ones are refused with
	// [ErrQueueFull]. If zero or below, 100,000.
	MaxWaiting int
	// MaxPerKey bounds the callers in line for one key. If zero or below, 1000.
	MaxPerKey int
	// MaxWait bounds the wait, besides the deadline of the context. If zero or
	// below, only that deadline does.
	MaxWait time.Duration

	own     memory.Store // used if there is no Store
	mu      sync.Mutex   // guards all below; no Store is called under it
	lines   map[string]*line
	waiting int
}

// Wait waits until l admits n tokens for key, and charges them. l becomes the
// limit of the callers that wait for the key already, as with [Queue.Change]. A
// zero n waits for its turn and until nothing is owed, and charges nothing; a
// negative n is refunded at once.
//
// A caller that is not admitted gets a [*store.Error] and is charged nothing.
// The Reason is one of
//
//   - ErrQueueFull.
//   - store.ErrNeverFits, as the limit never admits so many tokens at once.
//   - store.ErrUndecided, when the Store failed; only then tokens may have been
//     charged.
//   - the Cause of ctx, when ctx ended.
//   - context.DeadlineExceeded, as soon as it is clear that the turn will not
//     come before the deadline; Wait is the forecast.
//
// The forecast is made on arrival, when the limit changes, and at the head of
// the line. For a token bucket and a fixed window it is the time of admission
// if no caller gives up or takes from the Store without the Queue; for other
// kinds it is never too late, unless a caller ahead gives up or is refused.
//
// A grant in the instant in which ctx ends is a grant: the error is nil. The
// Decision is the last one of the Store, zero if the Store was not called.
func (q *Queue) Wait(ctx context.Context, key string, l limit.Limit, n int64) (limit.Decision, error) {
	if ctx == nil {
		panic("admit: Queue.Wait: the context is nil")
	}
	if n < 0 {
		return q.giveBack(ctx, key, l, n)
	}
	if q.MaxWait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, q.MaxWait)
		defer cancel()
	}
	w, err := q.enter(ctx, key, l, n)
	if err != nil {
		return limit.Decision{}, err
	}
	defer q.leave(w) // also when the Store panics
	var d limit.Decision
	told, err := w.sleep(ctx, limit.Never)
	for err == nil {
		var again time.Duration
		if told {
			again, err = q.planned(w)
		}
		if again == 0 && err == nil {
			d, again, err = q.ask(ctx, w)
		}
		if again == 0 || err != nil {
			break
		}
		told, err = w.sleep(ctx, again)
	}
	return d, err
}

// Change makes l the limit of the callers that wait for key: the first of them
// calls the Store at once, and callers that can no longer meet their deadlines
// are refused. The state that the Store keeps for key is not changed.
func (q *Queue) Change(key string, l limit.Limit) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if line := q.lines[key]; line != nil {
		line.change(l)
	}
}

// Waiting returns the number of callers in line, of all keys.
func (q *Queue) Waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting
}

// giveBack refunds -n, and lets the first in line try.
func (q *Queue) giveBack(ctx context.Context, key string, l limit.Limit, n int64) (limit.Decision, error) {
	d, err := store.Take(ctx, q.store(), key, l, n)
	if err != nil {
		return d, store.Undecided(ctx, err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if line := q.lines[key]; line != nil {
		line.change(l)
	}
	return d, nil
}

// enter adds a caller to the line; if it is the first, its turn has come.
func (q *Queue) enter(ctx context.Context, key string, l limit.Limit, n int64) (*queued, error) {
	if ctx.Err() != nil {
		return nil, store.Ended(ctx, nil)
	}
	if n > l.Max() {
		return nil, &store.Error{Reason: store.ErrNeverFits, Wait: limit.Never}
	}
	w := &queued{key: key, n: n, turn: make(chan struct{}, 1)}
	w.deadline, _ = ctx.Deadline()
	q.mu.Lock()
	defer q.mu.Unlock()
	at := q.lines[key]
	if at != nil && at.limit != l {
		at.change(l)
	}
	if e := q.refuse(at, w); e != nil {
		return nil, e
	}
	if at == nil {
		if q.lines == nil {
			q.lines = make(map[string]*line)
		}
		at = &line{limit: l}
		q.lines[key] = at
	}
	w.line = at
	at.queue.Push(&w.place, w)
	at.sum += n
	q.waiting++
	if w.called = at.queue.Len() == 1 || at.room(time.Now(), at.sum); w.called {
		w.poke()
	}
	return w, nil
}

// refuse returns why w must not join the line, nil if it may. Caller holds mu.
func (q *Queue) refuse(at *line, w *queued) *store.Error {
	if q.waiting >= cmp.Or(max(q.MaxWaiting, 0), 100_000) {
		return &store.Error{Reason: ErrQueueFull, Wait: at.forecast(w.n)}
	}
	if at == nil {
		return nil
	}
	wait := at.forecast(w.n)
	switch {
	case at.queue.Len() >= cmp.Or(max(q.MaxPerKey, 0), 1000) || w.n > math.MaxInt64-at.sum:
		return &store.Error{Reason: ErrQueueFull, Wait: wait}
	case wait != limit.Never && w.late(time.Now(), wait):
		return &store.Error{Reason: context.DeadlineExceeded, Wait: wait}
	}
	return nil
}

// leave removes w from its line, if it is in one, and lets the next be first.
func (q *Queue) leave(w *queued) {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := w.line
	if at == nil {
		return
	}
	first := at.queue.Front() == w
	q.remove(w)
	if first {
		q.hand(at, w.key)
	}
}

// hand gives the turn to those that have become first or have room. Caller
// holds mu.
func (q *Queue) hand(at *line, key string) {
	if at.queue.Len() == 0 {
		delete(q.lines, key)
		return
	}
	at.call()
}

// remove removes w from its line. Caller holds mu.
func (q *Queue) remove(w *queued) {
	w.line.asking(w, false)
	w.line.queue.Remove(&w.place)
	w.line.sum -= w.n
	w.line = nil
	q.waiting--
}

// planned returns how long w, whose turn it is, need not call the Store, as the
// last decision foretells when it may pass: so a caller that gives up costs no
// call. Zero if it should call.
func (q *Queue) planned(w *queued) (time.Duration, error) {
	now := time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	at := w.line
	if !at.plan.known() || !foreseeable(at.limit) {
		return 0, nil
	}
	wait := at.plan.wait(at.limit, now, w.n)
	switch {
	case wait == limit.Never: // let the Store say so
		return 0, nil
	case w.late(now, wait):
		return 0, &store.Error{Reason: context.DeadlineExceeded, Wait: wait}
	case wait > 0 && at.queue.Front() != w: // there is less room than foreseen: it will be called again
		w.called = false
		return limit.Never, nil
	}
	return wait, nil
}

// ask calls the Store for w, whose turn it is. again is when to return, zero if
// the result is final.
func (q *Queue) ask(ctx context.Context, w *queued) (d limit.Decision, again time.Duration, err error) {
	if ctx.Err() != nil {
		return d, 0, store.Ended(ctx, nil)
	}
	q.mu.Lock()
	l := w.line.limit
	w.line.asking(w, true)
	q.mu.Unlock()
	if d, err = store.Take(ctx, q.store(), w.key, l, w.n); err != nil {
		return d, 0, store.Undecided(ctx, err)
	}
	now := time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	at := w.line
	at.asking(w, false)
	changed, first := at.limit != l, at.queue.Front() == w
	switch p := (plan{at: now, d: d}); {
	case d.OK: // what follows counts from behind w
		q.remove(w)
		if !changed && p.after(at.plan) {
			q.foresee(at, p)
		}
		q.hand(at, w.key)
		return d, 0, nil
	case !first: // there was less room than foreseen: it will be called again
		w.called = false
		return d, limit.Never, nil
	case changed: // another may have been the first then, and was woken
		w.poke()
		return d, limit.Never, nil
	default:
		q.foresee(at, p)
		again, err = w.again(now, d)
		return d, again, err
	}
}

// foresee records a decision. If it is the first under this limit, it refuses
// those that came without a forecast and will not make their deadlines; those
// whose turn it is find out by themselves. Caller holds mu.
func (q *Queue) foresee(at *line, p plan) {
	known := at.plan.known()
	at.plan = p
	if known {
		return
	}
	sum := int64(0)
	for w := range at.queue.All() {
		if !w.called {
			w.refused = at.hopeless(w, p, sum+w.n)
		}
		switch {
		case w.asks: // it may have been served
			continue
		case w.refused == nil:
			sum += w.n
			continue
		}
		q.remove(w)
		w.poke()
	}
}

func (q *Queue) store() store.Store {
	if q.Store != nil {
		return q.Store
	}
	return &q.own
}
