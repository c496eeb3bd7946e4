package admit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/throttle-go/throttle/internal/list"
	"github.com/throttle-go/throttle/store"
)

// Quota bounds how many objects each key has: files, machines, rows of a
// customer. It calls a function of yours to count them, caches the count, and
// corrects it by the objects that are created and deleted meanwhile.
//
//	c, err := quota.Create(ctx, customer, 1, 10)
//	defer c.Cancel() // unless Done
//	if err != nil {
//		return err // could not decide
//	}
//	if !c.OK {
//		return errEnough // a refusal is a value
//	}
//	if err := insert(ctx, object); err != nil {
//		return err
//	}
//	c.Done()
//
// If all objects are created through one Quota, and Count sees those for which
// Done was called, there are never more than allowed, however the calls overlap:
// objects that a count may lack are added to it, even if it may include them
// already, and a deletion lowers it only when the objects are counted again.
// Objects created by others are seen when the count is next loaded.
//
// A Quota is safe for concurrent use; it must not be copied, nor its fields
// changed, after first use. It needs no closing: the goroutine that it starts
// to call Count ends when Count returns.
type Quota struct {
	// Count returns the number of objects of key. It is called by one goroutine
	// at a time for each key. Its context has the values of the context of the
	// first Create that waits for it, and is canceled when none waits any more;
	// Count must return then. That is no failure, so let it give up before its
	// callers do, by a timeout of its own, where MaxStale is set. It must be set.
	Count func(ctx context.Context, key string) (int64, error)
	// MaxAge is how long a count is used, from when its loading began. If zero
	// or below, a minute. Where Count takes longer, a Create waits for two counts at
	// most, and uses the second.
	MaxAge time.Duration
	// MaxStale is how much longer a count is used while Count fails. If zero or
	// below, it is not.
	MaxStale time.Duration
	// RetryInterval is the pause after a failure of Count before it is called
	// for the same key again. If zero or below, a second.
	RetryInterval time.Duration
	// MaxKeys bounds the keys remembered; beyond it, the key longest unused is
	// forgotten and counted again when it returns. A key is not forgotten while
	// something is loaded or created for it; if that holds for all, a new key is
	// an error. If zero or below, 100,000, which take some 30 MB.
	MaxKeys int

	mu   sync.Mutex // guards all below; no Count is called under it
	keys map[string]*keyCount
	idle list.List[keyCount] // that are not busy, longest first
}

// Creation is the result of [Quota.Create]. Its objects count until Cancel.
type Creation struct {
	// OK reports whether the objects may be created.
	OK bool
	// Held is the number of objects, including these if OK. It may be too high
	// by the objects that are being created and deleted.
	Held int64

	of     *Quota
	at     *keyCount // nil: it has ended
	n      int64
	loaded int64 // loads of the key when it was granted
}

var (
	errNoCount = errors.New("admit: the Quota has no Count")
	errEnded   = errors.New("admit: Count ended its goroutine")
	errAllBusy = errors.New("admit: as many keys as the Quota may remember are being loaded or created under")
)

// Create asks whether n more objects may be created for key, where at most most
// may exist. A zero n counts as 1; a negative n is refused. most may differ
// from call to call. A refusal is a value: OK is false.
//
// If OK, the objects count from now on: call Done when they exist, and Cancel
// when they certainly do not. If that is unknown, call Done: the next count
// corrects it.
//
// An error is a [*store.Error]: [store.ErrUndecided] with the error of Count,
// or the end of ctx while it waited for Count. The Creation is then nil; its
// Cancel does nothing.
func (q *Quota) Create(ctx context.Context, key string, n, most int64) (*Creation, error) {
	if ctx == nil {
		panic("admit: Quota.Create: the context is nil")
	}
	if n == 0 {
		n = 1
	}
	if n < 0 || n > most {
		held, _, _ := q.Held(key)
		return &Creation{Held: held}, nil
	}
	if ctx.Err() != nil {
		return nil, store.Ended(ctx, nil)
	}
	var past pastLoads
	for {
		c, l, err := q.try(ctx, key, n, most, &past)
		if l == nil {
			return c, err
		}
		if err := q.await(ctx, l, &past); err != nil {
			return nil, err
		}
	}
}

// Done says that the objects exist. After Cancel it does nothing.
func (c *Creation) Done() { c.end(true) }

// Cancel says that the objects do not exist, and no longer counts them. After
// Done, a second time, or where Create refused, it does nothing.
func (c *Creation) Cancel() { c.end(false) }

func (c *Creation) end(exist bool) {
	if c == nil || c.of == nil {
		return
	}
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	a := c.at
	if a == nil {
		return
	}
	c.at = nil
	a.pending -= c.n
	if exist {
		a.created(c.n, c.loaded < a.loads)
	}
	a.busy--
	c.of.rest(a)
}

// Deleted says that n objects were deleted. Call it when Count sees the
// deletion. It does not lower the count, which may have been loaded after the
// deletion; but a Create that would be refused because of these objects first
// loads the count again. An n below 1 counts as 1.
func (q *Quota) Deleted(key string, n int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if a := q.keys[key]; a != nil {
		a.doubt = saturate(a.doubt, max(n, 1))
		a.doubtSoon = saturate(a.doubtSoon, max(n, 1))
	}
}

// Held returns how many objects count for key now, and the age of the count that
// it is based on; ok is false if there is none. It does not call Count.
func (q *Quota) Held(key string) (n int64, age time.Duration, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if a := q.keys[key]; a != nil && a.loads > 0 {
		return a.held(), time.Since(a.at), true
	}
	return 0, 0, false
}

// try decides, or returns the load to wait for first.
func (q *Quota) try(ctx context.Context, key string, n, most int64, past *pastLoads) (*Creation, *loading, error) {
	if q.Count == nil {
		return nil, nil, &store.Error{Reason: store.ErrUndecided, Err: errNoCount}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	a := q.keyCount(key)
	if a == nil {
		return nil, nil, &store.Error{Reason: store.ErrUndecided, Err: errAllBusy}
	}
	defer q.rest(a)
	now := time.Now()
	failed := a.failedSince(now.Add(-cmp.Or(max(q.RetryInterval, 0), time.Second)), past)
	fresh, usable := q.usable(a, now, past)
	held := a.held()
	switch fits := held <= most-n; {
	case !fresh && failed == nil:
		return nil, q.join(ctx, a), nil
	case !usable:
		return nil, nil, &store.Error{Reason: store.ErrUndecided, Err: failed}
	case fits:
		a.pending += n
		a.busy++
		return &Creation{OK: true, Held: held + n, of: q, at: a, n: n, loaded: a.loads}, nil, nil
	case held-min(a.doubt, held) <= most-n && failed == nil && past.n < 2:
		// A new count may help: it settles what is in doubt, or only a part if it
		// has begun already; hence twice, and no more.
		return nil, q.join(ctx, a), nil
	}
	return &Creation{Held: held}, nil, nil
}

// usable reports whether the count of a is fresh, and whether it may be used
// while Count fails. To one that has waited for two loads the second is fresh, as it
// began after that one came: where Count takes longer than MaxAge, there is none
// that is younger.
func (q *Quota) usable(a *keyCount, now time.Time, past *pastLoads) (fresh, usable bool) {
	if a.loads == 0 {
		return false, false
	}
	age, most := now.Sub(a.at), cmp.Or(max(q.MaxAge, 0), time.Minute)
	fresh = age < most || past.n >= 2
	return fresh, fresh || age-most < max(q.MaxStale, 0)
}

// keyCount returns what is remembered of key, added if necessary: nil if there
// is no room. It is not idle until the next rest. Caller holds mu.
func (q *Quota) keyCount(key string) *keyCount {
	a := q.keys[key]
	if a != nil {
		q.idle.Remove(&a.place)
		return a
	}
	if len(q.keys) >= cmp.Or(max(q.MaxKeys, 0), 100_000) {
		oldest := q.idle.Front()
		if oldest == nil {
			return nil
		}
		q.idle.Remove(&oldest.place)
		delete(q.keys, oldest.key)
	}
	if q.keys == nil {
		q.keys = make(map[string]*keyCount)
	}
	a = newKeyCount(key)
	q.keys[a.key] = a
	return a
}

// rest makes a idle if nothing is loaded or created for it. Caller holds mu.
func (q *Quota) rest(a *keyCount) {
	if a.busy > 0 {
		return
	}
	q.idle.Push(&a.place, a)
}

// count calls Count. A panic becomes an error, as no caller could recover from
// it.
func (q *Quota) count(ctx context.Context, key string) (n int64, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("admit: Count panicked: %v", p)
		}
	}()
	return q.Count(ctx, key)
}

// saturate returns a + b, or the largest int64. Neither is negative.
func saturate(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
