package throttle

import (
	"context"

	"github.com/throttle-go/throttle/limit"
)

// Store remembers the state of every key and decides by package limit. It is
// safe for concurrent use. Package throttletest tests whether one keeps its
// word.
type Store interface {
	// Take answers a[i] in d[i], by [limit.TakeAll]: all are charged, or none.
	// ok is whether all pass; a refusal is no error. An error means that
	// nothing could be decided, and perhaps whether anything was charged is
	// not known. a and d are of one length, or it is an error, as it is to ask
	// about one key twice. Take keeps neither slice.
	//
	// The limit is no part of the key: two limits on one subject need two keys.
	Take(ctx context.Context, a []limit.Ask, d []limit.Decision) (ok bool, err error)
}

// StoreFunc is a function as a Store.
type StoreFunc func(ctx context.Context, a []limit.Ask, d []limit.Decision) (ok bool, err error)

// Take calls f.
func (f StoreFunc) Take(ctx context.Context, a []limit.Ask, d []limit.Decision) (ok bool, err error) {
	return f(ctx, a, d)
}

// Take asks s whether n may pass under the key. Zero n peeks, below zero gives
// back.
func Take(ctx context.Context, s Store, key string, l limit.Limit, n int64) (limit.Decision, error) {
	switch s := s.(type) {
	case *Memory:
		return s.Decide(limit.Ask{Key: key, Limit: l, N: n}), nil
	case *Leases:
		a, d := [1]limit.Ask{{Key: key, Limit: l, N: n}}, [1]limit.Decision{}
		_, err := s.Take(ctx, a[:], d[:])
		return d[0], err
	}
	var q struct { // one allocation for both
		a [1]limit.Ask
		d [1]limit.Decision
	}
	q.a[0] = limit.Ask{Key: key, Limit: l, N: n}
	_, err := s.Take(ctx, q.a[:], q.d[:])
	return q.d[0], err
}

// FailOpen is s, but where s cannot decide all pass, uncharged. Errors vanish
// in it, and it waits as long as s does: a [Guard] counts them, and is back in
// time.
func FailOpen(s Store) Store {
	return StoreFunc(func(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
		ok, err := s.Take(ctx, a, d)
		if err == nil {
			return ok, nil
		}
		pass(a, d)
		return true, nil
	})
}
