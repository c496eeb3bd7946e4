package memory

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// Store is the [store.Store] in this process. The zero value is ready. It is safe
// for concurrent use, starts no goroutine and needs no closing; it must not be
// copied after first use.
//
// It is a table of a bounded size without pointers: 32 bytes a key, of which
// the collector sees nothing. It begins with at most 16 KiB and doubles as keys
// come, never to shrink; while it does, the old half is kept besides. A key is
// known by 56 bits of a keyed hash: that any two of a million keys share an
// account has a probability of 10^-5.
//
// On Linux a table of 4 MiB and more asks for pages of 2 MiB where it fills
// whole ones, which takes no more memory. While it grows it may have to wait for
// such a page, if /sys/kernel/mm/transparent_hugepage/defrag lets the kernel look
// for one; where none is found, or they are switched off, the pages are small.
//
// What has expired takes no room, as a key that owes nothing equals one never
// seen. If there is no room for a new key even so, it takes the place of the
// one, of the eight in the two lines where it may be, that will owe nothing
// first. So a flood of made-up keys, which owe little, leaves those that are
// over their limit in place. Of as many keys as Keys says, all owing, about one
// in a million is forgotten, and starts afresh.
//
// A key may be asked for under another limit than before: what it owes is
// carried over by [limit.Change], also where it is refused, and then owed under
// the new limit; a peek changes nothing. A Memory tells 4094 limits apart;
// states written under further ones are read as if they had been written under
// the one that is asked for, or, if that is a log or slots, a TokenBucket of the
// same Count and Period.
//
// Sliding logs and slots, which keep more than a State, are kept apart, in at
// most Bytes besides, and at most Keys keys; see [limit.Log] and [limit.Slots].
// Beyond that, of eight picked at random the one that will owe nothing first is
// forgotten. They share one lock. A key that changes to one of these kinds, or
// from one to any other, is charged what it has used, at the time of the change.
//
// Its clock is the wall clock at its first use and from then on monotonic, so
// that a step of the wall clock grants nothing. Fixed windows end by that
// clock.
type Store struct {
	// MaxKeys is how many keys there is good room for: twice as many would fill
	// every slot. A key takes the room of two if its State does not pack: under
	// a TokenBucket of which Count is above 65,536 though divided by what it
	// has in common with the microseconds of the Period, and when a window has
	// used more than 65,535. If zero or below, 1,000,000, or what Bytes allows.
	// It must not change after first use.
	MaxKeys int
	// MaxBytes is how large the table may become. If zero or below, 32 for each
	// of Keys. If both are set, the smaller bound holds. It must not change
	// after first use.
	MaxBytes int64

	tab       atomic.Pointer[table]
	limits    limits
	windows   windows
	forgotten atomic.Int64

	mu sync.Mutex // held to make a table
}

const (
	defaultKeys = 1_000_000
	keyBytes    = 32 // two slots
	// firstRows is the most rows of a new table, and half of it the fewest, so
	// that doubling leads to within a hundredth of any size.
	firstRows = 256
	mostBytes = min(1<<38, math.MaxInt)
	// fewAsks can be answered without allocating.
	fewAsks = 4
)

// Allow charges n tokens for key, if l allows, and reports whether it did: the OK
// that Take would give. With an n of 1 and a TokenBucket or a FixedWindow it is the
// fastest way to ask.
func (m *Store) Allow(key string, l limit.Limit, n int64) bool {
	t := m.table()
	if n == 1 {
		p, h := m.limits.first.Load(), t.seed.hash(key)
		if p == nil || !p.is(&l) {
			p = m.limits.get(&l)
		}
		if t.far() {
			t.fetch(h)
		}
		if ok, known := t.allow(p, h, t.micros()); known {
			return ok
		}
	}
	return m.decide(t.now(), &limit.Ask{Key: key, Limit: l, N: n}).OK
}

// TakeOne is Take for one ask. It allocates nothing, but for limits that keep
// more than a State, and its error is always nil.
func (m *Store) TakeOne(_ context.Context, a limit.Ask) (limit.Decision, error) {
	return m.takeOne(&a), nil
}

// Itself reports whether s is m, and not a Store that embeds it.
func (m *Store) Itself(s any) bool { return s == any(m) }

func (m *Store) takeOne(a *limit.Ask) limit.Decision {
	t := m.table()
	if t.far() {
		t.fetch(t.seed.hash(a.Key))
	}
	return m.decide(t.now(), a)
}

func (m *Store) decide(now time.Time, a *limit.Ask) (d limit.Decision) {
	t, p := m.tab.Load(), m.limits.get(&a.Limit)
	switch p.keeps {
	case keepsNothing:
		_, d = limit.Take(limit.State{}, now, *a)
		return d
	case keepsState:
		h := t.seed.hash(a.Key)
		if d, known := t.take(p, h, now, a); known {
			return d
		}
	}
	asks, ds := [1]limit.Ask{*a}, [1]limit.Decision{}
	m.takeAll(now, asks[:], ds[:])
	return ds[0]
}

// Take answers a in d, see [store.Store]. It looks at no context, as it never waits.
func (m *Store) Take(_ context.Context, a []limit.Ask, d []limit.Decision) (ok bool, err error) {
	if len(a) == 1 && len(d) == 1 {
		d[0] = m.takeOne(&a[0])
		return d[0].OK, nil
	}
	if err := limit.CheckAsks(a, d); err != nil {
		return false, err
	}
	return m.takeAll(m.table().now(), a, d), nil
}

// Len is the number of keys that have not expired. It looks at the whole table:
// some 10 ms for a million keys.
func (m *Store) Len() int {
	t := m.table()
	t.settleAll()
	now, n := uint64(t.micros()), 0
	for i := range t.lines {
		n += t.lines[i].taken(now)
	}
	return n + m.windows.len()
}

// Forgotten is how many keys that had not expired have been displaced.
func (m *Store) Forgotten() int64 { return m.forgotten.Load() }

// table is the present one; the first use makes it.
func (m *Store) table() *table {
	if t := m.tab.Load(); t != nil {
		return t
	}
	return m.firstTable()
}

func (m *Store) firstTable() *table {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tab.Load() == nil {
		rows := m.lines()
		for rows >= firstRows {
			rows /= 2
		}
		m.tab.Store(newTable(rows, newSeed(), time.Now()))
	}
	return m.tab.Load()
}

// bytes is how large the table may become.
func (m *Store) bytes() int64 {
	most := int64(mostBytes)
	if m.MaxBytes > 0 {
		most = min(m.MaxBytes, most)
	}
	switch keys := int64(m.MaxKeys); {
	case keys > 0:
		most = min(most, min(keys, mostBytes/keyBytes)*keyBytes)
	case m.MaxBytes <= 0:
		most = defaultKeys * keyBytes
	}
	return most
}

// lines is how many it may have.
func (m *Store) lines() uint64 { return uint64(max(1, m.bytes()/lineSize)) }

// mayDouble tells whether the table may become larger than t.
func (m *Store) mayDouble(t *table) bool { return uint64(len(t.lines)) <= m.lines()/2 }

// double doubles t, or, if it has just been doubled, has it done with it.
func (m *Store) double(t *table) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.tab.Load() != t: // somebody else has done it
	case t.from.Load() != nil:
		t.settleAll()
	default:
		m.tab.Store(t.doubled())
	}
}

// taken is how many keys of a line have not expired.
func (l *cacheLine) taken(now uint64) (n int) {
	for i := 0; i < len(l); i = l.after(i) {
		if ends(l[i+1].Load()) > now {
			n++
		}
	}
	return n
}
