package worker

import (
	"slices"
	"time"
)

// change wakes those who wait for a change of a. Caller holds mu.
func (a *Assignment[R]) change() {
	if a.changed != nil {
		close(a.changed)
		a.changed = nil
	}
}

// idle reports whether nothing of a is left to wait for. Caller holds mu.
func (a *Assignment[R]) idle() bool { return a.left == 0 || a.fenced }

// close lets a accept no more, and drops what is above all that was tried.
// Caller holds mu.
func (w *Worker[R]) close(a *Assignment[R]) {
	if a.closed {
		return
	}
	a.closed, a.err = true, ErrEnded
	w.drop(a, a.window.tried)
	w.start(w.next(time.Now()))
	a.change()
}

// halt starts no further try of a, for the reason err, and drops all that does
// not run. Caller holds mu.
func (w *Worker[R]) halt(a *Assignment[R], err error) {
	if a.halted {
		return
	}
	a.halted, a.closed = true, true
	if a.err == nil {
		a.err = err
	}
	w.drop(a, 0)
	w.start(w.next(time.Now()))
	a.change()
}

// end halts a and cancels its tries; its frontier may still be committed.
func (a *Assignment[R]) end(err error) {
	w := a.worker
	w.mu.Lock()
	w.halt(a, err)
	w.remove(a)
	w.mu.Unlock()
	a.forget()
	a.cancel(err)
}

// fence ends a, and returns its last frontier.
func (a *Assignment[R]) fence() (next int64, ok bool) {
	w := a.worker
	w.mu.Lock()
	next, ok = a.window.frontier()
	ok = ok && !a.fenced
	a.fenced = true
	a.change()
	w.mu.Unlock()
	a.end(ErrEnded)
	return next, ok
}

// remove forgets a. Caller holds mu.
func (w *Worker[R]) remove(a *Assignment[R]) {
	if i := slices.Index(w.live, a); i >= 0 {
		w.live = slices.Delete(w.live, i, i+1)
	}
}
