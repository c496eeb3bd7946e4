package sim

import (
	"math"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/pace"
)

// Bound prepares a run of the ideal policy, which no policy can surpass: a
// coordinator with one queue for all clients, which knows the server's state and
// the latency of each request, and sends each so that it arrives at the earliest
// instant at which the server admits it. No request is ever refused, and at any
// time as many calls have been served as can be. It is the same as a server that
// keeps requests waiting, first come first served, instead of refusing them, and
// is simulated so. A call that can no longer be answered within its Patience ends at
// once.
//
// Where a server counts processes, keys or several limits apart, the first in
// line that it would admit goes first. Nodes that share the work are one.
//
// Calls arrive when they arrive in New with the same seed; the latencies are
// drawn independently. Groups with a policy of their own are coordinated like
// the others. The coordinator does not know which calls will come: where the
// first of them opens a window, as in a FirstHitWindow, a coordinator that knew
// could sometimes do better by keeping it back. Where processes leave, a policy
// may serve more, by some 4 %: which of them are served first decides how many
// calls they make, as each that leaves finishes only the call that it holds. So it
// may where few workers hold calls about keys that are counted apart, by 10 to 30 %
// in one of a thousand scenarios drawn at random: which keys wait decides how much
// of each limit is used.
func Bound(s Scenario, seed uint64) *Run {
	s.Server.Hints = Hints{}
	s.Server.unite()
	s.Server.Queue = 0 // each is sent when its token is there, and none times out
	s.Clients = append([]Group(nil), s.Clients...)
	for i := range s.Clients {
		g := &s.Clients[i]
		g.Policy, g.Rival = nil, g.Rival || g.Policy != nil
	}
	r := New(s, Policy{Name: "bound", New: func() pace.Controller { return nil }}, seed)
	r.line = &line{due: -1, apart: len(s.Server.More) > 0 || s.Server.By != Together || s.Server.Costs}
	return r
}

// unite makes one node of several, with what all their parts come to.
func (v *Server) unite() {
	n := v.Nodes
	v.Nodes = 0
	if n < 2 {
		return
	}
	v.Limit = whole(v.Limit, n)
	v.More, v.Changes = append([]Quota(nil), v.More...), append([]Change(nil), v.Changes...)
	for i := range v.More {
		v.More[i].Limit = whole(v.More[i].Limit, n)
	}
	for i := range v.Changes {
		c := &v.Changes[i]
		c.Count = whole(limit.Limit{Count: c.Count, Period: c.Period}, n).Count
	}
}

// line is the requests that a coordinated server keeps waiting.
type line struct {
	flights []*flight
	due     int64 // when evAdmit is to look; -1: never
	apart   bool  // the server may admit others than the first
}

// hold puts a request in line.
func (r *Run) hold(f *flight) {
	f.coming++ // it is in line
	r.line.flights = append(r.line.flights, f)
	if len(r.line.flights) == 1 || r.line.apart {
		r.admit()
	}
}

// admit serves the calls in line that the server admits now, and plans the next look.
func (r *Run) admit() {
	l, next := r.line, int64(math.MaxInt64)
	for i := 0; i < len(l.flights); {
		f := l.flights[i]
		if r.vain(f) {
			l.take(i)
			f.coming--
			r.drop(f.worker)
			continue
		}
		at := r.now
		if f.awaited { // its caller has not given it up
			at = r.server.free(r.now, f)
		}
		switch {
		case at <= r.now:
			l.take(i)
			r.release(f)
		case l.apart:
			next = min(next, at)
			i++
		default:
			next, i = at, len(l.flights)
		}
	}
	switch {
	case next == math.MaxInt64:
		l.due = -1
	case next != l.due:
		l.due = next
		r.queue.push(next, evAdmit, 0)
	}
}

// vain reports whether the caller of a request in line will have given it up before
// an answer could be back. The coordinator ends it then: it would waste the limit.
func (r *Run) vain(f *flight) bool {
	return f.awaited && f.worker.until > 0 && r.now+f.back > f.worker.until
}

// take removes the i-th; the first is the common case.
func (l *line) take(i int) {
	if i > 0 {
		l.flights = append(l.flights[:i], l.flights[i+1:]...)
		return
	}
	l.flights[0] = nil
	l.flights = l.flights[1:]
}

// release lets the server decide on a request that was in line.
func (r *Run) release(f *flight) {
	f.coming--
	if f.awaited {
		if t := r.scenario.Clients[f.worker.process.group].Timeout; t > 0 {
			r.expire(f, r.now+max(int64(t)-f.back, 0))
		}
		r.arrive(f)
	}
	r.land(f)
}

// free is the earliest instant from now on at which a request would be served if
// the limits stayed as they are and nothing else came; MaxInt64 if never.
func (v *server) free(now int64, f *flight) (at int64) {
	switch {
	case v.full(f):
		return math.MaxInt64 // until work is done
	case len(v.Gap) > 0 && v.asked == 0:
		return now
	case len(v.Gap) > 0:
		return max(now, v.last+int64(v.least(v.asked+1))+1)
	}
	at = now
	for i := range v.quotas {
		q := &v.quotas[i]
		h, n := v.cell(q, i, 0, f), q.cost(f.cost)
		if q.part.Unlimited() || q.take(v.clock(now), h, limit.Ask{}).Remaining >= n {
			continue
		}
		d := q.take(v.clock(now), h, limit.Ask{N: n})
		if d.RetryAfter == limit.Never {
			return math.MaxInt64
		}
		at = max(at, now-(now+int64(v.Phase))%int64(time.Microsecond)+int64(d.RetryAfter))
	}
	return at
}
