package memory

import (
	"math"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// A key that owes nothing may have no slot: its own is free, and another takes it.
// So of many keys that are far below their limit nearly every one is new at each of
// its events. For these there are two locks and a few words to write, and nothing to
// work out that the fast way does not.

// allowFirst reports whether one event of a key that is in none of its lines passes,
// and is charged. If not, the slow way is to decide.
func (t *table) allowFirst(p *prepared, h uint64, now int64) bool {
	w, ok, known := p.fast.Allow(0, now)
	return ok && known && t.enter(p, h, w, uint64(now))
}

// takeFirst decides whether n pass for a key that is in none of its lines, in d but
// for its time. If it reports false, it is for the slow way, and d says nothing.
func (t *table) takeFirst(p *prepared, h uint64, now, n int64, d *limit.Decision) bool {
	if n <= 0 {
		return false
	}
	w, known := p.fast.Take(0, now, n, d)
	return known && d.OK && t.enter(p, h, w, uint64(now))
}

// takeNew is takeFirst for whatever is asked.
func (t *table) takeNew(p *prepared, h uint64, now time.Time, a *limit.Ask) (d limit.Decision, known bool) {
	if p.fast.Wide() { // it may take a pair
		return d, false
	}
	s, d := limit.Take(limit.State{}, now, *a)
	since := t.since(now)
	w, packs := t.pack(p, s, since)
	return d, packs && t.enter(p, h, w, since)
}

// enter stores w, the state of one word, for the key of hash h. It reports false,
// and has stored nothing, if that is for the slow way: if the key is there after
// all, or may have a ring, if no slot of its lines is free, or t not in use any more.
func (t *table) enter(p *prepared, h, w, now uint64) bool {
	var lines [3]uint64
	lines[0], lines[1] = t.home(h)
	a, b := &t.lines[lines[0]], &t.lines[lines[1]]
	if p.tag == 0 || w < stateLowest || a == b {
		return false
	}
	n := 2
	if t.spared.Load() {
		lines[2], n = t.spare(h), 3
	}
	if !t.lockFew(&lines, n) {
		return false
	}
	became := outcomeMoved
	if n == 3 || !t.spared.Load() {
		became = t.enterLocked(p, h, w, now, a, b, lines[:n])
	}
	t.unlockFew(&lines, n)
	if became == outcomeFull {
		t.m.double(t)
	}
	return became == outcomeDecided
}

// enterLocked is enter under the locks of the lines. Of the free slots it takes the
// one that has been free for longest, as the others may be of keys that come more
// often, and find their slot as long as no other has taken it. A table that is near
// is rather doubled: it stays near, and has room for all of a few thousand keys.
func (t *table) enterLocked(p *prepared, h, w, now uint64, a, b *cacheLine, lines []uint64) outcome {
	for _, i := range lines {
		if t.lines[i].at(h&tagFingerprint) >= 0 {
			return outcomeMoved
		}
	}
	if t.m.rings.filter.mayHave(h) {
		return outcomeMayBeRing
	}
	v, other, l, tag := a.vacancy(now), b.vacancy(now), a, p.tag|h&tagFingerprint
	if v.end > 0 && other.end > 0 && 2*uint64(len(t.lines)) <= nearLines && t.m.mayDouble(t) {
		return outcomeFull
	}
	if other.free > v.free || other.free == v.free && other.end < v.end {
		v, l, tag = other, b, tag|tagSecond
	}
	if v.free == 0 || !l.put(v.at, v.w, tag, w, now) {
		return outcomeMoved
	}
	return outcomeDecided
}

// A vacancy is how many slots of a line are free, and which has been for longest.
type vacancy struct {
	free, at int
	w, end   uint64 // its second word, and when that ended: zero if it was never used
}

func (l *cacheLine) vacancy(now uint64) (v vacancy) {
	v.end = math.MaxUint64
	for i := 0; i < len(l); {
		next, w := l.after(i), l[i+1].Load()
		if end := ends(w); end <= now {
			v.free += (next - i) / 2
			if end < v.end {
				v.at, v.w, v.end = i, w, end
			}
		}
		i = next
	}
	return v
}

// lockFew locks n lines, two or three, in the order that lock has, or none if one
// has moved on. It sorts them.
func (t *table) lockFew(lines *[3]uint64, n int) bool {
	x, y := min(lines[0], lines[1]), max(lines[0], lines[1])
	lines[0], lines[1] = x, y
	if n == 3 {
		z := lines[2]
		lines[0], lines[2] = min(x, z), max(y, z)
		lines[1] = max(x, min(y, z))
	}
	for i := range n {
		if i > 0 && lines[i] == lines[i-1] {
			continue
		}
		if !t.lines[lines[i]].lock() {
			t.unlockFew(lines, i)
			return false
		}
	}
	return true
}

// unlockFew unlocks the first n lines.
func (t *table) unlockFew(lines *[3]uint64, n int) {
	for i := range n {
		if i == 0 || lines[i] != lines[i-1] {
			t.lines[lines[i]].unlock()
		}
	}
}
