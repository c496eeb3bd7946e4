package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/pace"
)

// defaultMaxAfter is that of a Throttle.
const defaultMaxAfter = time.Hour

// ended ends the try of it, and returns the record that its goroutine goes on
// with.
func (w *Worker[R]) ended(it *item[R], o *outcome) (next *item[R]) {
	var n news
	w.mu.Lock()
	now := time.Now()
	it.stop()
	probe := it.probe
	if it.probe = false; probe {
		w.breaker.release()
	}
	if o.began {
		w.tried(now, it, o, probe, &n)
	} else {
		w.refused(now, it)
	}
	if next = w.next(now); len(n.events) > 0 {
		w.start(next) // not after what the user does with the events
		next = nil
	}
	w.mu.Unlock()
	w.tell(n)
	return next
}

// refused lines it up again, as its wait in the Throttle ended without a try.
// Caller holds mu.
func (w *Worker[R]) refused(now time.Time, it *item[R]) {
	w.waiter = nil
	switch a := it.of; {
	case it.state == gone:
	case a.ctx.Err() != nil:
		w.ready(it)
		w.halt(a, context.Cause(a.ctx))
	default:
		w.pause = now.Add(refusedRest)
		w.ready(it)
	}
}

// tried decides what becomes of it after a try. Caller holds mu.
func (w *Worker[R]) tried(now time.Time, it *item[R], o *outcome, probe bool, n *news) {
	a, v := it.of, o.report.Verdict
	it.mayHaveRun = it.mayHaveRun || o.err != nil && v != pace.Throttled
	w.tally(o)
	ends := n.add(w.OnEvent != nil, it.event(Ends, now, o.err))
	ends.Took, ends.Verdict, ends.TimedOut, ends.Late = now.Sub(o.at), v, o.timedOut, a.fenced
	cancelled := a.ctx.Err() != nil
	if !cancelled {
		w.health(now, it, o, probe, n)
	}
	switch {
	case a.fenced:
		w.stats.Late++
		w.leave(it)
		w.release(it)
		w.rooms(a)
	case o.err == nil:
		w.done(it, nil)
	case a.halted || cancelled:
		w.leave(it)
		w.release(it)
		a.change()
		w.rooms(a)
	case w.hopeless(it, o):
		w.giveUp(now, it, o, n)
	default:
		after := min(o.report.After, w.maxAfter())
		n.rested(w.rest(now, it, it.tries-1, after))
	}
}

// tally counts a try. Caller holds mu.
func (w *Worker[R]) tally(o *outcome) {
	s := &w.stats
	switch o.report.Verdict {
	case pace.Served:
		s.Served++
	case pace.Throttled:
		s.Throttled++
	case pace.Failed:
		s.Failed++
	default:
		s.Ignored++
	}
	if o.timedOut {
		s.TimedOut++
	}
}

// health lets the circuit breaker, and the tries that count against it, know how
// a try ended. Caller holds mu.
func (w *Worker[R]) health(now time.Time, it *item[R], o *outcome, probe bool, n *news) {
	if v := o.report.Verdict; v == pace.Served || v == pace.Throttled {
		if w.breaker.answer() {
			n.add(w.OnEvent != nil, it.event(Closes, now, nil))
		}
		return
	}
	if w.breaker.failure(now, &it.row, probe, w.luck()) {
		quiet := !w.logged.IsZero() && now.Sub(w.logged) < logEvery
		if w.OnEvent == nil && !quiet {
			w.logged = now
		}
		n.add(w.OnEvent != nil || !quiet, it.event(Opens, now, o.err))
	}
	if !w.breaker.open || w.exhausted(it.of) {
		it.failed++
	}
}

// hopeless reports whether it is not retried. Caller holds mu.
func (w *Worker[R]) hopeless(it *item[R], o *outcome) bool {
	return o.report.Verdict == pace.Served || o.report.Final || w.Tries != 0 && it.failed >= max(w.Tries, 1)
}

// giveUp passes it to Dead, or stops its assignment. Caller holds mu.
func (w *Worker[R]) giveUp(now time.Time, it *item[R], o *outcome, n *news) {
	err := o.err
	if o.report.Verdict != pace.Served {
		err = &throttle.Error{Reason: throttle.ErrTries, Err: err, Tries: it.tries, MayHaveRun: it.mayHaveRun}
	}
	switch a := it.of; {
	case w.Dead != nil:
		it.dead = err
		w.to(it, dying)
		w.graves = append(w.graves, it)
	case a.each:
		w.done(it, err)
	default:
		n.add(true, it.event(Stops, now, err))
		w.leave(it)
		w.release(it)
		w.halt(a, fmt.Errorf("worker: %s stops at offset %d: %w", a.name, it.offset, err))
	}
}

// done moves the frontier past it. If err is not nil, it was given up. Caller
// holds mu.
func (w *Worker[R]) done(it *item[R], err error) {
	a := it.of
	w.leave(it)
	if a.each {
		a.results = append(a.results, result[R]{it.record, err})
	}
	w.release(it)
	a.window.done(it.number)
	if err == nil {
		w.stats.Done++
	} else {
		w.stats.Dead++
	}
	if a.left == 0 || a.each {
		a.change()
	}
	w.rooms(a)
}

// rest lets it rest before retry number n, for at least after, and returns for
// how long. Caller holds mu.
func (w *Worker[R]) rest(now time.Time, it *item[R], n int, after time.Duration) time.Duration {
	b := w.Backoff
	switch {
	case b == pace.Backoff{}:
		b = pace.AWS2026Backoff
	case b.Jitter == pace.NoJitter:
		b.Jitter = pace.UpwardJitter // those that failed together shall not return together
		if b.Spread <= 0 {
			b.Spread = 1
		}
	}
	it.rested = max(b.Delay(n, it.rested, w.luck()), after, 1)
	it.due = now.Add(it.rested)
	w.to(it, resting)
	w.rests.push(it, sooner)
	return it.rested
}

// luck returns a new draw. Caller holds mu.
func (w *Worker[R]) luck() pace.Luck {
	w.draws++
	return pace.Luck(w.seed + w.draws*0x9e3779b97f4a7c15)
}

// maxAfter returns how much of a server's Retry-After is believed.
func (w *Worker[R]) maxAfter() time.Duration {
	switch d := w.throttle().MaxAfter; {
	case d < 0:
		return pace.Never
	case d > 0:
		return d
	}
	return defaultMaxAfter
}

// rooms notifies the assignments that were refused and have room now, of which a
// may be one. Caller holds mu.
func (w *Worker[R]) rooms(a *Assignment[R]) {
	w.notify(a)
	if !w.hungry {
		return
	}
	w.hungry = false
	for _, b := range w.live {
		w.notify(b)
		w.hungry = w.hungry || b.full
	}
}

// notify calls Room, if it is time. Caller holds mu.
func (w *Worker[R]) notify(a *Assignment[R]) {
	if !a.full || a.closed {
		return
	}
	n, window := a.window.len(), above(w.Window, defaultWindow)
	if n > window-max(window/8, 1) || a.left > window/2 {
		return // not for a record at a time
	}
	if most := above(w.MaxBytes, defaultMaxBytes); w.bytes > most/2 && (a.left > 0 || w.bytes >= most) {
		w.hungry = w.hungry || a.left == 0 // only others make room
		return
	}
	a.full = false
	a.change()
	if w.Room != nil {
		go w.Room(a)
	}
}
