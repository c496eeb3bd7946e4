package store

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// Leases is a [Store] that asks the one behind it ahead of use, for keys that
// are asked for often here: it is granted what should last for half of Life, and
// answers by itself until that is used. A refusal, too, it gives by itself for as
// long as the Store said, a second at most. So a key costs the Store some
// questions for each Life and process, however often it is asked for; keys that
// are rare cost one each, as before.
//
// What is granted is charged at once, good for Life, and lost if not used by
// then. See [limit.Lease] for what all processes together admit at most: for a
// TokenBucket, Life times the rate more than without, in any time, and for
// windows with an edge no more at all. It holds if a process dies, is suspended,
// or has a clock that is wrong.
//
// Only questions of the usual kind are answered here: all or nothing of some
// number, as [limit.Ask.Leases] says. Others are put to the Store, which knows
// as used what is leased: a peek there shows less than is left, by that much.
// Of a refused question about several keys, the answers about those that were
// not refused say what was last heard of them.
//
// Put a [Guard] behind it, not before: what is leased stays good while the Store
// is away. A Leases is safe for concurrent use, needs no closing and starts no
// goroutine; it must not be copied, nor its fields be changed, after first use.
type Leases struct {
	// Store is asked.
	Store Store
	// Life is how long what was granted may be used. If zero or below,
	// [limit.DefaultLife]. It may differ between processes.
	Life time.Duration
	// MaxKeys bounds how many keys are remembered, of some 400 bytes each. For
	// what is more, one of those is forgotten that were not asked for lately,
	// and what it holds is lost. If zero or below, 10,000.
	MaxKeys int

	tab     atomic.Pointer[leaseTable]
	asked   atomic.Int64
	without atomic.Int64
}

// LeasesStats are what a [Leases] has counted since its first use.
type LeasesStats struct {
	// Asked is how many questions were put to the Store.
	Asked int64
	// Without is how many Takes were answered without it.
	Without int64
}

const (
	defaultLeaseKeys = 10_000
	// fewLeases can be asked for at once without allocating.
	fewLeases = 4
	// patience is how often a Take waits for what another one asks, for a Life at
	// most, before it asks by itself.
	patience = 4
)

var (
	errNoLeaseStore = errors.New("throttle: the Leases has no Store")

	_ Store = (*Leases)(nil)
)

// Stats are the present ones.
func (l *Leases) Stats() LeasesStats {
	return LeasesStats{Asked: l.asked.Load(), Without: l.without.Load()}
}

// Take answers a in d, see [Store]. An error is one of the Store, of a context
// that has ended, or of the question itself, as of one about a key twice; then
// nothing that was leased is used.
func (l *Leases) Take(ctx context.Context, a []limit.Ask, d []limit.Decision) (ok bool, err error) {
	if err := limit.CheckAsks(a, d); err != nil {
		return false, err
	}
	switch {
	case len(a) == 0:
		return true, nil
	case l.Store == nil:
		return false, errNoLeaseStore
	}
	t, now := l.table(), time.Now()
	if len(a) == 1 {
		if known := t.quick(now, &a[0], &d[0]); known {
			l.without.Add(1)
			return d[0].OK, nil
		}
	}
	var few [fewLeases]leasePart
	parts := few[:]
	if len(a) > fewLeases {
		parts = make([]leasePart, len(a))
	}
	parts = parts[:len(a)]
	t.find(parts, a, now)
	var hung *leaseCall
	for round := 0; ; round++ {
		switch t.spend(now, parts, a, d) {
		case passed:
			l.without.Add(1)
			return true, nil
		case refused:
			l.without.Add(1)
			return false, nil
		}
		busy := t.claim(now, parts, a, hung != nil || round == patience, hung)
		if busy == nil {
			return l.ask(ctx, t, parts, a, d)
		}
		t.back(parts, a)
		impatient, err := busy.wait(ctx, cmp.Or(max(l.Life, 0), limit.DefaultLife))
		if err != nil {
			return false, err
		}
		if impatient {
			hung = busy
		}
		now = time.Now()
	}
}

// TakeOne is Take for one ask.
func (l *Leases) TakeOne(ctx context.Context, ask limit.Ask) (limit.Decision, error) {
	a, d := [1]limit.Ask{ask}, [1]limit.Decision{}
	_, err := l.Take(ctx, a[:], d[:])
	return d[0], err
}

// Itself reports whether s is l, and not a Store that embeds it.
func (l *Leases) Itself(s any) bool { return s == any(l) }

// ask puts to the Store what parts do not hold.
func (l *Leases) ask(ctx context.Context, t *leaseTable, parts []leasePart, a []limit.Ask, d []limit.Decision) (ok bool, err error) {
	l.asked.Add(1)
	put := make([]limit.Ask, 0, len(a))
	for i := range parts {
		if parts[i].asks {
			put = append(put, parts[i].put)
		}
	}
	told := make([]limit.Decision, len(put))
	err = errGone
	sent := time.Now()
	defer func() { // whatever the Store does
		if err != nil {
			t.fail(ctx, parts, a, err)
		}
	}()
	ok, err = l.Store.Take(ctx, put, told)
	if err == nil {
		t.settle(sent, ok, parts, a, told, d)
	}
	return ok, err
}

func (l *Leases) table() *leaseTable {
	if t := l.tab.Load(); t != nil {
		return t
	}
	l.tab.CompareAndSwap(nil, newLeaseTable(cmp.Or(max(l.MaxKeys, 0), defaultLeaseKeys), l.Life))
	return l.tab.Load()
}
