package admit

import (
	"context"
	"strings"
	"time"

	"github.com/throttle-go/throttle/internal/list"
	"github.com/throttle-go/throttle/store"
)

// keyCount is what a [Quota] remembers of one key.
//
// A count that was loaded from S to E was true at some instant between. Objects
// that were Done before S are in it. What ended after S may be in it or not,
// and is added, until a later load begins after it has ended; likewise what is
// pending. What is not yet known to exist is added as well. So held is never
// too low. doubt is by how much it may be too high, as far as a new load would
// tell.
type keyCount struct {
	place list.Node[keyCount] // in idle
	key   string
	busy  int // loads and creations in flight

	loads   int64     // how many have succeeded; zero: there is no count yet
	at      time.Time // when the last of them began
	count   int64     // what it found
	since   int64     // created since it began
	pending int64     // granted, and neither Done nor cancelled
	doubt   int64     // deleted since it began, or created and perhaps in count
	// What since and doubt will be when the load in flight succeeds.
	sinceSoon, doubtSoon int64

	load     *loading // in flight; nil: none
	failed   error    // of the last load; nil: it succeeded
	failedAt time.Time
}

// loading is one call of Count.
type loading struct {
	of      *keyCount
	done    chan struct{} // closed when it is over
	cancel  context.CancelFunc
	waiting int
	dropped bool  // cancelled, as no Create waited for it any more
	err     error // set before done is closed
}

// pastLoads are the loads that one Create has waited for.
type pastLoads struct {
	n      int
	failed error
}

func newKeyCount(key string) *keyCount {
	return &keyCount{key: strings.Clone(key)} // it may be part of a large string
}

// held returns how many objects there may be.
func (a *keyCount) held() int64 {
	return saturate(saturate(a.count, a.since), a.pending)
}

// created records that n pending objects exist. counted reports whether a load
// has ended since they were granted, which may have found them.
func (a *keyCount) created(n int64, counted bool) {
	a.since = saturate(a.since, n)
	if counted {
		a.doubt = saturate(a.doubt, n)
	}
	// A load in flight may find them, or not.
	a.sinceSoon = saturate(a.sinceSoon, n)
	a.doubtSoon = saturate(a.doubtSoon, n)
}

// failedSince returns why no load may begin: one has failed since, or one that
// was waited for; nil if it may.
func (a *keyCount) failedSince(since time.Time, past *pastLoads) error {
	if past.failed != nil {
		return past.failed
	}
	if a.failed != nil && a.failedAt.After(since) {
		return a.failed
	}
	return nil
}

// join waits for the load of a, and begins one if there is none. Caller holds
// mu.
func (q *Quota) join(ctx context.Context, a *keyCount) *loading {
	if a.load == nil {
		ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		a.load = &loading{of: a, done: make(chan struct{}), cancel: cancel}
		a.sinceSoon, a.doubtSoon = 0, 0
		a.busy++
		go q.run(ctx, a.load, time.Now())
	}
	a.load.waiting++
	return a.load
}

// run is the goroutine of a load that began at since.
func (q *Quota) run(ctx context.Context, l *loading, since time.Time) {
	n, err := int64(0), errEnded
	defer func() { // even if Count ends the goroutine
		l.cancel()
		q.loaded(l, since, n, err)
	}()
	n, err = q.count(ctx, l.of.key)
}

// loaded records what a load has found.
func (q *Quota) loaded(l *loading, since time.Time, n int64, err error) {
	now := time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	a := l.of
	switch {
	case err == nil:
		a.loads++
		a.at, a.count, a.failed = since, max(n, 0), nil
		a.since, a.doubt = a.sinceSoon, a.doubtSoon
	case !l.dropped: // otherwise it failed because it was cancelled
		a.failed, a.failedAt = err, now
	}
	l.err, a.load = err, nil
	a.busy--
	q.rest(a)
	close(l.done)
}

// await waits for l, or for the end of ctx. The last one to leave cancels it.
func (q *Quota) await(ctx context.Context, l *loading, past *pastLoads) error {
	select {
	case <-l.done:
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	l.waiting--
	select {
	case <-l.done:
		past.add(l)
		return nil
	default:
	}
	if l.waiting == 0 {
		l.dropped = true
		l.cancel()
	}
	return store.Ended(ctx, nil)
}

// add counts a load that has ended. One that was cancelled does not count: a
// Create that came too late to keep it alive begins another.
func (p *pastLoads) add(l *loading) {
	switch {
	case l.err == nil:
		p.n++
	case !l.dropped:
		p.failed = l.err
	}
}
