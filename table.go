package throttle

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

)

func newTable(rows uint64, s seed, base time.Time) *table {
	return &table{
		seed: s, rows: rows, lines: make([]cacheLine, rows),
		base: base, start: base.UnixMicro(), below: int64(base.Nanosecond() % 1000),
	}
}

// now is the time on the table's clock.
func (t *table) now() time.Time { return t.base.Add(time.Since(t.base)) }

// micros is that in µs after start; t.start+t.micros() is now().UnixMicro().
func (t *table) micros() int64 {
	return (int64(time.Since(t.base)) + t.below) / int64(time.Microsecond)
}

// home is where the key of hash h may be. The low bits of h, which the tag
// holds, say in which groups of rows lines; with each doubling of the table one
// bit more for each of the two. The high bits, which it does not hold, say which
// line of the group. So a mistake takes 50 equal bits and, as there are 128 rows
// and more in all but tiny tables, at least 6 others.
//
// The third is the neighbour of the first. It is looked at under the lock only,
// and takes in what would displace another in a table that cannot grow: with
// two slots a key, one key of 100,000 or so.
func (t *table) home(h uint64) (a, b, spare uint64) {
	a, _ = bits.Mul64(h, t.rows)
	b, _ = bits.Mul64(h<<8, t.rows-1)
	if b += a + 1; b >= t.rows { // another row than a, if there is another
		b -= t.rows
	}
	if spare = a ^ 1; spare == t.rows {
		spare = 0
	}
	first := (h & t.mask) * t.rows
	return first + a, (h>>other&t.mask)*t.rows + b, first + spare
}

// find is the slot with the fingerprint fp, times two, or -1. Without the lock
// it may take the N of a pair for a tag, which is as likely as that two
// fingerprints are equal.
func (l *cacheLine) find(fp uint64) int {
	switch {
	case l[0].Load()&fpMask == fp:
		return 0
	case l[2].Load()&fpMask == fp:
		return 2
	case l[4].Load()&fpMask == fp:
		return 4
	case l[6].Load()&fpMask == fp:
		return 6
	}
	return -1
}

// search finds the slot of the key of hash h, without a lock. l is nil if it is
// in none, or was about to be moved.
func (t *table) search(h uint64) (l *cacheLine, i int) {
	if t.from.Load() != nil {
		t.settle(h)
	}
	a, b, _ := t.home(h)
	l = &t.lines[a]
	if i = l.find(h & fpMask); i >= 0 {
		return l, i
	}
	l = &t.lines[b]
	if i = l.find(h & fpMask); i >= 0 {
		return l, i
	}
	return nil, 0
}

// load is the state of slot i if its tag is the given one and it is a single
// slot with something in it. As the tag is looked at before and after, w was
// the state of that key; a swap that finds w again finds that key again, since
// what takes the place of a state has another T (but for two keys displaced
// within the same microsecond, where one event may be charged to the wrong one).
func (l *cacheLine) load(i int, tag uint64) (w uint64, ok bool) {
	if l[i].Load()&^(lockBit|second) != tag {
		return 0, false
	}
	w = l[i+1].Load()
	return w, w >= lowest && w < pair && l[i].Load()&^(lockBit|second) == tag
}

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
	l, i := t.search(h)
	if l == nil {
		return false, false
	}
	tag := p.tag | h&fpMask
	for {
		w, ok := l.load(i, tag)
		if !ok {
			return false, false
		}
		next, ok, known := p.fast.Allow(w, now)
		if !ok || !known || l[i+1].CompareAndSwap(w, next) {
			return ok && known, known
		}
	}
}

// take decides about one key, if that can be done without a lock.
func (t *table) take(p *prepared, h uint64, now time.Time, a *limit.Ask) (d limit.Decision, known bool) {
	l, i := t.search(h)
	if l == nil {
		return d, false
	}
	tag := p.tag | h&fpMask
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
		if l[i+1].CompareAndSwap(w, to) {
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
