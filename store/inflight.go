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

// InFlight counts what is under way, by key: of a customer, an operation, or a
// customer's operation as in "42::export". It never waits: what does not fit is
// refused.
//
// The zero value is ready. An InFlight is safe for concurrent use; it must not
// be copied, nor its fields changed, after first use. It starts no goroutine and
// needs no closing. Nothing is allocated, but for a key that is new or has long
// had nothing under way. Keys are kept whole, however long.
type InFlight struct {
	// MaxKeys bounds the keys that have something under way. Beyond it a new key is
	// refused. If zero or below, 1,000,000, which take some 200 MB.
	MaxKeys int
	// MaxAge is how long something is held at most: then it is taken for lost,
	// and reclaimed as soon as anybody acquires or looks. If zero or below,
	// nothing is ever reclaimed.
	MaxAge time.Duration

	mu        sync.Mutex // guards all below
	tallies   map[string]*tally
	idle      list.List[tally] // those of nothing, the longest so first; maxIdle at most
	held      list.List[held]  // the oldest first
	peak      int
	full      int64
	reclaimed int64
	spare     sync.Pool // of *held
}

// maxIdle is how many keys are kept that have nothing under way, as the same
// ones often come back.
const maxIdle = 1000

// Count is one question to an [InFlight]: may N more be under way under the Key,
// where Most may be at a time?
type Count struct {
	Key string
	// Max may change from one question to the next. If zero or below, nothing
	// passes. What is under way already stays when it is lowered.
	Max int64
	// N is the weight. Zero counts as 1; below zero is refused.
	N int64
}

// Hold is what was acquired. It must be released when the work is done. The zero
// Hold holds nothing. A Hold may be copied: to release one is to release all.
type Hold struct {
	of     *InFlight
	held   *held
	number uint64 // of this use of held
}

// tally counts one key.
type tally struct {
	place   list.Node[tally] // in idle
	key     string
	n, peak int64
}

// held is what one Hold stands for.
type held struct {
	place  list.Node[held]
	number uint64 // counts its uses; a Hold of another number is past
	since  time.Time
	parts  []part
	few    [3]part // where parts begin, so that few of them are not allocated
}

type part struct {
	tally *tally
	n     int64
}

// InFlightStats are the numbers of an [InFlight].
type InFlightStats struct {
	// Keys have something under way, by Holds, which were Peak at most.
	Keys, Holds, Peak int
	// Reclaimed is how many Holds were reclaimed after Longest, Full how many
	// times a new key was refused because of Keys.
	Reclaimed, Full int64
}

// Acquire counts all of counts, or none. refused is the index of the first that
// did not fit, -1 if all did: ok. Counts of one key add up. To acquire nothing
// succeeds.
//
//	h, _, ok := inflight.Acquire(Count{Key: customer + "::export", Most: 3})
//	defer h.Release()
//	if !ok { ... }
func (f *InFlight) Acquire(counts ...Count) (h Hold, refused int, ok bool) {
	if len(counts) == 0 {
		return Hold{}, -1, true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.reclaim()
	e := f.take()
	for i, c := range counts {
		if !f.add(e, c) {
			f.drop(e)
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

// Admit counts, and asks s about a, as one decision: if everything passes, all
// is counted and charged, otherwise nothing. refused is the index of the first
// of counts that did not fit, in which case s is not asked and d is zero; it is
// -1 if all fit, and then d says what s decided. An error is that of s, or that
// ctx has ended. Whatever s does, even if it panics, what is refused stays not
// counted; but it is while s decides, so that others may be refused.
func (f *InFlight) Admit(ctx context.Context, s Store, a []limit.Ask, d []limit.Decision, counts ...Count) (h Hold, refused int, ok bool, err error) {
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

// Release gives back what is held: once, however often it is called and from
// wherever. After it was reclaimed it does nothing. Whoever hands the work over
// to another goroutine hands over the Hold as well.
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

// Of is how much is under way under the key, and how much was at most since
// there last was nothing.
func (f *InFlight) Of(key string) (n, peak int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reclaim()
	if t := f.tallies[key]; t != nil && t.n > 0 {
		return t.n, t.peak
	}
	return 0, 0
}

// Stats are the numbers now.
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

// busy is how many keys have something under way. Caller holds mu.
func (f *InFlight) busy() int { return len(f.tallies) - f.idle.Len() }

// wake is the tally, nil if there is none, of a key that shall be counted.
// Caller holds mu.
func (f *InFlight) wake(t *tally, key string) *tally {
	if t != nil {
		f.idle.Remove(&t.place)
		t.peak = 0
		return t
	}
	if f.tallies == nil {
		f.tallies = make(map[string]*tally)
	}
	t = &tally{key: strings.Clone(key)} // it may be a piece of something large
	f.tallies[t.key] = t
	return t
}

// rest keeps t, of which nothing is under way any more, for a while. Caller
// holds mu.
func (f *InFlight) rest(t *tally) {
	f.idle.Push(&t.place, t)
	if f.idle.Len() > maxIdle {
		longest := f.idle.Front()
		f.idle.Remove(&longest.place)
		delete(f.tallies, longest.key)
	}
}

// drop uncounts e, and keeps it for another use. Caller holds mu.
func (f *InFlight) drop(e *held) {
	f.held.Remove(&e.place)
	for _, p := range e.parts {
		if p.tally.n -= p.n; p.tally.n == 0 {
			f.rest(p.tally)
		}
	}
	e.number++
	clear(e.parts) // they point to keys
	e.parts = e.few[:0]
	f.spare.Put(e)
}

// take is a held of nothing.
func (f *InFlight) take() *held {
	if e, ok := f.spare.Get().(*held); ok {
		return e
	}
	e := new(held)
	e.parts = e.few[:0]
	return e
}

// reclaim drops what is held for too long, and says what time it is, if that
// matters. Caller holds mu.
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
