package limit

import (
	"math"
	"math/bits"
	"time"
)

// sliding is a SlidingWindow at one instant. Of the window before, which used
// prev, the last Period still covers left/period, and as much of prev is taken
// to lie in it, as if it had been spread evenly:
//
//	used = cur + prev × left/period, the product rounded to a whole number,
//	       a half down
//	allow when used + N <= Count
//
// What was refused is not counted. Cloudflare limits by this rule ("How we
// built rate limiting capable of scaling to millions of domains", 2017).
type sliding struct {
	period, count int64
	end, left     int64 // of this window, microseconds
	cur, prev     int64 // what this window and the one before have used
}

// slidingAt reads a state. T - period is the end of the window in which N were
// taken: it may be this one, the one before, or, to a caller that was overtaken,
// the next, and then now is taken to be its beginning.
func slidingAt(s State, now int64, l *Limit) sliding {
	w := sliding{period: l.micros(), count: l.Count}
	s = clampSliding(s, now, w.period)
	n, most := max(s.N, 0), double(l.Count)
	switch {
	case !s.live(now):
		w.end = fixedEnd(now, w.period)
	case s.T-now > w.period:
		w.end, w.cur, w.prev = s.T-w.period, min(n, most), min(max(s.P, 0), most)
	default:
		w.end, w.prev = s.T, min(n, most)
	}
	w.left = min(w.end-now, w.period)
	return w
}

// clampSliding moves a state that is further ahead than an honest one could be
// to where one could be: what was taken in the next window counts until the end
// of the one after that.
func clampSliding(s State, now, period int64) State {
	if latest := later(fixedLatest(now, period), period); s.live(latest) {
		s.T = latest
	}
	return s
}

// takeSliding fills in d and returns the state to keep.
func takeSliding(s State, now int64, a *Ask, d *Decision) State {
	w := slidingAt(s, now, &a.Limit)
	s = clampSliding(s, now, w.period)
	used := w.used()
	d.N, d.OK = a.grant(max(w.count-used, 0), used > w.count)
	switch {
	case !d.OK && a.least() > w.count:
		d.RetryAfter = Never
	case !d.OK:
		d.RetryAfter = w.wait(now, w.count-a.least())
	case d.N != 0:
		d.N = charged(comesBack(d.N, later(w.cur, w.prev)), used, w.count)
		w.charge(d.N)
		s = w.state()
	}
	d.Remaining = max(w.count-w.used(), 0)
	switch {
	case w.cur > 0:
		d.ResetAfter = until(later(w.end, w.period), now)
	case w.prev > 0:
		d.ResetAfter = until(w.end, now)
	}
	return s
}

// used is the estimate of what the last Period has used.
func (w *sliding) used() int64 { return later(w.cur, w.weight()) }

// weight is how much of prev lies in the last Period.
func (w *sliding) weight() int64 {
	n, rest := mulDiv(w.prev, w.left, w.period)
	if rest > w.period-rest {
		n++
	}
	return n
}

// charge counts n more in this window, or gives -n back: to this window, and
// what is more than it has used to the one before.
func (w *sliding) charge(n int64) {
	if n < 0 {
		back := -max(n, -math.MaxInt64)
		here := min(back, w.cur)
		w.cur -= here
		w.prev -= min(back-here, w.prev)
		return
	}
	bottom := double(w.count) - min(w.weight(), double(w.count))
	w.cur = max(w.cur, min(later(w.cur, n), bottom))
}

// state is the one that slidingAt reads as w. N is zero only if all is.
func (w *sliding) state() State {
	switch {
	case w.cur > 0:
		return State{T: later(w.end, w.period), N: w.cur, P: w.prev}
	case w.prev > 0:
		return State{T: w.end, N: w.prev}
	}
	return State{}
}

// wait is how long until no more than room is used: in this window, if the one
// before weighs little enough in time, else in the next, when this one is the
// one before.
func (w *sliding) wait(now, room int64) time.Duration {
	at := w.end
	if w.cur <= room {
		at -= leftFor(w.prev, room-w.cur, w.period)
	} else {
		at = later(at, w.period-leftFor(w.cur, room, w.period))
	}
	return until(at, now)
}

// leftFor is how much of the last Period may still cover a window that used n,
// for it to weigh no more than most:
//
//	n × left/period <= most + 1/2, or left <= (2 × most + 1) × period / 2n
func leftFor(n, most, period int64) int64 {
	if n <= most {
		return period
	}
	hi, lo := bits.Mul64(uint64(most)*2+1, uint64(period))
	left, _ := bits.Div64(hi, lo, uint64(n)*2) // below period, as most < n
	return int64(left)
}
