package store

import (
	"cmp"
	"context"
	"strings"
	"sync"
	"time"

	"github.com/throttle-go/throttle/internal/list"
	"github.com/throttle-go/throttle/limit"
)

// InFlight bounds the requests in flight for each key: a keyed semaphore, or
// bulkhead. A key is a customer, an operation, or both, as in "42::export".
// Requests that do not fit are refused by Acquire, and wait for their turn in
// Wait.
//
//	h, _, ok := inflight.Acquire(store.Count{Key: customer + "::export", Max: 3})
//	defer h.Release()
//	if !ok { ... }
//
// The zero value is ready. An InFlight is safe for concurrent use; it must not
// be copied, nor its fields changed, after first use. It starts no goroutine and
// needs no closing. It allocates only for a key that is new or was idle for
// long, and keeps keys whole, however long.
type InFlight struct {
	// MaxKeys bounds the keys with requests in flight; further keys are
	// refused. If zero or below, 1,000,000, which take some 200 MB.
	MaxKeys int
	// MaxAge is the longest time that a Hold counts: after it, a Hold that was
	// never released expires, and the next Acquire, Admit, Held or Stats
	// reclaims it. If zero or below, Holds do not expire.
	MaxAge time.Duration
	// MaxWaiting bounds the callers of Wait in line, of all keys together;
	// further ones are refused with ErrInFlightFull. If zero or below, 10,000.
	MaxWaiting int

	mu        sync.Mutex // guards all below
	tallies   map[string]*tally
	idle      list.List[tally] // at zero, longest first; at most maxIdle
	held      list.List[held]  // oldest first
	peak      int
	full      int64
	reclaimed int64
	waiting   int       // in the lines of tallies
	came      uint64    // how many have come to a line so far
	spare     sync.Pool // of *held
}

// maxIdle bounds the keys that are kept while nothing is in flight for them, as
// the same keys often come back.
const maxIdle = 1000

// Count asks an [InFlight] whether N more requests may be in flight for Key,
// where at most Max may be.
type Count struct {
	// Key names the subject whose requests are counted.
	Key string
	// Max bounds the requests in flight for Key. It may differ from call to
	// call. If zero or below, all are refused. Lowering it does not affect
	// Holds.
	Max int64
	// N is the weight. Zero counts as 1; a negative N is refused.
	N int64
}

// Hold counts requests as in flight until it is released. The zero Hold holds
// nothing. A Hold may be copied: releasing one copy releases all.
type Hold struct {
	of     *InFlight
	held   *held
	number uint64 // of this use of held
}

// tally is the number in flight for one key.
type tally struct {
	place   list.Node[tally] // in idle
	key     string
	n, peak int64
	line    *list.List[waiter] // nil if no caller waits
}

// held is what one Hold stands for.
type held struct {
	place  list.Node[held]
	number uint64 // counts its uses; a Hold of another number has ended
	since  time.Time
	parts  []part
	few    [3]part // backs parts, so that few need no allocation
}

type part struct {
	tally *tally
	n     int64
}

// InFlightStats are the numbers of an [InFlight].
type InFlightStats struct {
	// Keys is the number of keys with requests in flight, Holds the number of
	// Holds, and Peak the largest number of Holds so far.
	Keys, Holds, Peak int
	// Reclaimed counts the Holds that expired after MaxAge, and Full the new
	// keys that were refused because of MaxKeys.
	Reclaimed, Full int64
}

// Acquire counts all of counts or none of them. refused is the index of the
// first that does not fit, -1 if all do (ok). Counts of one key add up. Without
// counts it succeeds.
func (f *InFlight) Acquire(counts ...Count) (h Hold, refused int, ok bool) {
	if len(counts) == 0 {
		return Hold{}, -1, true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.acquire(f.reclaim(), counts)
}

// acquire is Acquire at a time. Caller holds mu.
func (f *InFlight) acquire(now time.Time, counts []Count) (h Hold, refused int, ok bool) {
	e := f.take()
	for i, c := range counts {
		if !f.add(e, c) {
			f.uncount(e)
			f.keep(e)
			return Hold{}, i, false
		}
	}
	for _, p := range e.parts {
		p.tally.peak = max(p.tally.peak, p.tally.n)
	}
	e.since = now
	f.held.Push(&e.place, e)
	f.peak = max(f.peak, f.held.Len())
	return Hold{f, e, e.number}, -1, true
}

// Admit acquires counts and charges a to s as one decision: all of it if
// everything passes, otherwise nothing. refused is the index of the first of
// counts that does not fit; then s is not called and d is zero. It is -1 if all
// fit, and then d holds the decisions of s. An error is that of s, or of a ctx
// that has ended. The counts are held while s decides, so that others may be
// refused meanwhile; they are released if s refuses, fails or panics.
func (f *InFlight) Admit(ctx context.Context, s Store, a []limit.Ask, d []limit.Decision, counts ...Count) (h Hold, refused int, ok bool, err error) {
	check("InFlight.Admit", ctx, s)
	clear(d)
	if ctx.Err() != nil {
		return Hold{}, -1, false, Ended(ctx, nil)
	}
	taken, refused, fits := f.Acquire(counts...)
	if !fits {
		return Hold{}, refused, false, nil
	}
	defer func() {
		if !ok {
			taken.Release()
		}
	}()
	passes, err := s.Take(ctx, a, d)
	if err != nil {
		return Hold{}, -1, false, Undecided(ctx, err)
	}
	if !passes {
		return Hold{}, -1, false, nil
	}
	return taken, -1, true, nil
}

// Release ends the Hold. Further calls do nothing, nor does a call after the
// Hold expired. It may be called from any goroutine.
func (h Hold) Release() {
	if h.of == nil {
		return
	}
	h.of.mu.Lock()
	defer h.of.mu.Unlock()
	if h.held.number == h.number {
		h.of.drop(h.held)
	}
}

// Held returns the number in flight for key, and its peak since it was last zero.
func (f *InFlight) Held(key string) (n, peak int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reclaim()
	if t := f.tallies[key]; t != nil && t.n > 0 {
		return t.n, t.peak
	}
	return 0, 0
}

// Stats returns the current numbers.
func (f *InFlight) Stats() InFlightStats {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reclaim()
	return InFlightStats{
		Keys: f.busy(), Holds: f.held.Len(), Peak: f.peak,
		Reclaimed: f.reclaimed, Full: f.full,
	}
}

// add counts c for e, if it fits. Caller holds mu.
func (f *InFlight) add(e *held, c Count) bool {
	n := c.N
	if n == 0 {
		n = 1
	}
	if n < 0 || n > c.Max {
		return false
	}
	t := f.tallies[c.Key]
	if t == nil || t.n == 0 {
		if f.busy() >= cmp.Or(max(f.MaxKeys, 0), 1_000_000) {
			f.full++
			return false
		}
		t = f.wake(t, c.Key)
	} else if t.n > c.Max-n {
		return false
	}
	t.n += n
	e.parts = append(e.parts, part{t, n})
	return true
}

// busy returns the number of keys with requests in flight. Caller holds mu.
func (f *InFlight) busy() int { return len(f.tallies) - f.idle.Len() }

// wake returns the tally of a key that is about to be counted; t is its tally
// so far, nil if there is none. Caller holds mu.
func (f *InFlight) wake(t *tally, key string) *tally {
	if t != nil {
		f.idle.Remove(&t.place)
		t.peak = 0
		return t
	}
	if f.tallies == nil {
		f.tallies = make(map[string]*tally)
	}
	t = &tally{key: strings.Clone(key)} // it may be part of a large string
	f.tallies[t.key] = t
	return t
}

// rest keeps t, whose number is zero, for a while. Caller holds mu.
func (f *InFlight) rest(t *tally) {
	f.idle.Push(&t.place, t)
	if f.idle.Len() > maxIdle {
		longest := f.idle.Front()
		f.idle.Remove(&longest.place)
		delete(f.tallies, longest.key)
	}
}

// drop uncounts e, keeps it for reuse, and lets in those that wait. Caller holds
// mu.
func (f *InFlight) drop(e *held) {
	f.held.Remove(&e.place)
	f.uncount(e)
	for _, p := range e.parts {
		f.serve(p.tally)
	}
	f.keep(e)
}

// uncount takes e off its tallies. Caller holds mu.
func (f *InFlight) uncount(e *held) {
	for _, p := range e.parts {
		if p.tally.n -= p.n; p.tally.n == 0 {
			f.rest(p.tally)
		}
	}
}

// keep keeps e for reuse. Caller holds mu.
func (f *InFlight) keep(e *held) {
	e.number++
	clear(e.parts) // they point to keys
	e.parts = e.few[:0]
	f.spare.Put(e)
}

// take returns an empty held.
func (f *InFlight) take() *held {
	if e, ok := f.spare.Get().(*held); ok {
		return e
	}
	e := new(held)
	e.parts = e.few[:0]
	return e
}

// reclaim drops what was held for longer than MaxAge. It returns the time, zero
// if there is no MaxAge. Caller holds mu.
func (f *InFlight) reclaim() (now time.Time) {
	if f.MaxAge <= 0 {
		return now
	}
	now = time.Now()
	for e := f.held.Front(); e != nil && now.Sub(e.since) >= f.MaxAge; e = f.held.Front() {
		f.drop(e)
		f.reclaimed++
	}
	return now
}
