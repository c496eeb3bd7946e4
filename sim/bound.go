package sim

import (
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/pace"
)

// Bound prepares a run of what no policy can do better: a coordinator with one
// queue for all clients, which knows the server's state and how long each
// request is on its way, and sends each so that it arrives at the earliest
// instant at which the server admits it. Nothing is ever refused, and at any
// time as many calls have been served as can be. It is the same as a server
// that keeps requests waiting, first come first served, instead of refusing
// them, which is how it is simulated.
//
// Calls arrive when they arrive in New with the same seed; the latencies are
// draws of their own. Groups with a policy of their own are coordinated like
// the others. What the coordinator does not know is which calls will come: where
// the first of them opens a window, as in a FirstHitWindow, one who knew could
// sometimes do better by keeping it back.
func Bound(s Scenario, seed uint64) *Run {
	s.Server.Hints = Hints{}
	s.Clients = append([]Group(nil), s.Clients...)
	for i := range s.Clients {
		g := &s.Clients[i]
		g.Policy, g.Rival = nil, g.Rival || g.Policy != nil
	}
	r := New(s, Policy{Name: "bound", New: func() pace.Controller { return nil }}, seed)
	r.line = &line{due: -1}
	return r
}

// line is the requests that a coordinated server keeps waiting.
type line struct {
	workers []*worker
	due     int64 // when evAdmit is to look; -1: never
}

// hold puts a request in line.
func (r *Run) hold(w *worker) {
	r.line.workers = append(r.line.workers, w)
	if len(r.line.workers) == 1 {
		r.admit()
	}
}

// admit serves those in line whom the server admits now, and plans the next look.
func (r *Run) admit() {
	l := r.line
	for len(l.workers) > 0 {
		at, ok := r.server.free(r.now)
		if !ok {
			l.due = -1
			return
		}
		if at > r.now {
			if at != l.due {
				l.due = at
				r.queue.push(at, evAdmit, 0)
			}
			return
		}
		w := l.workers[0]
		l.workers = l.workers[1:]
		r.decide(w)
	}
}

// free is the earliest instant from now on at which a request would be served
// if the limit stayed as it is; ok is false if it never would.
func (v *server) free(now int64) (at int64, ok bool) {
	if len(v.Gap) > 0 {
		if v.asked == 0 {
			return now, true
		}
		return max(now, v.last+int64(v.least(v.asked+1))+1), true
	}
	if v.limit.Unlimited() || v.take(now, limit.Ask{Limit: v.limit}).Remaining > 0 {
		return now, true
	}
	d := v.take(now, limit.Ask{Limit: v.limit, N: 1})
	return now - now%int64(time.Microsecond) + int64(d.RetryAfter), d.RetryAfter != limit.Never
}
