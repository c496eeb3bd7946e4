package memory

import (
	"math"
	"math/bits"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// A table is flat memory without pointers: lines of 64 bytes, the unit in which
// processors share memory, each of four slots. A slot is two words:
//
//	tag    lock, of slot 0 only: 1 bit | number of the limit: 12 | which line: 1 | fingerprint: 50
//	state  0 | T in µs after the base: 47 | N: 16          as limit.Fast packs it
//
// A state that no word holds takes a pair of slots, 0 and 1 or 2 and 3:
//
//	tag    as above
//	T      1 | T in µs after the base: 63
//	N, P   64 each
//
// Each key has two lines where it may be, and goes into the emptier one (Azar,
// Broder, Karlin, Upfal: Balanced Allocations, 1994). A slot whose T has passed
// is free, as a State whose T has passed equals none: so nothing is swept, and
// nothing has a time to live. If all are taken, the one that has used the
// smallest share of its limit makes room: see weight.
//
// A tag, and any word of a pair, changes only under the lock of the line. The
// state of a single slot is changed by compare-and-swap, lock or no lock; a
// decision that holds the lock and needs it to stand still swaps it for
// stateBusy. So the usual decision is one such swap, and a refusal writes
// nothing.
type table struct {
	hasher
	rows  uint64 // lines = rows << doublings
	mask  uint64 // 1 << doublings - 1
	lines []cacheLine
	base  time.Time // the clock: wall time then, monotonic since
	start int64     // base in µs of Unix time, rounded down
	below int64     // what was rounded, in ns

	// spared is whether a key may be in its spare. Once it is, it stays so. It is
	// set under the locks of the lines of that key.
	spared atomic.Bool

	grow
	m *Store // has the limits, the rings and the bounds
}

// A cacheLine is four slots. Slot i is words i and i+1: i counts by two.
type cacheLine [2 * lineSlots]atomic.Uint64

const (
	lineSlots = 4
	lineSize  = 16 * lineSlots // bytes

	tagLock        = 1 << 63
	tagLimitShift  = 51
	tagSecond      = 1 << 50 // the key is in the second of its two lines
	tagFingerprint = tagSecond - 1
	tagMoved       = ^uint64(0) // of slot 0 of a line that has gone to the next table

	// secondGroupShift is the bit of the fingerprint from which on it chooses
	// the group of the second line.
	secondGroupShift = 25

	statePair   = 1 << 63
	stateBusy   = 1       // with a T of zero, which no state that is kept has
	stateLowest = 1 << 16 // of those with a T

	// farLines is from how many lines on, 64 KiB, a line is fetched in advance: a
	// processor keeps fewer at hand.
	farLines = 1 << 10
	// nearLines, half a MiB, is how many a processor keeps close by.
	nearLines = 1 << 13
)

// now returns the time on the table's clock.
func (t *table) now() time.Time { return t.base.Add(time.Since(t.base)) }

// micros returns the time in µs after start; t.start+t.micros() is
// now().UnixMicro(). It is never below zero, and without a sign divided sooner.
func (t *table) micros() int64 { return t.microsIn(time.Since(t.base)) }

// microsIn is micros, so long after the base.
func (t *table) microsIn(since time.Duration) int64 {
	return int64(uint64(int64(since)+t.below) / uint64(time.Microsecond))
}

// since returns now in µs after start.
func (t *table) since(now time.Time) uint64 { return uint64(max(now.UnixMicro()-t.start, 0)) }

// home returns the two lines where the key of hash h may be. The low bits of h,
// which the tag holds, say in which groups of rows lines; with each doubling of
// the table one bit more for each of the two. The high bits, which it does not
// hold, say which line of the group. So a mistake takes 50 equal bits and, as
// there are 128 rows and more in all but tiny tables, at least 6 others.
func (t *table) home(h uint64) (a, b uint64) {
	a, _ = bits.Mul64(h, t.rows)
	b, _ = bits.Mul64(h<<8, t.rows-1)
	b += a + 1 // another row than a, if there is another
	_, less := bits.Sub64(b, t.rows, 0)
	b -= t.rows & (less - 1) // a branch would be guessed wrong half of the time
	return (h&t.mask)*t.rows + a, (h>>secondGroupShift&t.mask)*t.rows + b
}

// spare returns the neighbour of the first line. It is looked at under the lock
// only, and takes in what would displace another in a table that cannot grow:
// with two slots a key, one key of 100,000 or so.
func (t *table) spare(h uint64) uint64 {
	row, _ := bits.Mul64(h, t.rows)
	if row ^= 1; row == t.rows {
		row = 0
	}
	return (h&t.mask)*t.rows + row
}

// far reports whether a line of t has to come from far away.
func (t *table) far() bool { return len(t.lines) >= farLines }

// hashAndTime returns the hash of key, and how long after the base it is. Reading
// the clock waits for all that comes before it. So lines that are far away are
// called for first, and otherwise the hash, for which nothing there waits, comes
// last.
func (t *table) hashAndTime(key string) (h uint64, since time.Duration) {
	if !t.far() {
		since = time.Since(t.base)
		return t.hash(key), since
	}
	h = t.hash(key)
	a, b := t.home(h)
	prefetch(&t.lines[a], &t.lines[b])
	return h, time.Since(t.base)
}

// pack returns s as one word, zero if it has expired; ok is false if no word can
// hold it.
func (t *table) pack(p *prepared, s limit.State, now uint64) (w uint64, ok bool) {
	if s.T <= t.start || uint64(s.T)-uint64(t.start) <= now {
		return 0, true
	}
	return p.fast.Pack(s, t.start)
}

// unpack returns the state in the word of a single slot; p is that of its tag,
// nil if it has no number.
func (t *table) unpack(p *prepared, w uint64) limit.State {
	if p == nil {
		var plain limit.Fast
		return plain.Unpack(w, t.start)
	}
	return p.fast.Unpack(w, t.start)
}

// words returns s as a pair keeps it, from its second word on.
func (t *table) words(s limit.State) (w [3]uint64) {
	return [3]uint64{uint64(s.T-t.start) | statePair, uint64(s.N), uint64(s.P)}
}

// state returns the state in the words of a pair.
func (t *table) state(w [4]uint64) limit.State {
	return limit.State{T: t.start + int64(w[1]&^statePair), N: int64(w[2]), P: int64(w[3])}
}

// lock takes the lock of the line, unless its keys have moved on. It is held
// for well below a microsecond, or as long as the scheduler lets its owner wait.
func (l *cacheLine) lock() bool {
	for tries := 1; ; tries++ {
		switch tag := l[0].Load(); {
		case tag == tagMoved:
			return false
		case tag&tagLock == 0 && l[0].CompareAndSwap(tag, tag|tagLock):
			return true
		}
		if tries%32 == 0 {
			runtime.Gosched()
		}
	}
}

// unlock gives the lock back. No tag has been written by others meanwhile.
func (l *cacheLine) unlock() { l[0].Store(l[0].Load() &^ tagLock) }

// The rest needs the lock of the line, or of both. Times are in µs after the
// start of the table.

// after returns the slot that follows slot i, or the pair at i.
func (l *cacheLine) after(i int) int {
	if l.isPair(i) {
		return i + 4
	}
	return i + 2
}

func (l *cacheLine) isPair(i int) bool { return i&2 == 0 && l[i+1].Load()&statePair != 0 }

// at returns the slot of the fingerprint, or -1.
func (l *cacheLine) at(fingerprint uint64) int {
	for i := 0; i < len(l); i = l.after(i) {
		if l[i].Load()&tagFingerprint == fingerprint {
			return i
		}
	}
	return -1
}

// ends returns the T of a second word: until then the slot is taken. A busy one
// belongs to a decision that is in flight, and is taken for good.
func ends(w uint64) uint64 {
	switch {
	case w == stateBusy:
		return math.MaxUint64
	case w&statePair != 0:
		return w &^ statePair
	}
	return w >> 16
}

// pairEnds returns when the last of slots i and i+2 ends, or zero if both are
// free.
func (l *cacheLine) pairEnds(i int, now uint64) uint64 {
	end := ends(l[i+1].Load())
	if !l.isPair(i) {
		end = max(end, ends(l[i+3].Load()))
	}
	if end <= now {
		return 0
	}
	return end
}

// survey counts the free slots, and finds one; -1 if there is none.
func (l *cacheLine) survey(now uint64) (free, at int) {
	at = -1
	for i := 0; i < len(l); {
		next := l.after(i)
		if ends(l[i+1].Load()) <= now {
			free += (next - i) / 2
			at = i
		}
		i = next
	}
	return free, at
}

// hasRoom reports whether a state fits without displacing any.
func (l *cacheLine) hasRoom(asPair bool, now uint64) bool {
	free, _ := l.survey(now)
	return free >= 2 || free == 1 && !asPair
}

// setTag writes the tag of slot i.
func (l *cacheLine) setTag(i int, tag uint64) {
	if i == 0 {
		tag |= tagLock
	}
	l[i].Store(tag)
}

// choice returns the bit of a tag that says which of the lines a and b it is in.
func choice(l, a, b *cacheLine) uint64 {
	if l == b && a != b {
		return tagSecond
	}
	return 0
}

// setPair writes the pair at i, which is one or has been seized. Without the
// lock its words are not trusted before the lock is given back.
func (l *cacheLine) setPair(i int, tag uint64, w [3]uint64) {
	l.setTag(i, tag)
	l[i+2].Store(w[1])
	l[i+3].Store(w[2])
	l[i+1].Store(w[0])
}

// clear makes slot i, which is busy or a pair, empty.
func (l *cacheLine) clear(i int) {
	if l.isPair(i) {
		l[i+2].Store(0)
		l[i+3].Store(0)
	}
	l[i+1].Store(stateBusy) // no longer the state of that tag, and not yet free
	l.setTag(i, 0)
	l[i+1].Store(0)
}

// seize makes slot i, or the first slot of the pair at i, empty and busy, if its
// second word still is w. The second slot of a pair becomes empty.
func (l *cacheLine) seize(i int, w uint64) bool {
	if w == stateBusy {
		return false
	}
	if l.isPair(i) { // its words change under the lock only
		l[i+1].Store(stateBusy)
		l[i+2].Store(0)
		l[i+3].Store(0)
		return true
	}
	return l[i+1].CompareAndSwap(w, stateBusy)
}

// seizeHalf empties slots i and i+2 and makes the first busy, if their second
// words still are w and v.
func (l *cacheLine) seizeHalf(i int, w, v uint64) bool {
	wasPair := l.isPair(i)
	if !l.seize(i, w) {
		return false
	}
	if !wasPair && !l.seize(i+2, v) {
		l[i+1].Store(w)
		return false
	}
	return true
}

// gather makes one free pair of two free slots in different halves.
func (l *cacheLine) gather(now uint64) {
	if l.isPair(0) || l.isPair(4) || l.pairEnds(0, now) == 0 || l.pairEnds(4, now) == 0 {
		return
	}
	from, to := -1, -1 // the taken one of the second half, the free one of the first
	for i := 0; i < len(l); i += 2 {
		free := ends(l[i+1].Load()) <= now
		switch {
		case i < 4 && free:
			to = i
		case i >= 4 && !free && l[i+1].Load() != stateBusy && ends(l[(i^2)+1].Load()) <= now:
			from = i
		}
	}
	if from < 0 || to < 0 {
		return
	}
	if w := l[to+1].Load(); ends(w) > now || !l.seize(to, w) {
		return
	}
	w := l[from+1].Swap(stateBusy)
	l.setTag(to, l[from].Load())
	l.setTag(from, 0)
	l[to+1].Store(w)
	l[from+1].Store(0)
}
