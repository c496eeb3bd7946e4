package store

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// Leases prefetches tokens for hot keys: it takes a batch from the Store behind
// it, as many as should last for half of Life, and serves requests locally
// until the batch is spent or Life has passed. It also repeats a refusal
// locally, for as long as the Store said, at most a second. So a hot key costs
// the Store a few calls for each Life and process, however many requests it
// gets; a rare key costs one call for each request, as without Leases.
//
// Leased tokens are charged at once, expire Life after the Store was asked, and
// are lost if unused by then. If the answer of the Store comes later than that,
// the Store is asked once more. All processes together admit at most what
// [limit.Lease] says: with a TokenBucket, Life times the rate more than without,
// in any time; with windows that have an edge, no more at all. This holds when a
// process dies, is suspended, or has a wrong clock.
//
// Only plain asks are served locally: all or nothing of some number, see
// [limit.Ask.Leases]. Others go to the Store, where leased tokens count as
// used, so a peek shows less than is left, by that much. When one of several
// keys refuses, the decisions about the others repeat what was last known of
// them.
//
// Put a [Guard] behind Leases, not in front: leased tokens stay valid while the
// Store is unreachable. A Leases is safe for concurrent use, needs no closing
// and starts no goroutine; it must not be copied, nor its fields changed, after
// first use.
type Leases struct {
	// Store is the backing Store. If nil, Take returns an error.
	Store Store
	// Life is how long leased tokens may be used. If zero or below,
	// [limit.DefaultLife]. It may differ between processes.
	Life time.Duration
	// MaxKeys bounds the keys remembered, of some 400 bytes each, 1600 if hot. Beyond it, a
	// key not used lately is forgotten and its tokens are lost. If zero or
	// below, 10,000.
	MaxKeys int

	tab     atomic.Pointer[leaseTable]
	asked   atomic.Int64
	without atomic.Int64
}

// LeasesStats counts what a [Leases] did since its first use.
type LeasesStats struct {
	// Calls counts the calls to the Store.
	Calls int64
	// Local counts the calls of Take that were served locally.
	Local int64
}

const (
	defaultLeaseKeys = 10_000
	// fewLeases is how many asks fit in one Take without an allocation.
	fewLeases = 4
	// patience is how many calls of others a Take waits for, each for a Life at
	// most, before it calls the Store itself.
	patience = 4
)

var (
	errNoLeaseStore = errors.New("store: the Leases has no Store")
	errLate         = errors.New("store: answers reach the Leases later than tokens may be used: its Life must be longer than its Store takes")

	_ Store = (*Leases)(nil)
)

// Stats returns the numbers so far.
func (l *Leases) Stats() LeasesStats {
	s := LeasesStats{Calls: l.asked.Load(), Local: l.without.Load()}
	if t := l.tab.Load(); t != nil {
		s.Local += t.calls()
	}
	return s
}

// Take decides a into d, see [Store]. An error is that of the Store, of a
// context that has ended, or of malformed asks, such as two about one key; or
// says that two answers in a row came later than Life after the Store was asked.
// After an error no leased token is used.
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
		if known, counted := t.quick(now, &a[0], &d[0]); known {
			if !counted {
				l.without.Add(1)
			}
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
	return l.decide(ctx, t, now, parts, a, d)
}

// decide decides by the leases or by the Store. An answer that comes too late to
// be used is asked for once more, as the process may have stood still.
func (l *Leases) decide(ctx context.Context, t *leaseTable, now time.Time, parts []leasePart, a []limit.Ask, d []limit.Decision) (ok bool, err error) {
	var hung *leaseCall
	again := repeatable(a)
	for round := 0; ; now = time.Now() {
		switch t.spend(now, parts, a, d) {
		case passed:
			l.without.Add(1)
			return true, nil
		case refused:
			l.without.Add(1)
			return false, nil
		}
		busy := t.claim(now, parts, a, hung != nil || round >= patience, hung)
		if busy == nil {
			ok, late, err := l.ask(ctx, t, parts, a, d)
			if !late {
				return ok, err
			} else if !again {
				clear(d)
				return false, errLate
			}
			again = false
			continue
		}
		round++
		t.back(parts, a)
		impatient, err := busy.wait(ctx, cmp.Or(max(l.Life, 0), limit.DefaultLife))
		if err != nil {
			return false, err
		}
		if impatient {
			hung = busy
		}
	}
}

// TakeOne decides one ask, as Take does.
func (l *Leases) TakeOne(ctx context.Context, ask limit.Ask) (limit.Decision, error) {
	a, d := [1]limit.Ask{ask}, [1]limit.Decision{}
	_, err := l.Take(ctx, a[:], d[:])
	return d[0], err
}

// Itself reports whether s is l, and not a Store that embeds it.
func (l *Leases) Itself(s any) bool { return s == any(l) }

// ask calls the Store for what the leases of parts do not cover. If late, what
// passes was granted too long ago to be used.
func (l *Leases) ask(ctx context.Context, t *leaseTable, parts []leasePart, a []limit.Ask, d []limit.Decision) (ok, late bool, err error) {
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
	defer func() { // also when the Store panics
		if err != nil {
			t.fail(ctx, parts, a, err)
		}
	}()
	ok, err = l.Store.Take(ctx, put, told)
	if err == nil {
		late = t.settle(sent, ok, parts, a, told, d)
	}
	return ok && !late, late, err
}

func (l *Leases) table() *leaseTable {
	if t := l.tab.Load(); t != nil {
		return t
	}
	l.tab.CompareAndSwap(nil, newLeaseTable(cmp.Or(max(l.MaxKeys, 0), defaultLeaseKeys), l.Life))
	return l.tab.Load()
}
