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

// Quota bounds how many objects each customer has: files, machines, rows. It
// counts them by a function of yours, remembers the count for a while, and
// corrects it by what is created and deleted meanwhile.
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
// As long as all that is created goes through one Quota, and Count sees what
// Done was called for, there are never more objects than allowed, however the
// calls overlap: whatever may be missing in a count is added to it, even if it
// may be in it already, and what was deleted is believed only when it is counted
// anew. What others create is seen when the count is next loaded.
//
// A Quota is safe for concurrent use once Count is set; it must not be copied,
// nor its fields changed, after first use. It needs no closing: the goroutine
// that it starts to call Count ends when Count returns.
type Quota struct {
	// Count says how many objects there are under the key. Its context is
	// cancelled when nobody waits for it any more, and has the values of the
	// context of the first who did. It is called for one key by one goroutine
	// at a time, and must return when its context ends. It must be set.
	Count func(ctx context.Context, key string) (int64, error)
	// MaxAge is for how long a count is used, from when its loading began. If
	// zero or below, a minute.
	MaxAge time.Duration
	// MaxStale is for how much longer it is used while Count fails. If zero or
	// below, not at all.
	MaxStale time.Duration
	// RetryInterval is how long after Count has failed it is not called again, under
	// the same key. If zero or below, a second.
	RetryInterval time.Duration
	// MaxKeys bounds the keys remembered; beyond it, the one longest unused is
	// forgotten, and counted anew when it comes back. One for which something
	// is being loaded or created is not; if all are such, a new key is an
	// error. If zero or below, 100,000, which take some 30 MB.
	MaxKeys int

	mu       sync.Mutex // guards all below; no Count is called under it
	accounts map[string]*account
	idle     list.List[account] // that nobody is busy with, the longest so first
}

// Creation is the answer to a [Quota.Create].
type Creation struct {
	// OK is whether the objects may be created.
	OK bool
	// Held is how many there are, with these ones if OK. It may be too high by
	// what is being created and deleted.
	Held int64

	of     *Quota
	at     *account // nil: it has ended
	n      int64
	loaded int64 // of the account, when it was granted
}

var (
	errNoCount = errors.New("the Quota has no Count")
	errEnded   = errors.New("Count ended its goroutine")
	errAllBusy = errors.New("as many keys as the Quota may remember are being loaded or created under")
)

// Create asks whether n more objects may be created under the key, where most
// may exist. Zero n counts as 1; below zero is refused. most may change from one
// question to the next. A refusal is a value: OK is false.
//
// If OK, the objects count from now on, until Cancel: call Done when they exist,
// and Cancel when they surely do not. If that is not known, call Done; the next
// count will tell.
//
// An error is an [*store.Error]: ErrUndecided, with the error of Count, or the end of
// ctx while Count was awaited. Then there is no Creation: it is nil, which may
// be cancelled.
func (q *Quota) Create(ctx context.Context, key string, n, most int64) (*Creation, error) {
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

// Cancel says that the objects do not exist, and gives back what was counted for
// them. After Done, or a second time, or where Create refused, it does nothing.
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

// Deleted says that n objects are no more. Call it when the deletion can be seen
// by Count. It does not lower the count, since the count may have been loaded
// after the deletion; but a Create that would be refused because of them loads
// it anew first. Below 1, n is taken as 1.
func (q *Quota) Deleted(key string, n int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if a := q.accounts[key]; a != nil {
		a.doubt = saturate(a.doubt, max(n, 1))
		a.doubtSoon = saturate(a.doubtSoon, max(n, 1))
	}
}

// Held is how many objects count under the key now, and how old the count is
// that this rests on; ok is false if there is none. It loads nothing.
func (q *Quota) Held(key string) (n int64, age time.Duration, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if a := q.accounts[key]; a != nil && a.loads > 0 {
		return a.held(), time.Since(a.at), true
	}
	return 0, 0, false
}

// try decides, or says which load to await first.
func (q *Quota) try(ctx context.Context, key string, n, most int64, past *pastLoads) (*Creation, *loading, error) {
	if q.Count == nil {
		return nil, nil, &store.Error{Reason: store.ErrUndecided, Err: errNoCount}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	a := q.account(key)
	if a == nil {
		return nil, nil, &store.Error{Reason: store.ErrUndecided, Err: errAllBusy}
	}
	defer q.rest(a)
	now := time.Now()
	failed := a.failedSince(now.Add(-cmp.Or(max(q.RetryInterval, 0), time.Second)), past)
	fresh, usable := q.usable(a, now)
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

// usable is whether the count of a is fresh, and whether it will do in need.
func (q *Quota) usable(a *account, now time.Time) (fresh, usable bool) {
	if a.loads == 0 {
		return false, false
	}
	age, most := now.Sub(a.at), cmp.Or(max(q.MaxAge, 0), time.Minute)
	return age < most, age-most < max(q.MaxStale, 0) || age < most
}

// account is that of the key, made if need be: nil if there is no room. Until
// the next rest it is not idle. Caller holds mu.
func (q *Quota) account(key string) *account {
	a := q.accounts[key]
	if a != nil {
		q.idle.Remove(&a.place)
		return a
	}
	if len(q.accounts) >= cmp.Or(max(q.MaxKeys, 0), 100_000) {
		oldest := q.idle.Front()
		if oldest == nil {
			return nil
		}
		q.idle.Remove(&oldest.place)
		delete(q.accounts, oldest.key)
	}
	if q.accounts == nil {
		q.accounts = make(map[string]*account)
	}
	a = newAccount(key)
	q.accounts[a.key] = a
	return a
}

// rest makes a idle if nobody is busy with it. Caller holds mu.
func (q *Quota) rest(a *account) {
	if a.busy > 0 {
		return
	}
	q.idle.Remove(&a.place)
	q.idle.Push(&a.place, a)
}

// count calls Count. A panic is an error, as there is no caller to meet it.
func (q *Quota) count(ctx context.Context, key string) (n int64, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("Count panicked: %v", p)
		}
	}()
	return q.Count(ctx, key)
}

// saturate is a + b, or the largest int64. Neither is negative.
func saturate(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
