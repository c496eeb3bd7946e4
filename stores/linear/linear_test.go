package linear

import (
	"context"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/limit"
)

func TestMemory(t *testing.T) { Check(t, new(throttle.Memory), 100_000) }

// fails notes whether a test would have failed.
type fails struct {
	testing.TB
	failed atomic.Bool
}

func (f *fails) Helper()               {}
func (f *fails) Failed() bool          { return f.failed.Load() }
func (f *fails) Errorf(string, ...any) { f.failed.Store(true) }

// Stores that are nearly linearizable are told from those that are.
func TestCheckBites(t *testing.T) {
	for name, broken := range map[string]func(throttle.Store) throttle.StoreFunc{
		"reads, then writes": racy,
		"splits pairs":       split,
		"answers once in a thousand from an earlier moment": stale,
	} {
		f := &fails{TB: t}
		Check(f, broken(new(throttle.Memory)), 10_000)
		if !f.Failed() {
			t.Errorf("a store that %s passes", name)
		}
	}
}

// racy is a store behind which the state is read, and written back later.
func racy(s throttle.Store) throttle.StoreFunc {
	return func(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
		peek := slices.Clone(a)
		for i := range peek {
			peek[i].N, peek[i].Debt = 0, false
		}
		before := make([]limit.Decision, len(a))
		if _, err := s.Take(ctx, peek, before); err != nil {
			return false, err
		}
		runtime.Gosched()
		write := slices.Clone(a)
		for i := range write { // as was decided by what was read
			write[i].Debt = write[i].Debt || write[i].N <= before[i].Remaining
		}
		return s.Take(ctx, write, d)
	}
}

// split is a store that charges one key after the other.
func split(s throttle.Store) throttle.StoreFunc {
	return func(ctx context.Context, a []limit.Ask, d []limit.Decision) (all bool, err error) {
		all = true
		for i := range a {
			ok, err := s.Take(ctx, a[i:i+1], d[i:i+1])
			if err != nil {
				return false, err
			}
			all = all && ok
			runtime.Gosched()
		}
		return all, nil
	}
}

// stale is a store that now and then gives the last answer to the same question
// once more.
func stale(s throttle.Store) throttle.StoreFunc {
	var n atomic.Int64
	var last atomic.Pointer[limit.Decision]
	return func(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
		plain := len(a) == 1 && a[0].N == 1 && a[0].Key[len(a[0].Key)-1] == 'a' && a[0].Limit == limits[0]
		if old := last.Load(); plain && old != nil && n.Add(1)%1000 == 0 {
			d[0] = *old
			return old.OK, nil
		}
		ok, err := s.Take(ctx, a, d)
		if plain && ok {
			one := d[0]
			last.Store(&one)
		}
		return ok, err
	}
}
