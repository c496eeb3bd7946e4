package sim

import (
	"time"

	"github.com/throttle-go/throttle/pace"
)

// call lets a worker begin its next call, if there is one for it.
func (r *Run) call(w *worker) {
	p := w.process
	g := &r.scenario.Clients[p.group]
	if p.leave > 0 && r.now >= p.leave {
		return
	}
	if g.On > 0 {
		cycle := int64(g.On + g.Off)
		if into := (r.now - p.join) % cycle; into >= int64(g.On) {
			r.queue.push(r.now-into+cycle, evWake, w.index)
			return
		}
	}
	for r.comesTo(w, g) {
		if g.Patience == 0 || r.now < w.want+int64(g.Patience) {
			r.begin(w, g)
			return
		}
		r.missed(w) // it was given up before it could begin
	}
}

// comesTo gives the worker its next call, if there is one.
func (r *Run) comesTo(w *worker, g *Group) bool {
	p := w.process
	w.want = r.now
	if g.arriving() {
		if p.queued == 0 {
			p.idle = append(p.idle, w)
			return false
		}
		w.want = p.nextJob()
	}
	if g.Work > 0 {
		if r.work[p.group] == 0 {
			return false
		}
		r.work[p.group]--
	}
	return true
}

// begin settles what the worker's next call is, and makes it.
func (r *Run) begin(w *worker, g *Group) {
	w.key, w.cost = 0, 1
	if g.Keys > 1 {
		w.key = int(r.random.unit() * float64(g.Keys))
	}
	if g.Cost.Mean > 0 {
		w.cost = max(1, integer(r.random.lasts(float64(g.Cost.Mean), g.Cost.Spread, g.Cost.Tail)+0.5))
	}
	w.lane.prepare(w, g, r.server)
	w.ticket.Deadline, w.ticket.End, w.until = time.Time{}, time.Time{}, 0
	if g.Patience > 0 {
		w.until = w.want + int64(g.Patience)
		w.ticket.Deadline = w.lane.time(w.until)
		w.ticket.End = w.ticket.Deadline
		if !w.patient {
			w.patient = true
			r.queue.push(w.until, evGiveUp, w.index)
		}
	}
	r.enter(w)
}

// enter puts the worker's call in line. One that is turned down, as it would
// wait for too long, is over.
func (r *Run) enter(w *worker) {
	w.wish, w.calling = r.now, true
	if _, ok := w.lane.gate.Enter(w.lane.time(r.now), &w.ticket); !ok {
		r.missed(w)
		r.pause(w)
	}
}

// late ends a call that the gate has given up, as it would not be answered in time.
func (r *Run) late(t *pace.Ticket) {
	w := t.Owner.(*worker)
	r.missed(w)
	r.pause(w)
}

// pause lets a worker begin its next call, in a loop not before an answer could
// have come: else one whose calls are all turned down would take no time.
func (r *Run) pause(w *worker) {
	after := int64(r.scenario.Network.Latency)
	if r.scenario.Clients[w.process.group].arriving() {
		after = 0
	}
	r.queue.push(r.now+after, evWake, w.index)
}

// wake lets a worker begin a call, and go if it may.
func (r *Run) wake(w *worker) {
	r.call(w)
	w.lane.pump(r.now, &r.queue, r.start)
}

// answer hands the worker what its try came to, its report.
func (r *Run) answer(w *worker) {
	w.flight = nil
	r.answered++
	v := w.report.Verdict
	switch v {
	case pace.Served:
		w.served++
		if r.scenario.Clients[w.process.group].measured() {
			r.took.add(r.now - w.sentAt)
		}
		if r.now >= r.fairFrom {
			w.fair++
		}
	case pace.Throttled:
		w.throttled++
	}
	if r.Watch != nil {
		r.watch(w, false)
	}
	retry := w.lane.gate.Done(w.lane.time(r.now), &w.ticket, w.report)
	if stop := r.scenario.Stop.Sent; stop > 0 && r.answered >= stop {
		r.finish, r.done = r.now, true
	}
	switch {
	case retry:
		w.wish = r.now
	case v == pace.Served:
		r.served(w)
		r.call(w)
	case w.report.Final || w.until > 0:
		r.missed(w)
		r.call(w)
	default: // given up: the call is still to be made
		r.enter(w)
	}
	if !r.done {
		w.lane.pump(r.now, &r.queue, r.start)
	}
}

// giveUp ends the worker's call, wherever it is, if it has lasted too long.
// There is one such event of each worker at a time; it follows the call under
// way.
func (r *Run) giveUp(w *worker) {
	if w.patient = w.calling && w.until > r.now; w.patient {
		r.queue.push(w.until, evGiveUp, w.index)
		return
	}
	if w.calling {
		r.drop(w)
	}
}

// drop ends the worker's call, wherever it is.
func (r *Run) drop(w *worker) {
	now := w.lane.time(r.now)
	if f := w.flight; f != nil {
		f.awaited, w.flight = false, nil
		w.lane.gate.Done(now, &w.ticket, pace.Report{TimedOut: true})
		r.land(f)
	} else {
		w.lane.gate.Leave(now, &w.ticket)
	}
	r.missed(w)
	r.wake(w)
}

// served counts a call as done.
func (r *Run) served(w *worker) {
	w.calling = false
	g := &r.scenario.Clients[w.process.group]
	if !g.measured() {
		return
	}
	took := r.now - w.want
	r.waits.add(took)
	r.ended++
	if within := int64(g.inTime()); within == 0 || took <= within {
		r.good++
	}
	r.did(g)
}

// missed counts a call as over without having been served.
func (r *Run) missed(w *worker) {
	w.calling = false
	if g := &r.scenario.Clients[w.process.group]; g.measured() {
		r.ended++
		r.did(g)
	}
}

// did takes a call off the work of its group.
func (r *Run) did(g *Group) {
	if g.Work == 0 {
		return
	}
	if r.owed--; r.owed == 0 && r.worked {
		r.finish, r.done = r.now, true
	}
}

func (r *Run) watch(w *worker, sent bool) {
	r.Watch(Point{
		At: time.Duration(r.now), Group: w.process.group, Process: w.number, Worker: w.place,
		Sent: sent, Verdict: w.report.Verdict, Slept: time.Duration(w.slept),
		Level: float64(r.server.level), Capacity: r.server.capacity.rate,
		Took: time.Duration(r.now - w.sentAt), Limit: w.lane.gate.Limit(), InFlight: w.lane.gate.InFlight(),
	})
}
