package linear

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/store"
)

func TestMemory(t *testing.T) { Check(t, new(memory.Store), 20, 2500) }

// fails notes whether a test would have failed.
type fails struct {
	testing.TB
	failed atomic.Bool
}

func (f *fails) Failed() bool { return f.failed.Load() || f.TB.Failed() }

func (f *fails) Errorf(format string, args ...any) {
	if !strings.Contains(format, "cannot be put in an order") {
		f.TB.Errorf(format, args...)
	}
	f.failed.Store(true)
}

// Stores that are nearly linearizable are told from those that are.
func TestCheckBites(t *testing.T) {
	for name, broken := range map[string]func(store.Store) store.Func{
		"reads, then writes": racy,
		"splits pairs":       split,
		"answers once in a thousand from an earlier moment": stale,
	} {
		f := &fails{TB: t}
		Check(f, broken(new(memory.Store)), 2, 5000)
		if !f.Failed() {
			t.Errorf("a store that %s passes", name)
		}
	}
}

// A store that looks at one key after the other, and charges both at once, is
// right by CheckKeys only; one that charges one after the other by neither.
func TestCheckKeys(t *testing.T) {
	CheckKeys(t, new(memory.Store), 2, 5000)
	CheckKeys(t, new(looker), 10, 5000)
	f := &fails{TB: t}
	CheckKeys(f, split(new(memory.Store)), 2, 5000)
	if !f.Failed() {
		t.Error("a store that splits pairs passes CheckKeys")
	}
	f = &fails{TB: t}
	Check(f, new(looker), 10, 5000)
	if !f.Failed() {
		t.Error("a store that looks at one key after the other passes Check")
	}
}

// A looker is a store that looks at one key after the other.
type looker struct {
	memory.Store // for what it does not keep

	mu     sync.Mutex
	states map[string]limit.State
}

func (l *looker) Take(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
	if isApart(a[0].Limit.Kind) {
		return l.Store.Take(ctx, a, d)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.states == nil {
		l.states = map[string]limit.State{}
	}
	now := time.Now()
	states := make([]limit.State, len(a))
	for i := range a {
		if i > 0 && a[0].N == 0 {
			l.mu.Unlock()
			runtime.Gosched()
			l.mu.Lock()
		}
		states[i] = l.states[a[i].Key]
	}
	ok := limit.TakeAll(states, now, a, d)
	for i := range a {
		if ok && a[i].N != 0 {
			l.states[a[i].Key] = states[i]
		}
	}
	return ok, nil
}

// racy is a store behind which the state is read, and written back later.
func racy(s store.Store) store.Func {
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
func split(s store.Store) store.Func {
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
func stale(s store.Store) store.Func {
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
