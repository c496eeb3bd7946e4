package memory

import (
	"crypto/sha256"
	"strings"
	"sync"
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

func (c *claim) isRing() bool { return c.p.keeps == keepsRing && !c.reduced }

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
	return from.states
}

// carry returns a state that was written under p as one under q.
func (p *prepared) carry(s limit.State, now time.Time, q *prepared) limit.State {
	if p.keeps == keepsState {
		return limit.Change(s, now, p.limit, q.limit)
	}
	return owing(limit.Used(s, now, p.states), now, q)
}

// owing returns the state of a key that has used so much at the present time.
func owing(used int64, now time.Time, p *prepared) limit.State {
	s, _ := limit.Take(limit.State{}, now, limit.Ask{Limit: p.limit, N: used, Debt: true})
	return s
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
		c.ring, c.kept = newRing(kind), e.forgives(now, c.p)
		c.chargeRing(now, e.ring.Used(now, e.limit))
	case live || e.limit != c.p.limit && kind == limit.SlidingSlots: // which would forget by being asked
		c.ring = cloneRing(e.ring)
	default:
		c.ring = e.ring
	}
}

// forgives is limit.Forgives of what e has used.
func (e *ringEntry) forgives(now time.Time, to *prepared) bool {
	s, used := limit.State{T: e.until, N: e.ring.Used(now, e.limit)}, e.limit
	used.Kind = limit.FirstHitWindow
	used.Count = max(used.Count, s.N) // more than that owes, if it was used under another limit before
	return limit.Forgives(s, now, used, to.limit)
}

// toState returns the state of a claim that owes what its ring has used; s, if
// it has no ring.
func (x *rings) toState(c *claim, key string, now time.Time, s limit.State) limit.State {
	e := x.find(ringKey(key))
	if e == nil {
		return s
	}
	c.carried, c.leaves, c.kept = true, true, e.forgives(now, c.p)
	return owing(e.ring.Used(now, e.limit), now, c.p)
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
			_, q.answers[i] = limit.Take(q.states[i], now, c.ask(q.asks[i]))
		}
		ok = ok && q.answers[i].OK
	}
	for i := range q.asks {
		if c := &q.claims[i]; !c.isRing() {
			passed := q.answers[i].OK
			q.states[i], q.answers[i] = limit.Take(q.states[i], now, asAnswered(c.ask(q.asks[i]), ok, passed))
			amend(&q.answers[i], passed)
		}
	}
	return ok
}

// ask returns a, of a key that has no ring, under the limit by which its state is
// read.
func (c *claim) ask(a limit.Ask) limit.Ask {
	if c.reduced {
		a.Limit = c.p.states
	}
	return a
}

// write charges the rings of q if all passed, fills in their answers, and keeps
// them.
func (x *rings) write(q *question, now time.Time, ok bool) {
	for i := range q.asks {
		c, d := &q.claims[i], &q.answers[i]
		if !c.isRing() {
			continue
		}
		passed := d.OK
		*d = c.ring.Take(now, asAnswered(q.asks[i], ok, passed))
		amend(d, passed)
		if c.charges && !q.keeps(c) {
			e := ringEntry{key: ringKey(q.asks[i].Key), hash: c.h, limit: q.asks[i].Limit, ring: c.ring}
			x.put(e, now, d.ResetAfter)
		}
	}
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

// put keeps e, which expires after the time left, in
// place of what there is of its key.
func (x *rings) put(e ringEntry, now time.Time, left time.Duration) {
	micro := now.UnixMicro()
	e.until = micro + int64(left/time.Microsecond)
	if e.until <= micro {
		x.remove(e.key)
		return
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
}

// has reports whether a claim has a ring.
func (x *rings) has(c *claim, key string) bool {
	return x.filter.mayHave(c.h) && x.find(ringKey(key)) != nil
}

// remove forgets a key.
func (x *rings) remove(key string) {
	if i, ok := x.index[key]; ok {
		x.drop(i)
	}
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
