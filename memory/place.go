package memory

import (
	"math"

	"github.com/throttle-go/throttle/limit"
)

// The methods of this file are for who holds the locks of the lines. Times are
// in µs after the start of the table.

// after is the slot that follows slot i, or the pair at i; both times two.
func (l *cacheLine) after(i int) int {
	if l.isPair(i) {
		return i + 4
	}
	return i + 2
}

func (l *cacheLine) isPair(i int) bool { return i&2 == 0 && l[i+1].Load()&pair != 0 }

// at is the slot of the fingerprint, or -1.
func (l *cacheLine) at(fp uint64) int {
	for i := 0; i < len(l); i = l.after(i) {
		if l[i].Load()&fpMask == fp {
			return i
		}
	}
	return -1
}

// ends is the T of a second word: until then the slot is taken. One that is
// busy belongs to a decision under way, and is taken for good.
func ends(w uint64) uint64 {
	switch {
	case w == busy:
		return math.MaxUint64
	case w&pair != 0:
		return w &^ pair
	}
	return w >> 16
}

// survey counts the free slots, and finds a free one, or else the one that ends
// first.
func (l *cacheLine) survey(now uint64) (free, best int, first uint64) {
	first = math.MaxUint64
	for i := 0; i < len(l); {
		next, end := l.after(i), ends(l[i+1].Load())
		if end <= now {
			free += (next - i) / 2
			end = 0
		}
		if end < first {
			best, first = i, end
		}
		i = next
	}
	return free, best, first
}

// tag writes the tag of slot i.
func (l *cacheLine) tag(i int, tag uint64) {
	if i == 0 {
		tag |= lockBit
	}
	l[i].Store(tag)
}

// seize makes slot i, or the first slot of the pair at i, empty and busy, if its
// second word still is w. The second slot of a pair becomes empty.
func (l *cacheLine) seize(i int, w uint64) bool {
	if w == busy {
		return false
	}
	if l.isPair(i) { // its words change under the lock only
		l[i+1].Store(busy)
		l[i+2].Store(0)
		l[i+3].Store(0)
		return true
	}
	return l[i+1].CompareAndSwap(w, busy)
}

// clear makes slot i, which is busy or a pair, empty.
func (l *cacheLine) clear(i int) {
	if l.isPair(i) {
		l[i+2].Store(0)
		l[i+3].Store(0)
	}
	l[i+1].Store(busy) // no longer the state of that tag, and not yet free
	l.tag(i, 0)
	l[i+1].Store(0)
}

// choice is the bit of a tag that says which of the lines a and b it is in.
func choice(l, a, b *cacheLine) uint64 {
	if l == b && a != b {
		return second
	}
	return 0
}

// putSingle stores a state of one word for a key that is in neither line, and
// returns how many that had not expired made room.
func (t *table) putSingle(a, b *cacheLine, tag, w, now uint64) (displaced int64) {
	for {
		l, other := a, b
		free, i, first := l.survey(now)
		if f, j, e := other.survey(now); f > free || f == free && free == 0 && e < first {
			l, i, first = other, j, e
		}
		if first == math.MaxUint64 {
			return 1 // all belong to this very decision: this one is forgotten
		}
		old := l[i+1].Load()
		if now < ends(old) && first <= now || !l.seize(i, old) {
			continue // it has come to life meanwhile
		}
		l.tag(i, tag|choice(l, a, b))
		l[i+1].Store(w)
		if first > now {
			return 1
		}
		return 0
	}
}

// putPair stores a state of three words.
func (t *table) putPair(a, b *cacheLine, tag uint64, s limit.State, now uint64) (displaced int64) {
	for {
		a.gather(now)
		b.gather(now)
		x, y := a, b
		if f, _, _ := x.survey(now); f < slots { // the emptier one goes first
			if g, _, _ := y.survey(now); g > f {
				x, y = y, x
			}
		}
		l, i, first := x, 0, uint64(math.MaxUint64)
		for _, at := range [...]struct {
			l *cacheLine
			i int
		}{{x, 0}, {x, 4}, {y, 0}, {y, 4}} {
			if end := at.l.pairEnds(at.i, now); end < first {
				l, i, first = at.l, at.i, end
			}
		}
		if first == math.MaxUint64 {
			return 1
		}
		if n, ok := l.seizePair(i, now, first); ok {
			l.writePair(i, tag|choice(l, a, b), t.words(s))
			return n
		}
	}
}

// pairEnds is when the last of slots i and i+1 ends, or zero if both are free.
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

// seizePair empties slots i and i+1 and says how many had not expired, unless
// one has changed so that the last ends after the time given.
func (l *cacheLine) seizePair(i int, now, last uint64) (displaced int64, ok bool) {
	first := l[i+1].Load()
	wasPair := l.isPair(i)
	if ends(first) > max(last, now) || !l.seize(i, first) {
		return 0, false
	}
	if ends(first) > now {
		displaced++
	}
	if wasPair {
		return displaced, true
	}
	second := l[i+3].Load()
	if ends(second) > max(last, now) || !l.seize(i+2, second) {
		l[i+1].Store(first)
		return 0, false
	}
	if ends(second) > now {
		displaced++
	}
	return displaced, true
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
		case i >= 4 && !free && l[i+1].Load() != busy && ends(l[(i^2)+1].Load()) <= now:
			from = i
		}
	}
	if from < 0 || to < 0 {
		return
	}
	if w := l[to+1].Load(); ends(w) > now || !l.seize(to, w) {
		return
	}
	w := l[from+1].Swap(busy)
	l.tag(to, l[from].Load())
	l.tag(from, 0)
	l[to+1].Store(w)
	l[from+1].Store(0)
}

// words is s as a pair keeps it.
func (t *table) words(s limit.State) (w [3]uint64) {
	return [3]uint64{uint64(s.T-t.start) | pair, uint64(s.N), uint64(s.P)}
}

// writePair writes the pair at i, which is one or has been seized. Nobody
// trusts its words before the lock is given back.
func (l *cacheLine) writePair(i int, tag uint64, w [3]uint64) {
	l.tag(i, tag)
	l[i+2].Store(w[1])
	l[i+3].Store(w[2])
	l[i+1].Store(w[0])
}

// room tells whether a state fits without displacing any.
func (l *cacheLine) room(asPair bool, now uint64) bool {
	free, _, _ := l.survey(now)
	return free >= 2 || free == 1 && !asPair
}
