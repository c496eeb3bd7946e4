package memory

import (
	"crypto/sha256"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// A window keeps what does not fit a State.
type window interface {
	Take(now time.Time, a limit.Ask) limit.Decision
	Used(now time.Time, l limit.Limit) int64
	Bytes() int64
	AppendBinary(b []byte) ([]byte, error)
	UnmarshalBinary(data []byte) error
}

// windows are those of the keys that need one: few, each dear, so one lock will
// do. A key is here or in the table, never in both; it comes and goes under the
// locks of its lines. The zero value is ready.
type windows struct {
	seen filter // of the keys; read without mu

	mu      sync.Mutex     // taken before the lock of any line; guards all below
	index   map[string]int // into entries
	entries []windowEntry  // a slice, so that a random one is at hand
	bytes   int64
}

type windowEntry struct {
	key   string
	hash  uint64      // of the key before it was made short
	limit limit.Limit // the last one that it was charged under
	keep  window
	until int64 // µs of Unix time: nothing is left to remember then
	bytes int64 // of all of it, about
}

const (
	longestKey = 256 // bytes
	// entryBytes is an entry's share of slice and map, about.
	entryBytes = 160
	// sampled is how many are looked at for each new key. If a share p of all
	// has expired, 8p are dropped for each that is added, so p comes to rest at
	// an eighth.
	sampled = 8
)

// short is the key itself, or a digest of a long one. A key that looks like a
// digest is digested as well, so that none can pose as another.
func short(key string) string {
	if len(key) <= longestKey && !isDigest(key) {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return "\x00" + string(sum[:])
}

// isDigest tells whether a key may be the digest of another.
func isDigest(key string) bool { return len(key) == 1+sha256.Size && key[0] == 0 }

func (x *windows) len() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.entries)
}

// find is the entry of a key, or nil.
func (x *windows) find(key string) *windowEntry {
	if i, ok := x.index[key]; ok {
		return &x.entries[i]
	}
	return nil
}

func newWindow(kind limit.Kind) window {
	if kind == limit.SlidingSlots {
		return new(limit.Slots)
	}
	return new(limit.Log)
}

// passes tells whether a would pass. What w remembers only ages by it.
func passes(w window, now time.Time, a limit.Ask) bool {
	n, least, debt := a.N, a.Min, a.Debt
	a.N, a.Min, a.Debt = 0, 0, false
	d := w.Take(now, a)
	switch {
	case n <= 0:
		return n < 0 || d.OK
	case least > 0:
		n = min(n, least)
	}
	return debt || n <= d.Remaining
}

// put keeps e, of which nothing will be left to remember in so long, in place of
// what there is of its key. It returns how many keys that had not expired it
// forgot.
func (x *windows) put(m *Store, now time.Time, e windowEntry, left time.Duration) (forgotten int64) {
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
		x.entries = append(x.entries, windowEntry{})
	} else {
		e.key = x.entries[at].key
	}
	e.bytes = e.keep.Bytes() + int64(len(e.key)) + entryBytes
	x.bytes += e.bytes - x.entries[at].bytes
	x.entries[at] = e
	if !known {
		x.seen.add(e.hash, x.entries)
	}
	return x.shrink(m, micro, at)
}

// remove forgets a key.
func (x *windows) remove(key string) {
	if i, ok := x.index[key]; ok {
		x.drop(i)
	}
}

// shrink drops what has expired of a random sample, and, as long as there is
// too much, what will be forgotten first of it. The entry at keep stays.
func (x *windows) shrink(m *Store, now int64, keep int) (forgotten int64) {
	key := x.entries[keep].key
	for first := true; len(x.entries) > 1 && (first || x.over(m)); first = false {
		least := -1
		for range sampled {
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
		if least >= 0 && x.over(m) {
			x.drop(least)
			forgotten++
		}
	}
	return forgotten
}

// over tells whether there is more than Keys and Bytes allow.
func (x *windows) over(m *Store) bool {
	most := m.bytes()
	return x.bytes > most || int64(len(x.entries)) > most/keyBytes
}

// drop forgets entry i; the last one takes its place.
func (x *windows) drop(i int) {
	last := len(x.entries) - 1
	delete(x.index, x.entries[i].key)
	x.bytes -= x.entries[i].bytes
	if i != last {
		x.entries[i] = x.entries[last]
		x.index[x.entries[i].key] = i
	}
	x.entries[last] = windowEntry{}
	x.entries = x.entries[:last]
}
