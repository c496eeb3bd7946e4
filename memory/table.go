package memory

import (
	"math/bits"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// A table is flat memory without pointers: lines of 64 bytes, the unit in which
// processors share memory, each of four slots. A slot is two words:
//
//	tag    lock, of slot 0 only: 1 bit | id of the limit: 12 | which line: 1 | fingerprint: 50
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
// nothing has a time to live. If all are taken, the one with the earliest T,
// which owes least, makes room.
//
// Who changes a tag, or any word of a pair, holds the lock of the line. The
// state of a single slot is changed by compare-and-swap, lock or no lock; who
// holds the lock and needs it to stand still swaps it for busy. So the usual
// decision is one such swap, and a refusal writes nothing.
type table struct {
	seed  seed
	rows  uint64 // lines = rows << doublings
	mask  uint64 // 1 << doublings - 1
	lines []cacheLine
	base  time.Time // the clock: wall time then, monotonic since
	start int64     // base in µs of Unix time, rounded down
	below int64     // what was rounded, in ns

	grow
}

type cacheLine [2 * slots]atomic.Uint64

const (
	slots    = 4
	lineSize = 16 * slots // bytes

	lockBit = 1 << 63
	idShift = 51
	second  = 1 << 50 // the key is in the second of its two lines
	fpMask  = second - 1
	other   = 25         // from this bit on the fingerprint chooses the group of the second line
	moved   = ^uint64(0) // tag of slot 0 of a line that has gone to the next table

	pair   = 1 << 63 // in the second word
	busy   = 1       // a state with T zero, which none that is kept has
	lowest = 1 << 16 // of the states with a T

	// farLines is from how many lines on, half a megabyte, a line is fetched in
	// advance: a processor keeps fewer close by.
	farLines = 1 << 13
)

func newTable(rows uint64, s seed, base time.Time) *table {
	return &table{
		seed: s, rows: rows, lines: newLines(rows),
		base: base, start: base.UnixMicro(), below: int64(base.Nanosecond() % 1000),
	}
}

// now is the time on the table's clock.
func (t *table) now() time.Time { return t.base.Add(time.Since(t.base)) }

// micros is that in µs after start; t.start+t.micros() is now().UnixMicro(). It
// is never below zero, and without a sign divided sooner.
func (t *table) micros() int64 {
	return int64(uint64(int64(time.Since(t.base))+t.below) / uint64(time.Microsecond))
}

// home is where the key of hash h may be. The low bits of h, which the tag
// holds, say in which groups of rows lines; with each doubling of the table one
// bit more for each of the two. The high bits, which it does not hold, say which
// line of the group. So a mistake takes 50 equal bits and, as there are 128 rows
// and more in all but tiny tables, at least 6 others.
func (t *table) home(h uint64) (a, b uint64) {
	a, _ = bits.Mul64(h, t.rows)
	b, _ = bits.Mul64(h<<8, t.rows-1)
	b += a + 1 // another row than a, if there is another
	_, less := bits.Sub64(b, t.rows, 0)
	b -= t.rows & (less - 1) // a branch would be guessed wrong half of the time
	return (h&t.mask)*t.rows + a, (h>>other&t.mask)*t.rows + b
}

// spare is the neighbour of the first. It is looked at under the lock only, and
// takes in what would displace another in a table that cannot grow: with two
// slots a key, one key of 100,000 or so.
func (t *table) spare(h uint64) uint64 {
	row, _ := bits.Mul64(h, t.rows)
	if row ^= 1; row == t.rows {
		row = 0
	}
	return (h&t.mask)*t.rows + row
}

// find is the slot with the tag, times two, or -1. It looks at all four, and the
// compiler makes no branch of it: nothing tells which it is, and a processor that
// has guessed wrong begins again when the line has come. Without the lock it may
// take the N of a pair for a tag, which is as likely as that two fingerprints
// are equal.
func (l *cacheLine) find(tag uint64) int {
	i := -1
	if l[0].Load()&^lockBit == tag {
		i = 0
	}
	if l[2].Load() == tag {
		i = 2
	}
	if l[4].Load() == tag {
		i = 4
	}
	if l[6].Load() == tag {
		i = 6
	}
	return i
}

// far tells whether a line of t has to come from far away.
func (t *table) far() bool { return len(t.lines) >= farLines }

// fetch has the lines of the key of hash h brought near while the clock is read.
// They would not come of themselves: reading the clock waits for all reads
// before it.
func (t *table) fetch(h uint64) {
	a, b := t.home(h)
	prefetch(&t.lines[a], &t.lines[b])
}

// search finds the slot of the key of hash h with the tag, without a lock. i is
// -1 if it is in none, or was about to be moved. It looks at both lines, without
// a branch as find.
func (t *table) search(h, tag uint64) (l *cacheLine, i int) {
	if t.from.Load() != nil {
		t.settle(h)
	}
	a, b := t.home(h)
	l, m := &t.lines[a], &t.lines[b]
	i = l.find(tag)
	j := m.find(tag | second)
	if i < 0 {
		l = m
	}
	if i < 0 {
		i = j
	}
	return l, i
}

// load is the state of slot i, which had the given tag, if it still has and is a
// single slot with something in it. As the tag is looked at before and after, w
// was the state of that key; a swap that finds w again finds that key again,
// since what takes the place of a state has another T (but for two keys displaced
// within the same microsecond, where one event may be charged to the wrong one).
func (l *cacheLine) load(i int, tag uint64) (w uint64, ok bool) {
	w = l.word(i).Load()
	return w, w-lowest < pair-lowest && l[i&(2*slots-1)].Load()&^(lockBit|second) == tag
}

// word is the second one of slot i, found without a check of bounds.
func (l *cacheLine) word(i int) *atomic.Uint64 { return &l[(i+1)&(2*slots-1)] }

// loadPair is the state of the pair at i if its tag is the given one. It reads
// twice, with the line unlocked in between, and gives up soon if it is written
// all the time.
func (t *table) loadPair(l *cacheLine, i int, tag uint64) (s limit.State, ok bool) {
	if i&2 != 0 {
		return s, false
	}
	for range 16 {
		w := l.four(i)
		if w[0]&^(lockBit|second) != tag || w[1]&pair == 0 {
			return s, false
		}
		if l[0].Load()&lockBit == 0 && l.four(i) == w {
			return t.state(w), true
		}
	}
	return s, false
}

// four are the words of the pair at i, each as of a moment of its own.
func (l *cacheLine) four(i int) [4]uint64 {
	return [4]uint64{l[i].Load(), l[i+1].Load(), l[i+2].Load(), l[i+3].Load()}
}

// state is what a pair says.
func (t *table) state(w [4]uint64) limit.State {
	return limit.State{T: t.start + int64(w[1]&^pair), N: int64(w[2]), P: int64(w[3])}
}

// allow decides about one event of the key of hash h, now µs after start, if
// that can be done without a lock.
func (t *table) allow(p *prepared, h uint64, now int64) (ok, known bool) {
	tag := p.tag | h&fpMask
	a, _ := t.home(h)
	l, i := &t.lines[a], 0 // where most are, of a few keys
	if t.mask > 0 || l[0].Load() != tag {
		if l, i = t.search(h, tag); i < 0 {
			return false, false
		}
	}
	for {
		w, ok := l.load(i, tag)
		if !ok {
			return false, false
		}
		next, ok, known := p.fast.Allow(w, now)
		if !ok || !known || l.word(i).CompareAndSwap(w, next) {
			return ok && known, known
		}
	}
}

// take decides about one key, if that can be done without a lock.
func (t *table) take(p *prepared, h uint64, now time.Time, a *limit.Ask) (d limit.Decision, known bool) {
	tag := p.tag | h&fpMask
	l, i := t.search(h, tag)
	if i < 0 {
		return d, false
	}
	for {
		var s, next limit.State
		w, single := l.load(i, tag)
		if single {
			s = p.fast.Unpack(w, t.start)
		} else if s, known = t.loadPair(l, i, tag); !known {
			return d, false
		}
		if next, d = limit.Take(s, now, *a); next == s {
			return d, true
		}
		to, packs := p.fast.Pack(next, t.start)
		if !single || !packs || to < lowest {
			return d, false
		}
		if l.word(i).CompareAndSwap(w, to) {
			return d, true
		}
	}
}

// lock takes the lock of the line, unless its keys have moved on. It is held
// for well below a microsecond, or as long as the scheduler lets its owner wait.
func (l *cacheLine) lock() bool {
	for tries := 1; ; tries++ {
		switch tag := l[0].Load(); {
		case tag == moved:
			return false
		case tag&lockBit == 0 && l[0].CompareAndSwap(tag, tag|lockBit):
			return true
		}
		if tries%32 == 0 {
			runtime.Gosched()
		}
	}
}

// unlock gives it back. Nobody else writes tags meanwhile.
func (l *cacheLine) unlock() { l[0].Store(l[0].Load() &^ lockBit) }
