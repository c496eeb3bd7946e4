// Package store does rate limiting for the owner of a service: a [Store]
// remembers how much each key has used, and decides by the limits of package
// limit whether a request may pass:
//
//	var s memory.Store // or throttleredis.Store, throttlesql.Store
//
//	d, err := store.Take(ctx, &s, "user:42", perMinute, 1)
//	if err != nil { ... }                        // the Store could not decide
//	if !d.OK { ... come again after d.RetryAfter } // a refusal is a value
//
// A [Store] is a rate limit backend. Most owners need no more than [Take] and
// [memory.Store], the Store in this process; throttleredis.Store and
// throttlesql.Store are shared by many processes. Put such a remote Store
// behind a circuit breaker ([Guard]), and, if a few keys get most of the
// requests, let [Leases] prefetch their tokens:
//
//	s := &store.Leases{Store: &store.Guard{Store: remote, Instances: 8}}
//
// [InFlight] is a keyed semaphore: it bounds the requests in flight for each
// key, besides their rate. [Limiter] is one token bucket without a key and
// without a Store. [Clear] and [SetUsed] change what one key has used, by hand.
//
// Package rules states which requests are subject to which limits. Package admit
// makes requests wait, or sheds them, where a Store would refuse, and puts all of
// it in front of a service: see admit.Control.
package store

import (
	"context"
	"errors"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
)

// Store decides whether requests may pass and remembers the state of each key.
// It decides as package limit does. It is safe for concurrent use. Package
// throttletest tests implementations.
type Store interface {
	// Take charges every ask of a or none of them, and writes the decision
	// about a[i] to d[i], as [limit.TakeAll] does. ok reports whether all pass;
	// a refusal is not an error. An error means that the Store could not
	// decide; whether anything was charged is then unknown. Slices of different
	// lengths and two asks about one key are errors. Take keeps neither slice.
	//
	// The limit is not part of the key: two limits on one subject need two
	// keys.
	Take(ctx context.Context, a []limit.Ask, d []limit.Decision) (ok bool, err error)
}

var _ interface {
	Store
	Direct
	keyTaker
	keyAllower
} = (*memory.Store)(nil)

// Func makes a function a [Store].
type Func func(ctx context.Context, a []limit.Ask, d []limit.Decision) (ok bool, err error)

// Take calls f.
func (f Func) Take(ctx context.Context, a []limit.Ask, d []limit.Decision) (ok bool, err error) {
	if f == nil {
		panic("store: Func: the function is nil")
	}
	return f(ctx, a, d)
}

// Direct is optionally implemented by a [Store] that decides one ask faster than
// Take does. [Take] and [Allow] look for it, as io.Copy looks for an
// io.WriterTo. A Store that can always decide may also have these methods, which
// Allow and Take call. TakeKey returns the fields of a Decision one by one, in
// their order, as they are then passed in registers, which a struct is not.
//
//	Allow(key string, l limit.Limit, n int64) bool
//
//	TakeKey(key string, l limit.Limit, n int64) (ok bool, charged, most, remaining int64,
//		retryAfter, resetAfter time.Duration, at time.Time)
type Direct interface {
	// TakeOne decides one ask, as Take of the Store does.
	TakeOne(ctx context.Context, a limit.Ask) (limit.Decision, error)
	// Itself reports whether s is this Store, and not a type that embeds it: a
	// Take that the outer type defines must not be bypassed.
	Itself(s any) bool
}

// Take charges n tokens for key, if l allows, and reports what is left. A zero
// n peeks, a negative n refunds. A refusal is a value, d.OK; an error means
// that s could not decide.
//
// With a Store in this process that is also a [Direct], it does not allocate.
func Take(ctx context.Context, s Store, key string, l limit.Limit, n int64) (d limit.Decision, err error) {
	check("Take", ctx, s)
	if fast, ok := s.(keyTaker); ok && fast.Itself(s) {
		d.OK, d.N, d.Max, d.Remaining, d.RetryAfter, d.ResetAfter, d.At = fast.TakeKey(key, l, n)
		return d, nil
	}
	return takeOne(ctx, s, limit.Ask{Key: key, Limit: l, N: n})
}

// A keyTaker is a Direct with the method for Take, and a keyAllower one with that
// for Allow.
type (
	keyTaker interface {
		Itself(s any) bool
		TakeKey(key string, l limit.Limit, n int64) (ok bool, charged, most, remaining int64, retryAfter, resetAfter time.Duration, at time.Time)
	}
	keyAllower interface {
		Itself(s any) bool
		Allow(key string, l limit.Limit, n int64) bool
	}
)

// takeOne asks s, as a Direct if it is one.
func takeOne(ctx context.Context, s Store, a limit.Ask) (limit.Decision, error) {
	if d, ok := s.(Direct); ok && d.Itself(s) {
		return d.TakeOne(ctx, a)
	}
	var q struct { // one allocation for both
		a [1]limit.Ask
		d [1]limit.Decision
	}
	q.a[0] = a
	_, err := s.Take(ctx, q.a[:], q.d[:])
	return q.d[0], err
}

// Allow charges one token for key, if l allows, and reports whether it did: it
// is [Take] for callers that need only yes or no. An error means that s could
// not decide.
//
// With a Store in this process it is the fastest way to ask, see [Direct].
func Allow(ctx context.Context, s Store, key string, l limit.Limit) (bool, error) {
	check("Allow", ctx, s)
	if fast, ok := s.(keyAllower); ok && fast.Itself(s) {
		return fast.Allow(key, l, 1), nil
	}
	d, err := Take(ctx, s, key, l, 1)
	return d.OK, err
}

// check panics if something is missing: a nil dereference further down would not
// say what.
func check(call string, ctx context.Context, s Store) {
	switch {
	case ctx == nil:
		panic("store: " + call + ": the context is nil")
	case s == nil:
		panic("store: " + call + ": the Store is nil")
	}
}

// InProcess returns a new [memory.Store], for adapters that were given no
// Store.
func InProcess() Store { return new(memory.Store) }

// FailOpen returns a Store that asks s and admits, uncharged, whatever s cannot
// decide. It hides the errors of s, but not that asks are malformed
// ([limit.ErrAsks]), and waits as long as s does: use a [Guard] to count the
// errors and to bound the wait.
func FailOpen(s Store) Store {
	if s == nil {
		panic("store: FailOpen: the Store is nil")
	}
	return Func(func(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
		if err := limit.CheckAsks(a, d); err != nil {
			return false, err
		}
		ok, err := s.Take(ctx, a, d)
		if err == nil || errors.Is(err, limit.ErrAsks) {
			return ok, err
		}
		pass(a, d)
		return true, nil
	})
}
