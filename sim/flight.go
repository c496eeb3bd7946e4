package sim

import "github.com/throttle-go/throttle/pace"

// flight is a try on its way, there and back. It may outlive the patience of
// its worker.
type flight struct {
	worker  *worker
	id      int32
	coming  int8  // events about it that are to come
	awaited bool  // its worker waits for it
	lost    bool  // its answer is
	frees   bool  // the end of its work frees a worker
	until   int64 // when it times out
	back    int64 // latency of the way back
	cost    int64
	key     int
	pool    int8 // of the server's workers
	said    said
}

// fly is a flight for the worker's try.
func (r *Run) fly(w *worker) *flight {
	var f *flight
	if n := len(r.landed); n > 0 {
		f, r.landed = r.landed[n-1], r.landed[:n-1]
	} else {
		f = &flight{id: int32(len(r.flights))}
		r.flights = append(r.flights, f)
	}
	if len(r.flights) > maxFlights {
		r.done, r.cut = true, true
	}
	f.worker, f.awaited, f.lost, f.coming = w, true, false, 0
	f.key, f.cost, f.until = w.key, w.cost, 0
	w.flight = f
	return f
}

// about plans an event about a flight.
func (r *Run) about(f *flight, at int64, k kind) {
	f.coming++
	r.queue.push(at, k, f.id)
}

// of is the flight that an event is about. land must follow.
func (r *Run) of(e event) *flight {
	f := r.flights[e.id]
	f.coming--
	return f
}

// land makes room if nothing more will happen to a flight and no caller waits
// for it. It does nothing if that has been done.
func (r *Run) land(f *flight) {
	if f.coming == 0 && !f.awaited && f.worker != nil {
		f.worker = nil
		r.landed = append(r.landed, f)
	}
}

// send puts a request on its way.
func (r *Run) send(w *worker) {
	w.sent++
	r.sent++
	w.slept, w.sentAt = r.now-w.wish, r.now
	g := &r.scenario.Clients[w.process.group]
	if g.measured() {
		r.maxSleep = max(r.maxSleep, w.slept)
	}
	n := r.scenario.Network
	latency := r.random.lasts(float64(n.Latency), n.Spread, n.Tail)
	there := integer(latency / 2)
	f := r.fly(w)
	f.back = integer(latency) - there
	arrives := true
	if n.Loss > 0 {
		u := r.random.unit()
		arrives, f.lost = u >= n.Loss/2, u < n.Loss
	}
	if arrives {
		r.about(f, r.now+there, evArrive)
	}
	if g.Timeout > 0 && (r.line == nil || !arrives) { // what is kept waiting is not sent yet
		r.expire(f, r.now+int64(g.Timeout))
	}
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

// expire lets the flight end as failed at the time until; a worker has one alarm.
func (r *Run) expire(f *flight, until int64) {
	if f.until = until; !f.worker.timed {
		f.worker.timed = true
		r.queue.push(until, evTimeout, f.worker.index)
	}
}

// flies handles an event about a flight.
func (r *Run) flies(e event) {
	f := r.of(e)
	switch e.kind {
	case evArrive:
		f.pool = r.server.pick()
		if r.line == nil {
			r.arrive(f)
		} else {
			r.hold(f)
		}
	case evBegin:
		r.toil(f)
	case evEnd:
		r.leave(f)
	case evAnswer:
		if f.awaited {
			f.awaited = false
			f.report(&f.worker.report)
			r.answer(f.worker)
		}
	}
	r.land(f)
}

// timeout ends the worker's try as failed, if it has lasted too long. There is
// one such event of each worker at a time; it follows the try in flight.
func (r *Run) timeout(w *worker) {
	w.timed = false
	f := w.flight
	switch {
	case f == nil || f.until == 0: // none, or one that cannot time out yet
	case f.until > r.now:
		w.timed = true
		r.queue.push(f.until, evTimeout, w.index)
	default:
		f.awaited = false
		w.report = pace.Report{Verdict: pace.Failed}
		w.timeouts++
		r.answer(w)
		r.land(f)
	}
}

// arrive lets the server decide.
func (r *Run) arrive(f *flight) {
	admitted, after := r.server.answer(r.now, f)
	work := admitted && r.server.Service.Time > 0
	switch {
	case work && after == 0:
		r.toil(f)
	case work:
		r.about(f, r.now+int64(after), evBegin)
	case after > 0:
		r.about(f, r.now+int64(after), evEnd)
	default:
		r.goBack(f)
	}
	if stop := r.scenario.Stop.Remaining; stop.OK && r.server.level <= stop.V && r.finish < 0 {
		// Known to the client when this answer is back.
		r.finish = r.now + f.back
		r.end = min(r.end, r.finish+1)
	}
}

// goBack sends the answer.
func (r *Run) goBack(f *flight) {
	if f.said.verdict == pace.Served {
		r.server.served++
	}
	if !f.lost {
		r.about(f, r.now+f.back, evAnswer)
	}
}

// report fills in what the answer tells its caller.
func (f *flight) report(report *pace.Report) {
	w := f.worker
	*report = f.said.all.Report()
	report.Unsure = f.said.plain && report.Verdict == pace.Throttled && report.After == 0
	w.policy.deafen(report)
	report.Final = f.said.final
	report.Crowded = f.said.crowded && w.policy.Hears.Crowded
	w.lane.hear(f, report)
}

// prepare settles what a call of the worker takes of each limit.
func (l *lane) prepare(w *worker, g *Group, v *server) {
	w.ticket.Cost = 0
	estimate := w.cost
	if g.Cost.Estimate > 0 {
		estimate = g.Cost.Estimate
	}
	if v.Costs {
		w.ticket.Cost = estimate
	}
	if !g.Scopes {
		return
	}
	w.ticket.Needs = w.ticket.Needs[:0]
	for i := range v.quotas {
		q := &v.quotas[i]
		if i == 0 && q.By != ByKey {
			continue // that is the gate's own
		}
		need := pace.Need{Scope: l.scope(i, q.cellOf(0, 0, w.key).whose)}
		if q.Costs {
			need.Cost = estimate
		}
		w.ticket.Needs = append(w.ticket.Needs, need)
	}
}

// scopeOf is a limit, or a key of it.
type scopeOf struct{ quota, key int }

// scope is what the callers of a lane know of a limit.
func (l *lane) scope(quota, key int) *pace.Scope {
	k := scopeOf{quota, key}
	s := l.scopes[k]
	if s == nil {
		if l.scopes == nil {
			l.scopes = map[scopeOf]*pace.Scope{}
		}
		s = &pace.Scope{Control: l.control()}
		l.scopes[k] = s
	}
	return s
}

// hear tells the scopes of a call what the answer said of each, and settles what
// is left for the gate's own limit.
func (l *lane) hear(f *flight, own *pace.Report) {
	w := f.worker
	v := l.server
	if v.Costs && w.ticket.Cost != f.cost {
		own.Cost = f.cost
	}
	if len(w.ticket.Needs) == 0 {
		return
	}
	blamed := false
	first := len(v.quotas) - len(w.ticket.Needs) // 1 if the gate's own is the first limit
	for i := range w.ticket.Needs {
		k := first + i
		r := f.said.of(k).Report()
		w.policy.deafen(&r)
		if r.Verdict == pace.Throttled && !f.said.refused[k] {
			r.Verdict = pace.Ignored
		}
		if v.quotas[k].Costs {
			r.Cost = f.cost
		}
		blamed = blamed || f.said.refused[k]
		if r != (pace.Report{Verdict: r.Verdict}) || f.said.refused[k] {
			w.ticket.Needs[i].Said = pace.Some(r) // else the answer says nothing of it
		}
	}
	if first == 1 {
		mine := f.said.of(0).Report()
		w.policy.deafen(&mine)
		own.Hints = mine.Hints
		if !blamed {
			own.After = max(own.After, mine.After)
		}
	}
}
