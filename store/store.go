package store

import (
	"context"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
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

var _ interface {
	Store
	Direct
} = (*memory.Store)(nil)

// Func is a function as a Store.
type Func func(ctx context.Context, a []limit.Ask, d []limit.Decision) (ok bool, err error)

// Take calls f.
func (f Func) Take(ctx context.Context, a []limit.Ask, d []limit.Decision) (ok bool, err error) {
	return f(ctx, a, d)
}

// Direct is a Store that answers one ask faster than Take does. [Take] and [Allow]
// look for it, as io.Copy looks for an io.WriterTo; for Allow it may have the
// method Allow(key string, l limit.Limit, n int64) bool besides.
type Direct interface {
	// TakeOne is the Take of the Store for one ask.
	TakeOne(ctx context.Context, a limit.Ask) (limit.Decision, error)
	// Itself reports whether s is this Store, and not one that embeds it: what
	// that adds to Take must not be passed by.
	Itself(s any) bool
}

// Take charges n tokens for key, if l allows, and reports what is left. Zero n
// peeks, below zero gives back. A refusal is a value, d.OK; an error means that s
// could not decide.
//
// A Store in this process that is also a [Direct] answers without an allocation.
func Take(ctx context.Context, s Store, key string, l limit.Limit, n int64) (limit.Decision, error) {
	if d, ok := s.(Direct); ok && d.Itself(s) {
		return d.TakeOne(ctx, limit.Ask{Key: key, Limit: l, N: n})
	}
	var q struct { // one allocation for both
		a [1]limit.Ask
		d [1]limit.Decision
	}
	q.a[0] = limit.Ask{Key: key, Limit: l, N: n}
	_, err := s.Take(ctx, q.a[:], q.d[:])
	return q.d[0], err
}

// Allow charges one token for key, if l allows, and reports whether it did: [Take]
// where nothing is told to the caller. An error means that s could not decide.
//
// Of a Store in this process it is the fastest question: see [Direct].
func Allow(ctx context.Context, s Store, key string, l limit.Limit) (bool, error) {
	if fast, ok := s.(interface {
		Direct
		Allow(key string, l limit.Limit, n int64) bool
	}); ok && fast.Itself(s) {
		return fast.Allow(key, l, 1), nil
	}
	d, err := Take(ctx, s, key, l, 1)
	return d.OK, err
}

// InProcess returns a new [memory.Store]: for adapters that were given no Store.
func InProcess() Store { return new(memory.Store) }

// FailOpen is s, but where s cannot decide all pass, uncharged. Errors vanish
// in it, and it waits as long as s does: a [Guard] counts them, and is back in
// time.
func FailOpen(s Store) Store {
	return Func(func(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
		ok, err := s.Take(ctx, a, d)
		if err == nil {
			return ok, nil
		}
		pass(a, d)
		return true, nil
	})
}
