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
	w.want = r.now
	if g.Arrivals > 0 {
		if p.queued == 0 {
			p.idle = append(p.idle, w)
			return
		}
		w.want = p.nextJob()
	}
	if g.Work > 0 {
		if r.work[p.group] == 0 {
			return
		}
		r.work[p.group]--
	}
	r.enter(w)
}

// enter puts the worker's call in line.
func (r *Run) enter(w *worker) {
	w.wish = r.now
	w.lane.gate.Enter(when(r.now), &w.ticket)
}

// wake lets a worker begin a call, and go if it may.
func (r *Run) wake(w *worker) {
	r.call(w)
	w.lane.pump(r.now, &r.queue, r.start)
}

// addJob queues a call that came up now, in a ring that grows as needed.
func (p *process) addJob(now int64) {
	if p.queued == len(p.jobs) {
		grown := make([]int64, max(16, 2*len(p.jobs)))
		n := copy(grown, p.jobs[p.first:])
		copy(grown[n:], p.jobs[:p.first])
		p.jobs, p.first = grown, 0
	}
	p.jobs[(p.first+p.queued)%len(p.jobs)] = now
	p.queued++
}

// nextJob takes the call that has queued longest.
func (p *process) nextJob() (came int64) {
	came = p.jobs[p.first]
	p.first, p.queued = (p.first+1)%len(p.jobs), p.queued-1
	return came
}

// job brings up a call in a process.
func (r *Run) job(p *process, id int32) {
	g := &r.scenario.Clients[p.group]
	if p.leave > 0 && r.now >= p.leave {
		return
	}
	r.queue.push(r.now+p.gap(g.Arrivals), evJob, id)
	if p.queued == maxQueue {
		r.overflow++
		return
	}
	p.addJob(r.now)
	if n := len(p.idle); n > 0 {
		w := p.idle[n-1]
		p.idle = p.idle[:n-1]
		r.wake(w)
	}
}

// send puts a request on its way.
func (r *Run) send(w *worker) {
	w.sent++
	r.sent++
	w.slept = r.now - w.wish
	if r.scenario.Clients[w.process.group].measured() {
		r.maxSleep = max(r.maxSleep, w.slept)
	}
	n := r.scenario.Network
	latency := float64(n.Latency) * (1 + n.Spread*(2*r.random.unit()-1))
	there := int64(latency / 2)
	w.back = int64(latency) - there
	r.queue.push(r.now+there, evArrive, w.index)
	if r.Watch != nil {
		r.watch(w, true)
	}
	most := r.MaxSent
	if most == 0 {
		most = defaultMaxSent
	}
	if r.sent >= most {
		r.done, r.cut = true, true
	}
}

// arrive lets the server decide.
func (r *Run) arrive(w *worker) {
	if r.line != nil {
		r.hold(w)
		return
	}
	r.decide(w)
}

// decide asks the server about a request that has reached it.
func (r *Run) decide(w *worker) {
	said := r.server.answer(r.now, w.number)
	w.report = said.Report()
	w.policy.deafen(&w.report)
	r.queue.push(r.now+w.back, evAnswer, w.index)
	if stop := r.scenario.Stop.Remaining; stop.OK && r.server.level <= stop.V && r.finish < 0 {
		// Known to the client when this answer is back.
		r.finish = r.now + w.back
		r.end = min(r.end, r.finish+1)
	}
}

// answer hands the worker its answer.
func (r *Run) answer(w *worker) {
	r.answered++
	v := w.report.Verdict
	switch v {
	case pace.Served:
		w.served++
		if r.now >= r.fairFrom {
			w.fair++
		}
	case pace.Throttled:
		w.throttled++
	}
	if r.Watch != nil {
		r.watch(w, false)
	}
	retry := w.lane.gate.Done(when(r.now), &w.ticket, w.report)
	if stop := r.scenario.Stop.Sent; stop > 0 && r.answered >= stop {
		r.finish, r.done = r.now, true
	}
	switch {
	case retry:
		w.wish = r.now
	case v == pace.Served:
		r.served(w)
		r.call(w)
	default: // given up: the call is still to be made
		r.enter(w)
	}
	if !r.done {
		w.lane.pump(r.now, &r.queue, r.start)
	}
}

// served counts a call as done.
func (r *Run) served(w *worker) {
	g := &r.scenario.Clients[w.process.group]
	if !g.measured() {
		return
	}
	r.waits.add(r.now - w.want)
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
	})
}
