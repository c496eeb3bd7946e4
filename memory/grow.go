package memory

import (
	crand "crypto/rand"
	"encoding/binary"
	"sync/atomic"
	"time"
)

const (
	// maxFirstRows is the most rows of a new table, and half of it the fewest,
	// so that doubling leads to within a hundredth of any size.
	maxFirstRows = 256
	// growMoves is how many lines each decision moves besides its own. A new
	// table takes in at least half as many keys as the old one has lines before
	// it is as full as that one was, so 2 would be enough.
	growMoves = 4
)

// firstTable makes a table whose clock starts at base, unless another call has made
// one meanwhile.
func (m *Store) firstTable(base time.Time) *table {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tab.Load() == nil {
		rows := m.maxLines()
		for rows >= maxFirstRows {
			rows /= 2
		}
		m.tab.Store(newTable(m, rows, newSeed(), base))
	}
	return m.tab.Load()
}

// maxLines returns how many lines the table may have.
func (m *Store) maxLines() uint64 { return uint64(max(1, m.maxBytes()/lineSize)) }

func newTable(m *Store, rows uint64, s seed, base time.Time) *table {
	return &table{
		m: m, hasher: hasher{seed: s}, rows: rows, lines: newLines(rows),
		base: base, start: base.UnixMicro(), below: int64(base.Nanosecond() % 1000),
	}
}

func newSeed() (s seed) {
	var b [32]byte
	_, _ = crand.Read(b[:]) // never fails: it ends the program instead
	return seedOf(b)
}

func seedOf(b [32]byte) (s seed) {
	for i := range s {
		s[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	return s
}

// grow is how a table is doubled while it is in use. Each line of the old table
// has two successors in the new one, which have no other predecessor: so a line
// is moved by itself, under its own lock, and its keys always fit. A decision
// that needs a line first moves its predecessor, and a few lines more, so that
// none waits for the whole.
type grow struct {
	from atomic.Pointer[table] // the old table, as long as it has keys
	next atomic.Int64          // the next line of it to be moved by any decision
	left atomic.Int64          // lines of it that have not been moved
}

// mayDouble reports whether the table may become larger than t.
func (m *Store) mayDouble(t *table) bool { return uint64(len(t.lines)) <= m.maxLines()/2 }

// double doubles t, or, if it has just been doubled, finishes moving its keys.
func (m *Store) double(t *table) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.tab.Load() != t: // another decision has done it
	case t.from.Load() != nil:
		t.settleAll()
	default:
		m.tab.Store(t.doubled())
	}
}

// doubled returns a new table of twice as many lines, which are yet to be moved.
func (t *table) doubled() *table {
	n := &table{
		m: t.m, hasher: t.hasher, rows: t.rows, mask: 2*t.mask + 1, lines: newLines(2 * uint64(len(t.lines))),
		base: t.base, start: t.start, below: t.below,
	}
	n.spared.Store(t.spared.Load())
	n.left.Store(int64(len(t.lines)))
	n.from.Store(t)
	return n
}

// settle moves the lines that the key of hash h has in the old table, and some.
func (t *table) settle(h uint64) {
	from := t.from.Load()
	if from == nil {
		return
	}
	a, b := from.home(h)
	t.move(from, a)
	t.move(from, b)
	t.move(from, from.spare(h))
	for range growMoves {
		i := t.next.Add(1) - 1
		if i >= int64(len(from.lines)) {
			return
		}
		t.move(from, uint64(i))
	}
}

// settleAll moves all lines.
func (t *table) settleAll() {
	if from := t.from.Load(); from != nil {
		for i := range from.lines {
			t.move(from, uint64(i))
		}
	}
}

// group returns the bits of a tag that number its group; the mask of a table
// says how many of them count.
func group(tag uint64) uint64 {
	if tag&tagSecond != 0 {
		return tag >> secondGroupShift
	}
	return tag
}

// move moves line i of the old table, unless that has been done. With the mask
// one bit of the fingerprint more counts, the one that is the number of groups
// so far: with it a key goes to the upper half, into the line of the same place.
func (t *table) move(from *table, i uint64) {
	old := &from.lines[i]
	if old[0].Load() == tagMoved || !old.lock() {
		return
	}
	low, high := &t.lines[i], &t.lines[i+uint64(len(from.lines))]
	for s := 0; s < len(old); {
		next, to := old.after(s), low
		if group(old[s].Load())&(from.mask+1) != 0 {
			to = high
		}
		if old.isPair(s) {
			to[s+2].Store(old[s+2].Load())
			to[s+3].Store(old[s+3].Load())
			to[s+1].Store(old[s+1].Load())
		} else {
			// A decision that finds it busy looks in the new table.
			to[s+1].Store(old[s+1].Swap(stateBusy))
		}
		to[s].Store(old[s].Load() &^ tagLock)
		s = next
	}
	old[0].Store(tagMoved)
	if t.left.Add(-1) == 0 {
		t.from.Store(nil)
	}
}

// len moves all lines, and counts the keys that have not expired.
func (t *table) len() (n int) {
	t.settleAll()
	now := uint64(t.micros())
	for i := range t.lines {
		l := &t.lines[i]
		for s := 0; s < len(l); s = l.after(s) {
			if ends(l[s+1].Load()) > now {
				n++
			}
		}
	}
	return n
}
