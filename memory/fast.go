package memory

import (
	"sync/atomic"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// The fast way takes no lock: it finds the slot of one key, reads its state,
// decides, and writes the new state by one compare-and-swap. It leaves to the
// slow way what it does not find, and what it cannot write so.

// allow decides about one event of the key of hash h, now µs after start. If not
// known, it is for the slow way.
func (t *table) allow(p *prepared, h uint64, now int64) (ok, known bool) {
	tag := p.tag | h&tagFingerprint
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

// takeFast decides whether n pass, in d but for its time. If it reports false, it
// is for the slow way, and d says nothing.
func (t *table) takeFast(p *prepared, h uint64, now, n int64, d *limit.Decision) bool {
	tag := p.tag | h&tagFingerprint
	a, _ := t.home(h)
	l, i := &t.lines[a], 0 // as in allow
	if t.mask > 0 || l[0].Load() != tag {
		if l, i = t.search(h, tag); i < 0 {
			return false
		}
	}
	for {
		w, ok := l.load(i, tag)
		if !ok {
			return false
		}
		next, known := p.fast.Take(w, now, n, d)
		if !known || next == w || l.word(i).CompareAndSwap(w, next) {
			return known
		}
	}
}

// take decides about the key of a, of hash h, whatever is asked. If not known, it
// is for the slow way.
func (t *table) take(p *prepared, h uint64, now time.Time, a *limit.Ask) (d limit.Decision, known bool) {
	tag := p.tag | h&tagFingerprint
	l, i := t.search(h, tag)
	if i < 0 {
		return t.takeNew(p, h, now, a)
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
		if !single || !packs || to < stateLowest {
			return d, false
		}
		if l.word(i).CompareAndSwap(w, to) {
			return d, true
		}
	}
}

// search finds the slot of the key of hash h with the tag. i is -1 if it is in
// none, or was about to be moved. It looks at both lines, without a branch as
// find.
func (t *table) search(h, tag uint64) (l *cacheLine, i int) {
	if t.from.Load() != nil {
		t.settle(h)
	}
	a, b := t.home(h)
	l, m := &t.lines[a], &t.lines[b]
	i = l.find(tag)
	j := m.find(tag | tagSecond)
	if i < 0 {
		l = m
	}
	if i < 0 {
		i = j
	}
	return l, i
}

// find returns the slot with the tag, or -1. It looks at all four, and the
// compiler makes no branch of it: nothing tells which it is, and a processor that
// has guessed wrong begins again when the line has come. Without the lock it may
// take the N of a pair for a tag, which is as likely as that two fingerprints
// are equal.
func (l *cacheLine) find(tag uint64) int {
	i := -1
	if l[0].Load()&^tagLock == tag {
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

// load returns the state of slot i, which had the given tag, if it still has and
// is a single slot with something in it. As the tag is looked at before and after,
// w was the state of that key; a swap that finds w again finds that key again,
// unless another with the same state has taken its place meanwhile: then one event
// may be charged to the wrong one of two keys.
func (l *cacheLine) load(i int, tag uint64) (w uint64, ok bool) {
	w = l.word(i).Load()
	return w, w-stateLowest < statePair-stateLowest && l[i&(2*lineSlots-1)].Load()&^(tagLock|tagSecond) == tag
}

// word returns the second word of slot i, found without a check of bounds.
func (l *cacheLine) word(i int) *atomic.Uint64 { return &l[(i+1)&(2*lineSlots-1)] }

// loadPair returns the state of the pair at i if its tag is the given one. It
// reads twice, with the line unlocked in between, and gives up soon if it is
// written all the time.
func (t *table) loadPair(l *cacheLine, i int, tag uint64) (s limit.State, ok bool) {
	if i&2 != 0 {
		return s, false
	}
	for range 16 {
		w := l.four(i)
		if w[0]&^(tagLock|tagSecond) != tag || w[1]&statePair == 0 {
			return s, false
		}
		if l[0].Load()&tagLock == 0 && l.four(i) == w {
			return t.state(w), true
		}
	}
	return s, false
}

// four returns the words of the pair at i, each as of a moment of its own.
func (l *cacheLine) four(i int) [4]uint64 {
	return [4]uint64{l[i].Load(), l[i+1].Load(), l[i+2].Load(), l[i+3].Load()}
}
