package load

import (
	"math"
	"time"
)

// Adaptive is the recommended concurrency limit, for callers and for services.
// It learns from latency, time-outs and refusals, needs no number, and follows a
// server that becomes faster or slower. docs/concurrency.md derives it.
//
// By Little's law, a server that answers in the time base when it has no queue,
// and in the time latency beside n others, has a queue of
//
//	queue = n · (1 - base/latency)
//
// Adaptive raises the limit, in steps that double, while the queue is less than
// half of what it allows for, and lowers it to n · base/latency plus 0.7 of that
// allowance when the queue is longer than the allowance in three windows in a row,
// so that a pause of the server (garbage collection) does not count. A window is as
// many answers as the limit, at least five: about a round trip. The allowance is
// 1.5 √n: as much as random arrivals need, and more where base is uncertain or
// service times vary much, within a third to a half of n.
//
// To learn base, it lowers what is in flight for a moment to half of what fills the
// server: at the start, when the limit has doubled or halved, after three cuts in a
// row, and about every 10 s by the wall clock, at which all clients of a server then
// do so together. A server that has become much slower by itself looks as if it had a
// queue. After three cuts Adaptive measures base again, sees that there is none, and
// takes the limit back to half of what it was before the cuts.
//
// Where more than a tenth of the requests fail after longer than twice base
// (time-outs), it halves the limit once a round trip, and does not grow before
// the server has worked off what was abandoned. Where fewer do, their answers
// were lost: the places that they held are no queue. A request that is refused takes
// a tenth off the limit, once a round trip. Cancelled requests and fast
// failures teach nothing; but before the first answers every failure counts as a
// time-out, as base is unknown. While less than three quarters of the limit are
// in flight, it does not grow.
//
// The limit begins at 10. It limits no rate: a server that refuses by rate
// needs pacing too, see pace.Gate. Several clients of one server take each
// other's queue for its latency until they next measure base together, and do
// not share it evenly. The zero value is ready.
type Adaptive struct {
	// Max bounds the limit. If zero or below, 10,000.
	Max int
	// Slowdown is how many times its latency without a queue an answer may take, on
	// average, before the rest counts as a queue. If below 1, 1. A value s above 1
	// suits a server that batches, which does more a second the more is in flight:
	// where its latency grows at most in proportion to what is in flight, a Slowdown
	// of s gets 1 - 1/s of its throughput.
	// Use 6 for a stream of work that no caller waits for, by one client that has the
	// server to itself: several clients mistake each other's queue for the server's
	// own latency, and with 6 overload it. Where a server does no more with more in
	// flight, s only makes the queue longer.
	Slowdown float64

	limit    float64 // zero: not begun
	uncut    float64 // limit before it was cut for a queue that nothing has confirmed yet; zero: none
	step     float64 // by which it was last raised; zero: it was not
	patience int     // windows from a raise that failed to the next
	rest     int     // windows until the next raise
	cuts     int     // in a row

	base     float64 // seconds that an answer takes without a queue; zero: unknown
	doubt    float64 // standard error of base, in parts of it
	spread   float64 // standard deviation of those seconds, in parts of base
	inFlight float64 // of the last window without a probe

	last  window     // that is being filled
	means [3]float64 // latency of the last windows, the latest first
	seen  int        // of the means, since the limit last changed

	probe  probe
	paying int     // windows left of a collapse that is being paid off; zero: none
	paid   float64 // latency in the last of them
	cut    time.Time

	answers, lost float64 // of late: answers, and time-outs among them

	lostAt time.Time // when a time-out was last seen, unless the server is too slow
	held   float64   // of those in flight in the last window: they are lost

	gaveUp   float64   // seconds after which requests timed out; zero: they did not, of late
	gaveUpAt time.Time // when they did last

	latest time.Time // sample
}

// window sums up requests that have ended.
type window struct {
	n             int
	took, squares float64 // sums of seconds, and of their squares
	inFlight      float64 // sum
	began         time.Time
}

func (w *window) mean() float64 { return w.took / float64(w.n) }

// deviation is the sample standard deviation of the seconds.
func (w *window) deviation() float64 {
	n := float64(w.n)
	return math.Sqrt(max(0, w.squares-w.took*w.took/n) / max(1, n-1))
}

// doubt is the standard error of the mean.
func (w *window) doubt() float64 { return w.deviation() / math.Sqrt(float64(w.n)) }

const (
	adaptiveStart    = 10  // limit
	adaptiveWindow   = 5   // answers in a window, at least
	adaptiveQueue    = 1.5 // allowance for a queue, in roots of what is in flight
	adaptivePatience = 8   // windows from a raise that failed to the next, at most
	adaptivePaying   = 4   // windows in which a backlog must fall

	adaptiveRecent = 50 // answers among which time-outs are counted, at least

	adaptiveHeld = 10 * time.Second // for which a time-out is a reason to look for lost requests

	adaptiveGaveUp = time.Minute // for which time-outs bound what Slowdown allows
)

// Limit returns how many may be in flight now.
func (a *Adaptive) Limit() int {
	n := int(a.limit)
	switch {
	case a.probe.low > 0:
		n = a.probe.low
	case a.limit == 0:
		n = adaptiveStart
	}
	return min(n, highest(a.Max))
}

// Observe learns from a request that has ended.
func (a *Adaptive) Observe(s Sample) {
	if s.End == Ignored || s.Took < 0 {
		return
	}
	s.Took = max(s.Took, 1) // a clock may be too coarse for it
	if s.Now.Before(a.latest) {
		a.setBack(s.Now)
	}
	a.latest = s.Now
	if a.limit == 0 {
		a.limit = float64(a.Limit())
		a.lookDown(s.Now, 0.5)
	}
	a.limit = min(a.limit, float64(highest(a.Max))) // which may have been lowered
	sent := s.Now.Add(-s.Took)
	switch s.End {
	case Refused:
		if sent.After(a.cut) {
			a.lower(min(a.limit-1, a.limit*0.9))
			a.cut = s.Now
		}
	case Failed:
		if sent.After(a.cut) && s.Took.Seconds() >= 2*a.base {
			a.lostAt = s.Now
			a.lose(s)
		}
	default:
		a.served(s, sent)
	}
}

// setBack forgets times that are still to come, as the clock was set back: waiting
// for them, a probe would last until then.
func (a *Adaptive) setBack(now time.Time) {
	for _, at := range [...]*time.Time{&a.last.began, &a.probe.since, &a.cut, &a.lostAt, &a.gaveUpAt} {
		if at.After(now) {
			*at = now
		}
	}
}

// served adds an answer to the window, and ends the window when it is full.
func (a *Adaptive) served(s Sample, sent time.Time) {
	if a.probe.low > 0 && a.last.n == 0 && sent.Before(a.probe.since) {
		return // what was in flight before the probe has not ended yet
	}
	took, w := s.Took.Seconds(), &a.last
	keep := 1 - 1/max(a.limit, adaptiveRecent)
	a.answers, a.lost = keep*a.answers+1, keep*a.lost
	if w.n == 0 {
		w.began = s.Now
	}
	w.n++
	w.took += took
	w.squares += took * took
	w.inFlight += float64(s.InFlight)
	a.lookAtTimes(s.Now)
	if w.n < a.need() {
		return
	}
	full := a.last
	a.last = window{}
	a.turn(s.Now, &full)
}

// need is how many answers fill the window.
func (a *Adaptive) need() int {
	if a.probe.low == 0 {
		return max(a.Limit(), adaptiveWindow)
	}
	if w := &a.last; w.n < 2*a.probe.low || w.doubt() > 0.1*w.mean() {
		return max(2*a.probe.low, probeSamples)
	}
	if a.base == 0 {
		return adaptiveWindow
	}
	return probeLeast
}

// turn ends a window.
func (a *Adaptive) turn(now time.Time, w *window) {
	a.probe.windows++
	if a.probe.low > 0 {
		a.probed(now, w)
		return
	}
	mean := w.mean()
	a.inFlight = w.inFlight / float64(w.n)
	a.hold(now, w)
	if now.Sub(a.gaveUpAt) > adaptiveGaveUp {
		a.gaveUp = 0
	}
	if a.paying > 0 && !a.settled(mean) {
		return
	}
	if a.suspect() {
		a.lookDown(now, probeDepth*min(1, a.base/mean))
		return
	}
	copy(a.means[1:], a.means[:2])
	a.means[0] = mean
	a.seen++
	if fast := max(a.means[0], a.means[1], a.means[2]); a.seen >= 3 && fast < a.base*min(0.9, 1-2*a.rare(w.n)) {
		a.base = fast // the server has become faster
		if a.binds() {
			a.lookDown(now, probeDepth)
			return
		}
	}
	if a.binds() {
		a.steer(mean)
	}
}

// binds reports whether the limit is what bounds the requests in flight. Where it
// does not, they have no queue of its making, and a probe would only make one.
func (a *Adaptive) binds() bool { return a.inFlight >= 0.75*float64(a.Limit()) }

// steer moves the limit by the queue.
func (a *Adaptive) steer(mean float64) {
	n := a.inFlight - a.held
	room := a.room(n)
	calm := min(a.means[0], a.means[1], a.means[2])
	queue := n * (1 - a.fine()/mean)
	switch {
	case a.seen >= 3 && n*(1-a.fine()/calm) > room:
		if a.uncut == 0 {
			a.uncut = a.limit
		}
		a.lower(max(n*a.fine()/calm+0.7*room+a.held, a.limit/2))
	case queue < room/2:
		a.raise()
	case queue > room:
		a.step = 0
	}
}

// fine is how many seconds an answer takes where there is no queue, or none that
// counts. Where that would make requests time out, it is less.
func (a *Adaptive) fine() float64 {
	if a.Slowdown > 1 && a.base > 0 { // and a number
		times := a.base * a.Slowdown
		if a.gaveUp > 0 {
			times = min(times, a.gaveUp/4)
		}
		return max(a.base, times)
	}
	return a.base
}

// room is the allowance for a queue beside n that are answered.
func (a *Adaptive) room(n float64) float64 {
	part := max(adaptiveQueue/math.Sqrt(n), 2*a.doubt)
	return n * min(part, (1+2*a.spread)/(3+2*a.spread))
}

func (a *Adaptive) raise() {
	a.cuts, a.uncut = 0, 0
	if a.rest > 0 {
		a.rest--
		return
	}
	if a.step == 0 {
		a.step = max(1, math.Sqrt(a.limit)/4)
	} else { // the last one held
		a.step = min(2*a.step, a.limit)
		a.patience = 0
	}
	a.limit = min(a.limit+a.step, float64(highest(a.Max)))
	a.seen = 0
}

func (a *Adaptive) lower(to float64) {
	a.limit = max(min(to, a.limit), 1)
	a.step, a.seen = 0, 0
	a.cuts++
	a.patience = min(max(1, 2*a.patience), adaptivePatience)
	a.rest = a.patience
}

// hold learns how many of those in flight hold their place for nothing, as their
// answer is lost: by Little's law, those that are answered are as many as are
// answered a second, times the latency.
func (a *Adaptive) hold(now time.Time, w *window) {
	a.held = 0
	if long := now.Sub(w.began).Seconds(); now.Sub(a.lostAt) < adaptiveHeld && long > 0 {
		answered := float64(w.n-1) / long * w.mean()
		a.held = min(max(a.inFlight-answered, 0), 0.9*a.inFlight)
	}
}

// lose counts a time-out, and halves the limit if there are many.
func (a *Adaptive) lose(s Sample) {
	a.lost++
	if 10*a.lost <= a.answers+a.lost || a.lost < 2 && a.limit >= 4 {
		return
	}
	a.answers, a.lost, a.uncut = 0, 0, 0
	a.limit = max(1, a.limit/2)
	a.step, a.seen, a.rest, a.patience = 0, 0, 0, 0
	a.probe.low, a.last, a.cut = 0, window{}, s.Now
	a.gaveUp, a.gaveUpAt = s.Took.Seconds(), s.Now
	a.paying, a.paid = adaptivePaying, 0
	a.lostAt, a.held = time.Time{}, 0 // the server is too slow: what times out is in its queue
}

// settled reports whether the server has worked off what was abandoned: it is as
// fast as before, or no longer becomes faster.
func (a *Adaptive) settled(mean float64) bool {
	switch {
	case a.base == 0 || mean <= 2*a.base:
		a.paying, a.probe.windows, a.probe.limit = 0, 0, a.limit
	case a.paid == 0 || mean < 0.8*a.paid:
		a.paying = adaptivePaying
	default:
		if a.paying--; a.paying == 0 {
			a.probe.suspect = true
		}
	}
	a.paid = mean
	return a.paying == 0
}
