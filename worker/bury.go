package worker

import (
	"context"
	"time"
)

// bury calls Dead with a record that was given up.
func (w *Worker[R]) bury(it *item[R], record R) {
	err := errGoexit
	defer func() { w.buried(it, err) }() // also after Goexit
	ctx, cancel := w.timeout(it.of.ctx)
	defer cancel()
	err = w.Dead(ctx, record, it.dead)
}

// buried ends a call of Dead.
func (w *Worker[R]) buried(it *item[R], err error) {
	var n news
	w.mu.Lock()
	now := time.Now()
	w.burying--
	switch {
	case it.state == gone: // its assignment has ended
	case err == nil:
		n.add(w.OnEvent != nil, it.event(Dies, now, it.dead))
		w.done(it, it.dead)
	case it.of.ctx.Err() != nil:
		w.halt(it.of, context.Cause(it.of.ctx))
	default:
		it.buried++
		n.add(w.OnEvent != nil, it.event(DeadFails, now, err))
		n.rested(w.rest(now, it, it.buried-1, 0))
	}
	w.start(w.next(now))
	w.mu.Unlock()
	w.tell(n)
}
