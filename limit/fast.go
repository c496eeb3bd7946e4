package limit

import "math"

// Fast is a Limit prepared for tables that keep many states in little room: it
// packs a State into one word, and decides on such words with next to no
// divisions. It agrees with Take to the last bit, or reports that it cannot
// decide (known is false). The zero Fast packs states of any Limit, less
// tightly, and decides nothing. A Fast does not change, so it is safe for
// concurrent use.
//
// A word is T, in microseconds after a base, times 2^16, plus N, in its unit.
// It stays below 2^63, so T below 2^47: 4.4 years after the base.
type Fast struct {
	kind fastKind
	unit int64 // every N is a multiple of it; zero is one
	far  int64 // T this far from now, in microseconds, may have to be clamped

	// Of a TokenBucket whose Count/Period has the lowest terms q/p: one event
	// is worth p/q microseconds, and N counts q-ths of one.
	q    uint64
	rem  uint64 // p mod q
	cost uint64 // what one event adds to a word, if N is at least rem
	room uint64 // what Most events add to a word with N zero

	most uint64 // what could ever pass at once

	p       uint64 // of a TokenBucket, see q
	whole   uint64 // what Most events are worth, in q-ths of a microsecond
	inverse uint64 // 2^64/p, or less by less than one
}

type fastKind uint8

const (
	notFast fastKind = iota
	fastBucket
	fastWindow
)

const (
	wordBits = 16 // of N
	wordN    = 1<<wordBits - 1
	// wordFar bounds every length of time that Allow adds up, so that no sum
	// reaches 2^47.
	wordFar = int64(1) << 45
)

// FastOf prepares l.
func FastOf(l Limit) Fast {
	switch {
	case !l.counts():
	case l.Kind == TokenBucket:
		return fastBucketOf(l)
	case l.Kind == FixedWindow && l.Count <= wordN && l.micros() < wordFar:
		return Fast{kind: fastWindow, far: l.micros(), most: uint64(l.Count)}
	}
	return Fast{}
}

func fastBucketOf(l Limit) Fast {
	b := bucketOf(&l)
	f := Fast{unit: gcd(b.count, b.period), far: later(b.bottom().ceil(), skew)}
	one := b.worth(1)
	if q := b.count / f.unit; q <= wordN+1 && f.far < wordFar && one.us < wordFar {
		f.kind, f.q, f.p = fastBucket, uint64(q), uint64(b.period/f.unit)
		f.rem = uint64(one.rem / f.unit)
		f.cost = uint64(one.us)<<wordBits - f.rem
		f.room = f.plus(0, uint64(b.room.us), uint64(b.room.rem/f.unit))
		f.most, f.inverse = uint64(l.most()), math.MaxUint64/f.p
		f.whole = f.most * f.p
	}
	return f
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// plus is the word w, which is T - N/q, and us + rem/q microseconds.
func (f *Fast) plus(w, us, rem uint64) uint64 {
	sum := w + us<<wordBits - rem
	if w&wordN < rem {
		// The subtraction has borrowed from T, to which one is to be carried
		// instead, and N is to be N - rem + q.
		sum += 1<<wordBits + f.q
	}
	return sum
}

// plusOne is plus for what one event is worth.
func (f *Fast) plusOne(w uint64) uint64 {
	next := w + f.cost
	if w&wordN < f.rem {
		next += 1<<wordBits + f.q
	}
	return next
}

// Pack returns s as a word, with its T counted from base, in microseconds of
// Unix time. A State that has expired at base is zero. ok is false for a State
// that a word cannot hold: one with a P, one that expires years after base, or
// one whose N is too large or no multiple of the unit.
func (f *Fast) Pack(s State, base int64) (w uint64, ok bool) {
	if s.T <= base {
		return 0, true
	}
	t, n := uint64(s.T)-uint64(base), s.N
	if f.unit > 1 {
		n = s.N / f.unit
		ok = n*f.unit == s.N
	} else {
		ok = true
	}
	if !ok || n < 0 || n > f.largest() || t >= 1<<47 || s.P != 0 {
		return 0, false
	}
	return t<<wordBits | uint64(n), true
}

// largest is the largest N of a word. No bucket keeps one of q or more, so Allow
// need not know what such a one means.
func (f *Fast) largest() int64 {
	if f.kind == fastBucket {
		return int64(f.q) - 1
	}
	return wordN
}

// Unpack returns the State that Pack was called with, or an equivalent one.
func (f *Fast) Unpack(w uint64, base int64) State {
	if w>>wordBits == 0 {
		return State{}
	}
	return State{T: base + int64(w>>wordBits), N: int64(w&wordN) * max(f.unit, 1)}
}

// Used returns what the function Used does for the State in w, now microseconds
// after the base. If known is false, call that function.
func (f *Fast) Used(w uint64, now int64) (n int64, known bool) {
	left := int64(w>>wordBits) - now
	switch {
	case f.kind == notFast || uint64(now) >= uint64(wordFar):
		return 0, false
	case left <= 0:
		return 0, true
	case f.kind == fastWindow:
		return int64(min(w&wordN, 2*f.most)), true
	case left > f.far:
		return 0, false
	}
	parts := uint64(left)*f.q - w&wordN // q-ths of a microsecond, of which one event is worth p
	return int64((parts + f.p - 1) / f.p), true
}

// Wide reports whether l may have states that no word can hold.
func (f *Fast) Wide() bool { return f.kind == notFast }

// Allow decides, now microseconds after the base, whether one event passes under
// the State in w, and returns the word to keep if so. If known is false, Take
// must decide.
func (f *Fast) Allow(w uint64, now int64) (next uint64, ok, known bool) {
	t := int64(w >> wordBits)
	if uint64(now) >= uint64(wordFar) || t-now > f.far {
		return 0, false, false
	}
	switch f.kind {
	case fastBucket:
		full := uint64(now) << wordBits
		if t <= now {
			w = full
		}
		next = f.plusOne(w)
		// The larger N, the sooner: with its bits inverted words are in order.
		return next, next^wordN <= (full+f.room)^wordN, true
	case fastWindow:
		// The first of a window is for Take, which knows where windows end.
		return w + 1, w&wordN < f.most, t > now
	}
	return 0, false, false
}
