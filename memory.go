package throttle

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// Memory is the [Store] in this process. The zero value is ready. It is safe
// for concurrent use, starts no goroutine and needs no closing; it must not be
// copied after first use.
//
// It remembers a bounded number of keys, each of at most 256 bytes (of a
// longer one, its SHA-256). What has expired is dropped as new keys come.
// Beyond the bound the new key displaces, of eight picked at random, the one
// that owes least, which then starts afresh: a flood of made-up keys, which
// owe little, leaves those that are over their limit in place.
//
// Its clock is the wall clock at its first use and from then on monotonic, so
// that a step of the wall clock grants nothing. Fixed windows end by that
// clock.
type Memory struct {
	// Keys is the most keys remembered. If zero or below, 1,000,000, which take
	// some 150 MB. It must not change after first use.
	Keys int

	mu        sync.Mutex // guards all below
	base      time.Time
	index     map[string]int // into entries
	entries   []entry        // a slice, so that a random one is at hand
	forgotten int64
}

type entry struct {
	key   string
	state limit.State
}

const (
	defaultKeys = 1_000_000
	longestKey  = 256 // bytes
	// sampled is how many are looked at for each new key. If a share p of the
	// table has expired, 8p are dropped for each that is added, so p comes to
	// rest at an eighth.
	sampled = 8
	// fewAsks can be answered without allocating.
	fewAsks = 4
)

var (
	errLengths = errors.New("throttle: asks and decisions differ in number")

	_ Store = (*Memory)(nil)
)

// Take answers a in d, see [Store]. It looks at no context, as it never waits.
func (m *Memory) Take(_ context.Context, a []limit.Ask, d []limit.Decision) (ok bool, err error) {
	if len(a) != len(d) {
		return false, errLengths
	}
	if err := distinct(a); err != nil {
		return false, err
	}
	var few [fewAsks]string
	keys := few[:0]
	for i := range a {
		keys = append(keys, short(a[i].Key))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.take(m.now(), keys, a, d), nil
}

// take decides and keeps what has changed. Caller holds mu.
func (m *Memory) take(now time.Time, keys []string, a []limit.Ask, d []limit.Decision) (ok bool) {
	var few, few2 [fewAsks]limit.State
	before := few[:0]
	for _, key := range keys {
		before = append(before, m.get(key))
	}
	after := append(few2[:0], before...)
	ok = limit.TakeAll(after, now, a, d)
	for i := range a {
		if after[i] != before[i] {
			m.put(now, keys[i], after[i])
		}
	}
	return ok
}

// Len is the number of keys remembered, some of which may have expired.
func (m *Memory) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.entries)
}

// Forgotten is how many keys that had not expired have been displaced.
func (m *Memory) Forgotten() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.forgotten
}

// distinct is an error if two asks are about one key.
func distinct(a []limit.Ask) error {
	if len(a) > 16 {
		return distinctMany(a)
	}
	for i := range a {
		for j := range i {
			if a[i].Key == a[j].Key {
				return fmt.Errorf("throttle: two asks about the key %.100q", a[i].Key)
			}
		}
	}
	return nil
}

func distinctMany(a []limit.Ask) error {
	seen := make(map[string]bool, len(a))
	for i := range a {
		if seen[a[i].Key] {
			return fmt.Errorf("throttle: two asks about the key %.100q", a[i].Key)
		}
		seen[a[i].Key] = true
	}
	return nil
}

// now is the wall clock of the first use plus the monotonic time since.
func (m *Memory) now() time.Time {
	if m.base.IsZero() {
		m.base = time.Now()
		m.index = make(map[string]int)
	}
	return m.base.Add(time.Since(m.base))
}

// short is the key itself, or a digest of a long one. A key that looks like a
// digest is digested as well, so that none can pose as another.
func short(key string) string {
	if len(key) <= longestKey && !(len(key) == 1+sha256.Size && key[0] == 0) {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return "\x00" + string(sum[:])
}

func (m *Memory) get(key string) limit.State {
	if i, ok := m.index[key]; ok {
		return m.entries[i].state
	}
	return limit.State{}
}

// put keeps s, or drops the key if there is nothing left to remember.
func (m *Memory) put(now time.Time, key string, s limit.State) {
	i, known := m.index[key]
	switch expired := s.T <= now.UnixMicro(); {
	case known && expired:
		m.drop(i)
	case known:
		m.entries[i].state = s
	case !expired:
		m.makeRoom(now)
		key = strings.Clone(key) // it may be a piece of something large
		m.index[key] = len(m.entries)
		m.entries = append(m.entries, entry{key, s})
	}
}

// makeRoom drops what has expired of a random sample, and what owes least of
// it if there is no room even so.
func (m *Memory) makeRoom(now time.Time) {
	most := m.Keys
	if most <= 0 {
		most = defaultKeys
	}
	least := -1
	for range sampled {
		if len(m.entries) == 0 {
			return
		}
		i := rand.IntN(len(m.entries))
		switch t := m.entries[i].state.T; {
		case t <= now.UnixMicro():
			m.drop(i)
			least = -1 // drop has moved one; what was seen before may be it
		case least < 0 || t < m.entries[least].state.T:
			least = i
		}
	}
	if least >= 0 && len(m.entries) >= most {
		m.drop(least)
		m.forgotten++
	}
}

// drop forgets entry i; the last one takes its place.
func (m *Memory) drop(i int) {
	last := len(m.entries) - 1
	delete(m.index, m.entries[i].key)
	if i != last {
		m.entries[i] = m.entries[last]
		m.index[m.entries[i].key] = i
	}
	m.entries[last] = entry{}
	m.entries = m.entries[:last]
}
