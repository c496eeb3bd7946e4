package memory

import (
	"cmp"
	"math/bits"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// A weight says how much it matters that a key is remembered: by the share of the
// limit that it has used, as the key that is refused, or nearest to it, gains most
// by being forgotten. Of equal shares the one of more events weighs more, as it
// has cost the caller more. It is worked out when a key must be displaced, and at
// no other time.
type weight struct {
	share uint64 // of the limit, in parts of wholeShare, rounded down
	used  int64  // events
	end   uint64 // when nothing is left to remember, in µs after the start of the table
	lot   uint64 // as if at random, so that no place is the first of equals
}

// wholeShare is the share of a key that is refused one event more.
const wholeShare = 1 << 32

func (a *weight) less(b *weight) bool {
	switch {
	case a.share != b.share:
		return a.share < b.share
	case a.used != b.used:
		return a.used < b.used
	case a.end != b.end:
		return a.end < b.end
	}
	return a.lot < b.lot
}

// weightOf returns the weight of a key that has used so many of most.
func weightOf(used, most int64, end uint64) weight {
	switch {
	case most <= 0: // of a limit that is not known
		return weight{end: end}
	case used >= most:
		return weight{share: wholeShare, used: most, end: end}
	}
	hi, lo := bits.Mul64(uint64(max(used, 0)), wholeShare)
	share, _ := bits.Div64(hi, lo, uint64(most))
	return weight{share: share, used: used, end: end}
}

// weighState returns the weight of a state that was written under p.
func (t *table) weighState(p *prepared, s limit.State, now uint64) weight {
	used := limit.Used(s, time.UnixMicro(t.start+int64(now)), p.states)
	return weightOf(used, p.most, uint64(max(s.T-t.start, 0)))
}

// weighWord returns the weight of a state of one word, as weighState.
func (t *table) weighWord(p *prepared, w, now uint64) weight {
	if used, known := p.fast.Used(w, int64(now)); known {
		return weightOf(used, p.most, ends(w))
	}
	return t.weighState(p, t.unpack(p, w), now)
}

// A newcomer is a key without a slot, which is to get one.
type newcomer struct {
	a, b, more *cacheLine // where it may be: see home and spare
	tag        uint64     // without the choice of the line
	p          *prepared
	now        uint64
	others     []claim // of the same question; their pairs stay where they are
	// yields is whether it is forgotten itself if all others weigh more. Without,
	// no key that is new would ever be remembered among those that weigh much.
	yields bool
}

// A spot is a slot or a half of a line, and what was seen in it. Without a line it
// is none.
type spot struct {
	l         *cacheLine
	i         int
	w, v      uint64 // the second words of slots i and, of a half, i+2
	displaces int64  // keys that have not expired
	weight
}

// putSingle stores a state of one word for a key that is in none of its lines,
// and returns how many that had not expired were forgotten.
func (t *table) putSingle(x *newcomer, w uint64) (displaced int64) {
	for {
		s := t.room(x, false)
		switch {
		case s.l == nil || x.yields && x.loses(&s, t.weighWord(x.p, w, x.now)):
			return 1
		case s.l.put(s.i, s.w, x.tag|choice(s.l, x.a, x.b), w, x.now): // or else it has changed meanwhile
			t.noteSpare(x, s.l)
			return s.displaces
		}
	}
}

// putPair stores a state of three words, as putSingle one of one word.
func (t *table) putPair(x *newcomer, state limit.State) (displaced int64) {
	for {
		s := t.room(x, true)
		switch {
		case s.l == nil || x.yields && x.loses(&s, t.weighState(x.p, state, x.now)):
			return 1
		case s.l.seizeHalf(s.i, s.w, s.v):
			at := x.agePairs(s.l, s.i)
			s.l.setPair(at, x.tag|choice(s.l, x.a, x.b), t.words(state))
			t.noteSpare(x, s.l)
			return s.displaces
		}
	}
}

// noteSpare notes that x is in l, if that is its spare.
func (t *table) noteSpare(x *newcomer, l *cacheLine) {
	if l == x.more && !t.spared.Load() {
		t.spared.Store(true)
	}
}

// loses reports whether s holds a key that weighs no less than x.
func (x *newcomer) loses(s *spot, own weight) bool {
	return s.displaces > 0 && !s.weight.less(&own)
}

// room returns where x is to be: in the emptier one of its lines, in the spare if
// they are full, or else in the place of a key, see least.
func (t *table) room(x *newcomer, asPair bool) (s spot) {
	free := 0
	for i, l := range [...]*cacheLine{x.a, x.b, x.more} {
		if l == nil || i == 2 && free > 0 {
			break
		}
		if n, found := l.freeSpot(asPair, x.now); n > free {
			free, s = n, found
		}
	}
	if free == 0 {
		s = t.least(x, asPair)
	}
	return s
}

// least returns the key that weighs least in the lines of x, or the half of a line
// whose heavier key does.
//
// A share alone would keep all that are new out of a table of keys which have used
// half of their limits: each would displace the one before. So those that came
// last into a line, which are in its first half, are looked at only if all in the
// second halves are refused; and the spare only if all in both lines are.
func (t *table) least(x *newcomer, asPair bool) (s spot) {
	const half = lineSlots
	for step, l := range [...]*cacheLine{x.a, x.b, x.a, x.b, x.more} {
		if l == nil || (step == 2 || step == 4) && s.l != nil && s.share < wholeShare {
			break
		}
		from, to := 0, 2*half
		switch {
		case step >= 4 || x.yields: // all
		case step >= 2:
			to = half
		case asPair || !l.isPair(0): // singles are new in a half of singles
			from = half
		}
		for i := from; i < to; {
			c, next := t.weighPlace(l, i, x, asPair)
			if i = next; c.l != nil && (s.l == nil || c.weight.less(&s.weight)) {
				s = c
			}
		}
	}
	return s
}

// weighPlace returns what is at slot i, for a pair in the half that begins there,
// with its weight, and the slot that follows.
func (t *table) weighPlace(l *cacheLine, i int, x *newcomer, asPair bool) (s spot, next int) {
	s, next = t.weigh(l, i, x), l.after(i)
	if asPair && next == i+2 {
		s, next = s.with(t.weigh(l, next, x)), next+2
	}
	return s, next
}

// freeSpot returns a free slot or half, and how many slots are free in the line;
// zero if there is none such.
func (l *cacheLine) freeSpot(asPair bool, now uint64) (free int, s spot) {
	if asPair {
		l.gather(now)
	}
	free, at := l.survey(now)
	if !asPair {
		if at < 0 {
			return 0, s
		}
		s = spot{l: l, i: at, w: l[at+1].Load()}
		if ends(s.w) > now { // it has come to life
			return 0, s
		}
		return free, s
	}
	for i := 0; i < len(l); i += 4 {
		if l.pairEnds(i, now) == 0 {
			return free, spot{l: l, i: i, w: l[i+1].Load(), v: l[i+3].Load()}
		}
	}
	return 0, s
}

// with returns the half that has the slots s and o.
func (s spot) with(o spot) spot {
	if s.l == nil || o.l == nil {
		return spot{}
	}
	s.v = o.w
	s.displaces += o.displaces
	if s.weight.less(&o.weight) {
		s.weight = o.weight
	}
	return s
}

// weigh returns slot i, or the pair there, and its weight; none if it belongs to
// the decision that is in flight. What was written under a limit without a number
// counts as if under that of x, or, if that has one, as the least of those refused.
func (t *table) weigh(l *cacheLine, i int, x *newcomer) spot {
	tag, w := l[i].Load()&^tagLock, l[i+1].Load()
	if w == stateBusy {
		return spot{}
	}
	s := spot{l: l, i: i, w: w}
	if ends(w) <= x.now {
		return s
	}
	s.displaces = 1
	from := t.m.limits.of(tag)
	switch {
	case from == nil && x.p.tag != 0:
		s.weight = weight{share: wholeShare, end: ends(w)}
	case w&statePair != 0:
		s.weight = t.weighState(cmp.Or(from, x.p), t.state(l.four(i)), x.now)
	case from != nil:
		s.weight = t.weighWord(from, w, x.now)
	default:
		s.weight = t.weighState(x.p, t.unpack(nil, w), x.now)
	}
	s.lot = (tag ^ x.tag) * 0x9e3779b97f4a7c15
	return s
}

// put stores a state of one word in slot i, or in one nearer to the front, if the
// second word of slot i still is was. It reports false if not.
func (l *cacheLine) put(i int, was, tag, w, now uint64) bool {
	if !l.seize(i, was) {
		return false
	}
	at := l.ageSingles(i, now)
	l.setTag(at, tag)
	l[at+1].Store(w)
	return true
}

// ageSingles makes room in the first half of a line by moving what is there
// towards slot i, which is busy, and returns the slot that is busy instead. It
// moves nothing where that half has room, or is a pair.
func (l *cacheLine) ageSingles(i int, now uint64) int {
	if l.isPair(0) || !l.moves(0, now) || i > 2 && !l.moves(2, now) {
		return i
	}
	if i > 2 {
		l.moveSingle(2, i)
		i = 2
	}
	if i == 2 {
		l.moveSingle(0, 2)
	}
	return 0
}

// moves reports whether slot i has a single state that no decision holds.
func (l *cacheLine) moves(i int, now uint64) bool {
	w := l[i+1].Load()
	return w != stateBusy && ends(w) > now
}

// moveSingle moves a state to a slot that is busy, and leaves its own busy.
func (l *cacheLine) moveSingle(from, to int) {
	w := l[from+1].Swap(stateBusy)
	l.setTag(to, l[from].Load()&^tagLock)
	l[to+1].Store(w)
}

// agePairs moves the first half of a line to the half at i, which has been seized,
// and returns the half that is empty instead.
func (x *newcomer) agePairs(l *cacheLine, i int) int {
	if i == 0 {
		return 0
	}
	for k := range x.others {
		if c := &x.others[k]; c.l == l && c.i < 4 {
			return i
		}
	}
	if l.isPair(0) {
		l.setPair(i, l[0].Load()&^tagLock, [3]uint64{l[1].Load(), l[2].Load(), l[3].Load()})
		l.seize(0, l[1].Load())
		return 0
	}
	l.moveSingle(0, i)
	l.moveSingle(2, i+2)
	return 0
}
