package worker

// maxSpare bounds the goroutines that wait to be used again: a new one for each
// record would spend most of its time on growing its stack.
const maxSpare = 16

// start runs it in a goroutine, unless it is nil. Caller holds mu.
func (w *Worker[R]) start(it *item[R]) {
	last := len(w.spare) - 1
	switch {
	case it == nil:
	case last < 0:
		go w.work(it)
	default:
		w.spare[last] <- it // never blocks: it is empty, and holds one
		w.spare = w.spare[:last]
	}
}

// work tries it, and then what else it gets, until there is nothing to do.
func (w *Worker[R]) work(it *item[R]) {
	hand := make(chan *item[R], 1)
	for it != nil {
		if it = w.try(it); it == nil && w.park(hand) {
			it = <-hand
		}
	}
}

// park keeps a goroutine for later. It reports whether something will come
// through hand: nil, to end it.
func (w *Worker[R]) park(hand chan *item[R]) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.count[ready] == 0 || len(w.spare) >= maxSpare {
		return false
	}
	w.spare = append(w.spare, hand)
	return true
}

// dismiss ends the goroutines kept for later, when nothing waits. Caller holds
// mu.
func (w *Worker[R]) dismiss() {
	if w.count[ready] > 0 {
		return
	}
	for _, hand := range w.spare {
		hand <- nil
	}
	w.spare = w.spare[:0]
}
