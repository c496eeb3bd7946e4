package memory

import (
	"crypto/sha256"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// A ring keeps what does not fit a State: it is a *limit.Log or *limit.Slots.
type ring interface {
	Take(now time.Time, a limit.Ask) limit.Decision
	Used(now time.Time, l limit.Limit) int64
	Bytes() int64
	AppendBinary(b []byte) ([]byte, error)
	UnmarshalBinary(data []byte) error
}

func newRing(kind limit.Kind) ring {
	if kind == limit.SlidingSlots {
		return new(limit.Slots)
	}
	return new(limit.Log)
}

// cloneRing returns another ring that remembers the same.
func cloneRing(r ring) ring {
	if s, ok := r.(*limit.Slots); ok {
		return s.Clone()
	}
	return r.(*limit.Log).Clone()
}

// ringPasses reports whether a would pass. What r remembers only ages by it.
func ringPasses(r ring, now time.Time, a limit.Ask) bool {
	n, least, debt := a.N, a.Min, a.Debt
	a.N, a.Min, a.Debt = 0, 0, false
	d := r.Take(now, a)
	switch {
	case n <= 0:
		return n < 0 || d.OK
	case least > 0:
		n = min(n, least)
	}
	return debt || n <= d.Remaining
}

func (c *claim) isRing() bool { return c.p.keeps == keepsRing }

// chargeRing charges to the ring of a claim what was used elsewhere.
func (c *claim) chargeRing(now time.Time, used int64) {
	if used > 0 {
		c.ring.Take(now, limit.Ask{Limit: c.p.limit, N: used, Debt: true})
	}
}

// writtenUnder returns the limit under which a state was written. Where that had
// no number, it is read as that of a TokenBucket of the Count and Period of p.
func writtenUnder(from, p *prepared) limit.Limit {
	if from == nil {
		return limit.Limit{Count: p.limit.Count, Period: p.limit.Period}
	}
	return from.limit
}

// toRing finds the ring of a claim, as it is under the limit asked for. What is
// among the entries only ages by it, so that a peek loses nothing. If live the
// claim has, against the rule, a state in the table, to be charged to the ring.
func (x *rings) toRing(c *claim, key string, now time.Time, live bool) {
	kind, e := c.p.limit.Kind, x.find(ringKey(key))
	c.carried = live || e != nil && e.limit != c.p.limit
	switch {
	case e == nil:
		c.ring = newRing(kind)
	case e.limit != c.p.limit && e.until <= now.UnixMicro(): // it may have been dropped as well
		c.ring = newRing(kind)
	case e.limit.Kind != kind:
		c.ring = newRing(kind)
		c.chargeRing(now, e.ring.Used(now, e.limit))
	case live || e.limit != c.p.limit && kind == limit.SlidingSlots: // which would forget by being asked
		c.ring = cloneRing(e.ring)
	default:
		c.ring = e.ring
	}
}

// toState returns the state of a claim that owes what its ring has used; s, if
// it has no ring.
func (x *rings) toState(c *claim, key string, now time.Time, s limit.State) limit.State {
	e := x.find(ringKey(key))
	if e == nil {
		return s
	}
	c.carried, c.leaves = true, true
	owed := limit.Ask{Limit: c.p.limit, N: e.ring.Used(now, e.limit), Debt: true}
	s, _ = limit.Take(limit.State{}, now, owed)
	return s
}

// decideWithRings is limit.TakeAll, except that rings are only asked whether they
// let pass: write changes what they keep.
func (q *question) decideWithRings(now time.Time) (ok bool) {
	ok = true
	for i := range q.asks {
		if c := &q.claims[i]; c.isRing() {
			q.answers[i].OK = ringPasses(c.ring, now, q.asks[i])
			if c.charges {
				q.states[i] = limit.State{} // what it held in the table is in the ring
			}
		} else {
			_, q.answers[i] = limit.Take(q.states[i], now, q.asks[i])
		}
		ok = ok && q.answers[i].OK
	}
	for i := range q.asks {
		if !q.claims[i].isRing() {
			passed := q.answers[i].OK
			q.states[i], q.answers[i] = limit.Take(q.states[i], now, asAnswered(q.asks[i], ok, passed))
			amend(&q.answers[i], passed)
		}
	}
	return ok
}

// write charges the rings of q if all passed, fills in their answers, and keeps
// them, in at most so many bytes. It returns how many other keys were forgotten.
func (x *rings) write(q *question, now time.Time, ok bool, most int64) (forgotten int64) {
	for i := range q.asks {
		c, d := &q.claims[i], &q.answers[i]
		if !c.isRing() {
			continue
		}
		passed := d.OK
		*d = c.ring.Take(now, asAnswered(q.asks[i], ok, passed))
		amend(d, passed)
		if c.charges {
			e := ringEntry{key: ringKey(q.asks[i].Key), hash: c.h, limit: q.asks[i].Limit, ring: c.ring}
			forgotten += x.put(e, now, d.ResetAfter, most)
		}
	}
	return forgotten
}

// asAnswered returns a, but without cost if it would pass and another did not.
func asAnswered(a limit.Ask, ok, passed bool) limit.Ask {
	if ok || !passed {
		return a
	}
	return limit.Ask{Key: a.Key, Limit: a.Limit}
}

// amend makes the answer to such an ask the one to a.
func amend(d *limit.Decision, passed bool) {
	if passed {
		d.OK, d.RetryAfter = true, 0
	}
}

// rings keeps the rings of the keys that have one: few keys, each dear, so one
// lock will do. A key is here or in the table, never in both; it comes and goes
// under the locks of its lines. The zero value is ready.
type rings struct {
	filter ringFilter // of the keys; read without mu

	mu      sync.Mutex     // taken before the lock of any line; guards all below
	index   map[string]int // into entries
	entries []ringEntry    // a slice, so that a random one is at hand
	bytes   int64
}

type ringEntry struct {
	key   string
	hash  uint64      // of the key before ringKey
	limit limit.Limit // the last one that it was charged under
	ring  ring
	until int64 // µs of Unix time: nothing is left to remember then
	bytes int64 // of all of it, about
}

const (
	maxRingKey = 256 // bytes
	// ringEntryBytes is an entry's share of slice and map, about.
	ringEntryBytes = 160
	// ringSample is how many are looked at for each new key. If a share p of all
	// has expired, 8p are dropped for each that is added, so p comes to rest at
	// an eighth.
	ringSample = 8
)

// ringKey returns the key itself, or a digest of a long one. A key that looks
// like a digest is digested as well, so that none can pose as another.
func ringKey(key string) string {
	if len(key) <= maxRingKey && !isDigest(key) {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return "\x00" + string(sum[:])
}

// isDigest reports whether a key may be the digest of another.
func isDigest(key string) bool { return len(key) == 1+sha256.Size && key[0] == 0 }

func (x *rings) len() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.entries)
}

// find returns the entry of a key, or nil.
func (x *rings) find(key string) *ringEntry {
	if i, ok := x.index[key]; ok {
		return &x.entries[i]
	}
	return nil
}

// put keeps e, of which nothing will be left to remember after the time left, in
// place of what there is of its key, in at most so many bytes. It returns how many
// keys that had not expired it forgot.
func (x *rings) put(e ringEntry, now time.Time, left time.Duration, most int64) (forgotten int64) {
	micro := now.UnixMicro()
	e.until = micro + int64(left/time.Microsecond)
	if e.until <= micro {
		x.remove(e.key)
		return 0
	}
	at, known := x.index[e.key]
	if !known {
		if x.index == nil {
			x.index = make(map[string]int)
		}
		e.key = strings.Clone(e.key) // it may be a piece of something large
		at = len(x.entries)
		x.index[e.key] = at
		x.entries = append(x.entries, ringEntry{})
	} else {
		e.key = x.entries[at].key
	}
	e.bytes = e.ring.Bytes() + int64(len(e.key)) + ringEntryBytes
	x.bytes += e.bytes - x.entries[at].bytes
	x.entries[at] = e
	if !known {
		x.filter.add(e.hash, x.entries)
	}
	return x.shrink(micro, at, most)
}

// remove forgets a key.
func (x *rings) remove(key string) {
	if i, ok := x.index[key]; ok {
		x.drop(i)
	}
}

// shrink drops what has expired of a random sample, and, as long as there is
// too much, what will be forgotten first of it. The entry at keep stays.
func (x *rings) shrink(now int64, keep int, most int64) (forgotten int64) {
	key := x.entries[keep].key
	for first := true; len(x.entries) > 1 && (first || x.over(most)); first = false {
		least := -1
		for range ringSample {
			i := rand.IntN(len(x.entries))
			e := &x.entries[i]
			switch {
			case e.key == key:
			case e.until <= now:
				x.drop(i)
				least = -1 // drop has moved one; what was seen before may be it
			case least < 0 || e.until < x.entries[least].until:
				least = i
			}
		}
		if least >= 0 && x.over(most) {
			x.drop(least)
			forgotten++
		}
	}
	return forgotten
}

// over reports whether there is more than most bytes allow.
func (x *rings) over(most int64) bool {
	return x.bytes > most || int64(len(x.entries)) > most/keyBytes
}

// drop forgets entry i; the last one takes its place.
func (x *rings) drop(i int) {
	last := len(x.entries) - 1
	delete(x.index, x.entries[i].key)
	x.bytes -= x.entries[i].bytes
	if i != last {
		x.entries[i] = x.entries[last]
		x.index[x.entries[i].key] = i
	}
	x.entries[last] = ringEntry{}
	x.entries = x.entries[:last]
}

// A ringFilter knows of most keys that they have no ring, without the lock of the
// rings: it has one bit for each, at a place that the hash says (Bloom: Space/time
// trade-offs in hash coding with allowable errors, 1970, with one hash). Bits are
// never taken back; instead it is rebuilt of the entries when so many were set
// that an eighth of all may be. A decision that holds the locks of a key's lines
// reads rightly that the key is not there. The zero value is ready, and empty.
type ringFilter struct {
	bits  atomic.Pointer[[]atomic.Uint64]
	added int // since it was rebuilt; guarded by the lock of the rings
}

// minFilterWords are 4096 bits.
const minFilterWords = 64

// mayHave reports whether the key of hash h may have a ring.
func (f *ringFilter) mayHave(h uint64) bool {
	bits := f.bits.Load()
	return bits != nil && filterWord(*bits, h).Load()>>(h%64)&1 != 0
}

// add takes in the key of hash h, which is among the entries. The lock of the
// rings is held.
func (f *ringFilter) add(h uint64, entries []ringEntry) {
	bits := f.bits.Load()
	if bits != nil && f.added < 8*len(*bits) {
		f.added++
		filterWord(*bits, h).Or(1 << (h % 64))
		return
	}
	words := minFilterWords
	for words < len(entries)/4 { // at most a sixteenth of all bits will be set
		words *= 2
	}
	rebuilt := make([]atomic.Uint64, words)
	for i := range entries {
		filterWord(rebuilt, entries[i].hash).Or(1 << (entries[i].hash % 64))
	}
	f.added = len(entries)
	f.bits.Store(&rebuilt)
}

// filterWord returns the word of a hash; there is a power of two of them.
func filterWord(bits []atomic.Uint64, h uint64) *atomic.Uint64 {
	return &bits[h/64&uint64(len(bits)-1)]
}
