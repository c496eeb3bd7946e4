package memory

import (
	"context"
	"crypto/sha256"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// oneGoroutine leaves a test of arithmetic out of a short run, as that of scripts/test
// with the race detector is, which finds nothing in it and makes it slow.
func oneGoroutine(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("one goroutine")
	}
}

// OneGoroutine is oneGoroutine for tests outside of the package.
var OneGoroutine = oneGoroutine

// For tests in throttle_test, which can import throttletest.
var RingKey = ringKey

// Start is when the clock of m began.
func (m *Store) Start() time.Time { return m.table().base }

// DecideAt is Take at the time now, not before Start.
func (m *Store) DecideAt(now time.Time, a []limit.Ask, d []limit.Decision) bool {
	m.table()
	if len(a) == 1 {
		d[0] = m.oneAt(now, &a[0])
		return d[0].OK
	}
	return m.takeAll(now, a, d)
}

// Decide is TakeOne without its error, which is always nil.
func (m *Store) Decide(a limit.Ask) limit.Decision {
	d, _ := m.TakeOne(context.Background(), a)
	return d
}

// AllowAt is Allow at the time now.
func (m *Store) AllowAt(at time.Time, key string, l limit.Limit) bool {
	t, p := m.table(), m.limits.get(&l)
	h, now := t.hash(key), int64(t.since(at))
	if ok, known := t.allow(p, h, now); known {
		return ok
	}
	return t.allowFirst(p, h, now) || m.takeOne(p, h, at, &limit.Ask{Key: key, Limit: l, N: 1}).OK
}

// Size is how large the table is, in bytes.
func (m *Store) Size() int64 { return int64(len(m.table().lines)) * lineSize }

// Sealed is b as a snapshot with a head and a sum that are right.
func Sealed(b []byte) []byte {
	b = append([]byte(snapshotHeads[0]), b...)
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}

// SealedOld is b as such a one of the first version.
func SealedOld(b []byte) []byte {
	b = append([]byte(snapshotHeads[2]), b...)
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}

// Rings returns how many keys have a ring, and how many bytes they count for.
func (m *Store) Rings() (n int, bytes int64) {
	m.rings.mu.Lock()
	defer m.rings.mu.Unlock()
	if len(m.rings.index) != len(m.rings.entries) {
		return -1, -1
	}
	return len(m.rings.entries), m.rings.bytes
}

// LockRings locks the rings, until unlock is called.
func (m *Store) LockRings() (unlock func()) {
	m.rings.mu.Lock()
	return m.rings.mu.Unlock
}

// Hash is the one by which the key is found.
func (m *Store) Hash(key string) uint64 { return m.table().hash(key) }

// MayHaveRing reports whether the key is looked for among the rings.
func (m *Store) MayHaveRing(key string) bool {
	return m.rings.filter.mayHave(m.table().hash(key))
}

// Check looks for what must never be in the table.
func (m *Store) Check() error { return m.table().check() }

// Tags are those of all lineSlots in use.
func (m *Store) Tags() (tags []uint64) {
	t := m.table()
	for i := range t.lines {
		for s := 0; s < 2*lineSlots; s = t.lines[i].after(s) {
			if t.lines[i][s+1].Load() != 0 {
				tags = append(tags, t.lines[i][s].Load())
			}
		}
	}
	return tags
}

// HashSerially makes m hash long keys as it did up to version 2 of its snapshots. It
// must come before the first decision.
func (m *Store) HashSerially() { m.table().serial = true }

// SpareIsUsed reports whether a key of m may be in its spare line.
func (m *Store) SpareIsUsed() bool { return m.table().spared.Load() }
