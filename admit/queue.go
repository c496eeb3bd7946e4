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

// Reasons for which a [Queue] refuses, as the Reason of an [store.Error].
var (
	// ErrQueueFull says that too many callers were waiting already.
	ErrQueueFull = errors.New("too many callers are waiting")
	// ErrNever says that the limit would never let so much pass at once.
	ErrNever = errors.New("more than the limit lets pass at once")
)

// Queue lets callers wait until their limit lets them pass: first come, first
// served under each key, in a queue that is bounded. With a token bucket of
// Burst 1 it is the leaky bucket as a queue, a shaper: what comes in gusts goes
// out at a constant rate.
//
// The zero value is ready. A Queue is safe for concurrent use; it must not be
// copied, nor its fields changed, after its first use. It starts no goroutine
// and needs no closing.
//
// Nothing is reserved. The first in line under a key asks the Store, when by the
// last answer it may pass, and with it those behind for whom there is room as
// well; when it leaves, the next is first. So those who give up held nothing, and
// leave no hole. Who takes from the Store past the Queue is not in line, and may
// be served before.
//
// Timers ring late, by a millisecond or so, and a bucket of Burst 1 does not
// make up for it: to keep an average above some 100 a second, let Burst be what
// passes in a few milliseconds.
type Queue struct {
	// Store decides. If nil, a [memory.Store] of this Queue's own.
	Store store.Store
	// MaxWaiting bounds those in line under all keys, with those that ask the
	// Store; more are refused with [ErrQueueFull]. If zero or below, 100,000.
	MaxWaiting int
	// MaxPerKey bounds those in line under one key. If zero or below, 1000.
	MaxPerKey int
	// MaxWait is the longest wait: a deadline besides that of the context. If
	// zero or below, there is none.
	MaxWait time.Duration

	own     memory.Store // used if there is no Store
	mu      sync.Mutex   // guards all below; no Store is called under it
	lines   map[string]*line
	waiting int
}

// Wait waits until n may pass under the key, and takes it. l is the limit of
// the key: it holds for those who wait already, too, as by [Queue.Change]. Zero
// n waits for its turn and until nothing is owed, and takes nothing; below zero
// is given back at once.
//
// Whoever is not served gets an [*store.Error] and has taken nothing. Its Reason is
// ErrFull; ErrNever; ErrUndecided when the Store failed (only then may
// something have been taken); the Cause of ctx if it ended; or
// context.DeadlineExceeded as soon as it is clear that the turn will not come
// before the deadline, with the forecast in Wait. That is looked at on arrival,
// when the limit changes, and at the head of the line; the forecast is of a token
// bucket and a fixed window the time at which it would be served if nobody gave
// up or took from elsewhere, and of other kinds one that is surely too early.
//
// What is granted in the instant in which ctx ends is granted: the error is nil.
// The Decision is the last one of the Store, zero if it was not asked.
func (q *Queue) Wait(ctx context.Context, key string, l limit.Limit, n int64) (limit.Decision, error) {
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

// Change makes l the limit of those who wait under the key: the first of them
// asks at once, and who cannot make its deadline any more is refused. What the
// Store remembers of the key is the Store's business.
func (q *Queue) Change(key string, l limit.Limit) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if line := q.lines[key]; line != nil {
		line.change(l)
	}
}

// Waiting is the number of those in line under all keys.
func (q *Queue) Waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting
}

// giveBack returns -n, and lets the first in line see whether that will do.
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

// enter puts one more in line; if it is the first, it is its turn.
func (q *Queue) enter(ctx context.Context, key string, l limit.Limit, n int64) (*queued, error) {
	if ctx.Err() != nil {
		return nil, store.Ended(ctx, nil)
	}
	if n > l.Max() {
		return nil, &store.Error{Reason: ErrNever, Wait: limit.Never}
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

// refuse is why w must not join the line, nil if it may. Caller holds mu.
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

// leave takes w out of its line, if it is in one, and lets the next be first.
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

// hand lets those go on who have become first, or have room. Caller holds mu.
func (q *Queue) hand(at *line, key string) {
	if at.queue.Len() == 0 {
		delete(q.lines, key)
		return
	}
	at.call()
}

// remove takes w out of its line. Caller holds mu.
func (q *Queue) remove(w *queued) {
	w.line.asking(w, false)
	w.line.queue.Remove(&w.place)
	w.line.sum -= w.n
	w.line = nil
	q.waiting--
}

// planned is how long w, which has been called, need not ask, since the last
// answer foretells when it may pass: so the Store is not asked again for each
// that gives up. Zero if it should ask.
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
	}
	return wait, nil
}

// ask asks the Store for w, which has been called. again is when to come back,
// zero if all is said.
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
		if !changed {
			q.foresee(at, p)
		}
		q.hand(at, w.key)
		return d, 0, nil
	case !first: // there was less room than foreseen: it will be called again
		w.called = false
		return d, limit.Never, nil
	case changed:
		return d, limit.Never, nil // it has been told to ask anew
	default:
		q.foresee(at, p)
		again, err = w.again(now, d)
		return d, again, err
	}
}

// foresee takes note of an answer. If it is the first under this limit, those
// who came without a forecast, and will not make it, are refused; those who have
// been called will see for themselves. Caller holds mu.
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
