package limit

import (
	"math/bits"
	"time"
)

// Take decides, now microseconds after the base, whether n events pass under the
// State in w. It fills in d as the function Take does, but for At, and returns
// the word to keep, which is w itself if nothing is charged. If known is false,
// d is unchanged and the function Take must decide: on refunds, for one, and on
// more than could ever pass at once.
func (f *Fast) Take(w uint64, now, n int64, d *Decision) (next uint64, known bool) {
	left := int64(w>>wordBits) - now
	if uint64(now) >= uint64(wordFar) || left > f.far || uint64(n) > f.most {
		return 0, false
	}
	if f.kind != fastBucket {
		// The first of a window is for Take, which knows where windows end.
		return f.takeWindow(w, left, uint64(n), d), f.kind == fastWindow && left > 0
	}
	// It counts in q-ths of a microsecond, of which an event is worth p.
	from, debt := uint64(now)<<wordBits, uint64(0)
	if left > 0 {
		from, debt = w, uint64(left)*f.q-w&wordN
	}
	after := debt + uint64(n)*f.p
	if after > f.whole {
		return f.refuse(w, left, debt, after, d), true
	}
	switch n {
	case 1:
		next = f.plusOne(from)
	case 0:
		next = w
	default:
		up := (after + f.q - 1) / f.q
		next = (uint64(now)+up)<<wordBits | (up*f.q - after)
	}
	d.OK, d.N, d.Max = true, n, int64(f.most)
	d.Remaining, d.RetryAfter = int64(f.events(f.whole-after)), 0
	d.ResetAfter = time.Duration(max(int64(next>>wordBits)-now, 0)) * time.Microsecond
	return next, true
}

// refuse fills in d for a bucket that owes so much now, and would owe too much.
func (f *Fast) refuse(w uint64, left int64, debt, after uint64, d *Decision) uint64 {
	d.OK, d.N, d.Max = false, 0, int64(f.most)
	d.Remaining = int64(f.events(f.whole - min(debt, f.whole)))
	d.RetryAfter = f.duration(after - f.whole)
	d.ResetAfter = time.Duration(max(left, 0)) * time.Microsecond
	return w
}

// takeWindow decides about a window that ends in so many microseconds.
func (f *Fast) takeWindow(w uint64, left int64, n uint64, d *Decision) (next uint64) {
	if f.kind != fastWindow || left <= 0 {
		return w
	}
	used, end := min(w&wordN, 2*f.most), time.Duration(left)*time.Microsecond
	d.Max = int64(f.most)
	d.OK, d.N, d.RetryAfter = used+n <= f.most, int64(n), 0
	if !d.OK {
		d.N, d.RetryAfter, n = 0, end, 0
	}
	if d.ResetAfter = 0; used+n > 0 {
		d.ResetAfter = end
	}
	d.Remaining = int64(f.most - min(used+n, f.most))
	return w + n
}

// events returns how many whole events are worth so many parts. It multiplies by
// the inverse, which is less than the true one, instead of dividing by p: so it may
// come out one too low.
func (f *Fast) events(parts uint64) uint64 {
	n, _ := bits.Mul64(parts, f.inverse)
	if parts-n*f.p >= f.p {
		n++
	}
	return n
}

// duration returns the time that is so many parts, rounded up to a microsecond.
func (f *Fast) duration(parts uint64) time.Duration {
	return time.Duration((parts+f.q-1)/f.q) * time.Microsecond
}
