package worker

import (
	"context"
	"slices"
	"time"
)

// state is where a record is.
type state uint8

const (
	ordered state = iota // behind a record of the same key
	ready                // for its turn, or for the Throttle
	running              // in Handle
	resting              // before a retry
	dying                // in Dead, or on its way there
	gone                 // done, or dropped
	states
)

// item is a record that was accepted.
type item[R any] struct {
	of     *Assignment[R]
	record R
	offset int64
	number int64 // in the window
	key    string
	size   int64
	added  time.Time
	state  state

	due        time.Time // end of the rest
	rested     time.Duration
	tries      int
	failed     int // tries that count against it
	mayHaveRun bool
	probe      bool   // of the circuit breaker
	row        uint64 // of failures that it was counted in
	dead       error  // why it was given up; nil: it was not
	buried     int    // calls of Dead

	wait context.Context // of its wait in the Throttle
	stop context.CancelFunc
}

func sooner[R any](a, b *item[R]) bool { return a.due.Before(b.due) }

func lower[R any](a, b *item[R]) bool { return a.number < b.number }

// to moves it to another state. Caller holds mu.
func (w *Worker[R]) to(it *item[R], s state) {
	w.count[it.state]--
	it.state = s
	w.count[s]++
}

// ready lines it up for its turn. Caller holds mu.
func (w *Worker[R]) ready(it *item[R]) {
	w.to(it, ready)
	a := it.of
	a.ready.push(it, lower)
	if !a.turning {
		a.turning = true
		w.turns = append(w.turns, a)
	}
}

// lineUp puts it, which is new, behind the records of the same key. Caller holds
// mu.
func (w *Worker[R]) lineUp(it *item[R]) {
	w.count[ordered]++ // its state
	if it.key != "" {
		line := w.lines[it.key]
		w.lines[it.key] = append(line, it)
		if len(line) > 0 {
			return
		}
	}
	w.ready(it)
}

// leave takes it out of the line of its key, of which it is the first. Caller
// holds mu.
func (w *Worker[R]) leave(it *item[R]) {
	if it.key == "" {
		return
	}
	line := w.lines[it.key]
	line[0] = nil
	w.relay(it.key, line[1:])
}

// relay sets the line of a key, and lets the first in it start. Caller holds mu.
func (w *Worker[R]) relay(key string, line []*item[R]) {
	if len(line) == 0 {
		delete(w.lines, key)
		return
	}
	w.lines[key] = line
	if line[0].state == ordered {
		w.ready(line[0])
	}
}

// release forgets what it holds, as it is done or dropped. Caller holds mu.
func (w *Worker[R]) release(it *item[R]) {
	w.to(it, gone)
	w.bytes -= it.size
	it.of.left--
	if it != w.waiter { // otherwise its goroutine looks at it
		var none R
		it.record = none
	}
}

// drop drops the records of a that are not running, those from the slot of that
// number on. Caller holds mu.
func (w *Worker[R]) drop(a *Assignment[R], from int64) {
	keys := map[string]bool{}
	for it := range a.window.left {
		if it.state == running || it.state == gone || it.number < from {
			continue
		}
		w.release(it)
		if it == w.waiter {
			it.stop()
		}
		if it.key != "" {
			keys[it.key] = true
		}
	}
	isGone := func(it *item[R]) bool { return it.state == gone }
	a.ready.all = slices.DeleteFunc(a.ready.all, isGone)
	a.ready.order(lower)
	w.rests.all = slices.DeleteFunc(w.rests.all, isGone)
	w.rests.order(sooner)
	w.graves = slices.DeleteFunc(w.graves, isGone)
	for key := range keys {
		w.relay(key, slices.DeleteFunc(w.lines[key], isGone))
	}
	w.rooms(a)
}
