package worker

// window holds the records of one assignment at or above its frontier, in the
// order of their offsets. It decides by values alone; *T is a record that is not
// done.
type window[T any] struct {
	slots []slot[T] // the first of which, if any, is not done
	head  int       // slots before it are unused
	base  int64     // number of slots[head]

	next    int64 // all below was offered, or is a gap
	known   bool  // whether next is
	awaited int64 // the lowest offset that was refused
	awaits  bool  // whether one was, and it was neither accepted nor skipped since
	tried   int64 // the slots below this number were tried, or are below one that was
}

// slot is the place of one record.
type slot[T any] struct {
	offset int64
	left   *T // nil: done
}

// newWindow returns the window of an assignment that begins at next; unknown if
// below zero.
func newWindow[T any](next int64) window[T] {
	return window[T]{next: max(next, 0), known: next >= 0}
}

// len returns how many records are at or above the frontier.
func (w *window[T]) len() int { return len(w.slots) - w.head }

// frontier returns the offset below which all is done, if it is known.
func (w *window[T]) frontier() (next int64, known bool) {
	if w.len() > 0 {
		return w.slots[w.head].offset, true
	}
	return w.next, w.known
}

// seen reports whether a record at offset was accepted before, or was declared a
// gap.
func (w *window[T]) seen(offset int64) bool { return w.known && offset < w.next }

// early reports whether a record before that at offset was refused, and has not
// come again: to accept this one would make it a gap.
func (w *window[T]) early(offset int64) bool { return w.awaits && offset > w.awaited }

// refuse notes that there was no room for the record at offset.
func (w *window[T]) refuse(offset int64) { w.awaits, w.awaited = true, offset }

// accept appends x, the record at offset, and returns its number. The offset is
// neither seen nor early.
func (w *window[T]) accept(offset int64, x *T) (number int64) {
	if w.head > 0 && w.head >= len(w.slots)/2 {
		n := copy(w.slots, w.slots[w.head:])
		clear(w.slots[n:])
		w.slots, w.head = w.slots[:n], 0
	}
	w.slots = append(w.slots, slot[T]{offset, x})
	w.next, w.known, w.awaits = offset+1, true, w.awaits && w.awaited > offset
	return w.base + int64(w.len()-1)
}

// skip declares that no record below next is to come.
func (w *window[T]) skip(next int64) {
	if w.seen(next) {
		return
	}
	w.next, w.known = next, true
	w.awaits = w.awaits && w.awaited >= next
}

// started notes that the record of that number is tried.
func (w *window[T]) started(number int64) { w.tried = max(w.tried, number+1) }

// done moves the frontier past the record of that number and all done ones that
// follow, as soon as none is left below.
func (w *window[T]) done(number int64) {
	w.slots[w.head+int(number-w.base)].left = nil
	for w.len() > 0 && w.slots[w.head].left == nil {
		w.head++
		w.base++
	}
	if w.len() == 0 {
		w.slots, w.head = w.slots[:0], 0
	}
}

// left yields the records that are not done, in order.
func (w *window[T]) left(yield func(*T) bool) {
	for _, s := range w.slots[w.head:] {
		if s.left != nil && !yield(s.left) {
			return
		}
	}
}
