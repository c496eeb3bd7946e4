package memory

import "sync/atomic"

// grow is how a table is doubled while it is in use. Each line of the old table
// has two successors in the new one, which have no other predecessor: so a line
// is moved by itself, under its own lock, and its keys always fit. Who needs a
// line sees to it first that its predecessor is moved, and moves a few more, so
// that no decision waits for the whole.
type grow struct {
	from atomic.Pointer[table] // the old table, as long as it has keys
	next atomic.Int64          // the next line of it to be moved by anybody
	left atomic.Int64          // lines of it that have not been moved
}

// moveMore is how many lines each decision moves besides its own. A new table
// takes in at least half as many keys as the old one has lines before it is as
// full as that one was, so 2 would be enough.
const moveMore = 4

// doubled is a new table of twice as many lines, which are yet to be moved.
func (t *table) doubled() *table {
	n := &table{
		seed: t.seed, rows: t.rows, mask: 2*t.mask + 1, lines: newLines(2 * uint64(len(t.lines))),
		base: t.base, start: t.start, below: t.below,
	}
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
	for range moveMore {
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

// group is the bits of a tag of which the mask of a table says how many count.
func group(tag uint64) uint64 {
	if tag&second != 0 {
		return tag >> other
	}
	return tag
}

// move moves line i of the old table, unless that has been done. With the mask
// one bit of the fingerprint more counts, the one that is the number of groups
// so far: with it a key goes to the upper half, into the line of the same place.
func (t *table) move(from *table, i uint64) {
	old := &from.lines[i]
	if old[0].Load() == moved || !old.lock() {
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
			to[s+1].Store(old[s+1].Swap(busy)) // whoever finds it so looks in the new table
		}
		to[s].Store(old[s].Load() &^ lockBit)
		s = next
	}
	old[0].Store(moved)
	if t.left.Add(-1) == 0 {
		t.from.Store(nil)
	}
}
