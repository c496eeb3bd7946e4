package sim

import (
	"math"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// quotas are all limits of a server, Limit first.
func (s *Server) quotas() []Quota {
	all := make([]Quota, 0, 1+len(s.More))
	return append(append(all, Quota{s.Limit, s.By, s.Costs}), s.More...)
}

// quota is a limit of the server and what is remembered under it.
type quota struct {
	Quota
	part limit.Limit // of one node, as it is now
	mean float64     // of what a call counts, as it is now
	zero *held       // of the cell of zeros, the only one where all is counted together
	held map[cell]*held
	all  []*held
}

// cell is what is counted by itself: the calls of a process or about a key, at
// one node.
type cell struct{ node, whose int }

// held is what is remembered of a cell.
type held struct {
	state limit.State
	log   limit.Log
	slots limit.Slots

	told     limit.Decision // what the hints that are not fresh are made of
	toldAt   int64
	wasAsked bool
}

// cellOf is where a request of a process about a key is counted.
func (q *quota) cellOf(node, process, key int) cell {
	switch q.By {
	case ByProcess:
		return cell{node, process}
	case ByKey:
		return cell{node, key}
	}
	return cell{node, 0}
}

// find is what is remembered of a cell, nil if it was never counted in.
func (q *quota) find(c cell) *held {
	if c == (cell{}) {
		return q.zero
	}
	return q.held[c]
}

// of is what is remembered of a cell.
func (q *quota) of(c cell) *held {
	h := q.find(c)
	if h == nil {
		h = new(held)
		q.held[c], q.all = h, append(q.all, h)
		q.zero = q.held[cell{}]
	}
	return h
}

// take asks the limit.
func (q *quota) take(now time.Time, h *held, a limit.Ask) (d limit.Decision) {
	a.Limit = q.part
	if a.Limit.Unlimited() || a.Limit.Count <= 0 {
		_, d = limit.Take(h.state, now, a)
		return d
	}
	switch a.Limit.Kind {
	case limit.SlidingLog:
		return h.log.Take(now, a)
	case limit.SlidingSlots:
		return h.slots.Take(now, a)
	}
	h.state, d = limit.Take(h.state, now, a)
	return d
}

// fills reports whether the limit comes back steadily until it is full.
func (q Quota) fills() bool { return q.Limit.Kind == limit.TokenBucket && !q.Limit.Unlimited() }

// cost is what a request counts.
func (q *quota) cost(cost int64) int64 {
	if !q.Costs {
		return 1
	}
	return min(max(cost, 1), max(q.part.Max(), 1))
}

// change sets another rate; what was used stays used.
func (q *quota) change(now time.Time, next limit.Limit) {
	for _, h := range q.all {
		h.state = limit.Change(h.state, now, q.part, next)
	}
	q.part = next
}

// share is the even part of l that each of n nodes has.
func share(l limit.Limit, n int) limit.Limit {
	if n < 2 || l.Unlimited() {
		return l
	}
	if l.Count > 0 {
		l.Count = max(1, l.Count/int64(n))
	}
	if l.Burst > 0 {
		l.Burst = max(1, l.Burst/int64(n))
	}
	return l
}

// whole is what the shares of n nodes come to together, as share rounds them.
func whole(l limit.Limit, n int) limit.Limit {
	if n > 1 {
		l = share(l, n)
		l.Count, l.Burst = l.Count*int64(n), l.Burst*int64(n)
	}
	return l
}

// crowd is what the rate of a scenario's server depends on besides its limits.
type crowd struct {
	processes, keys float64
	groups          []Group
}

func (s *Scenario) crowd() crowd {
	c := crowd{keys: 1, groups: s.Clients}
	for _, g := range s.Clients {
		c.processes += float64(g.Processes)
		c.keys = max(c.keys, float64(g.Keys))
	}
	return c
}

// requests is how many requests a second, or at once, so many by a limit are, if
// a call counts so many.
func (c *crowd) requests(q *Quota, n, cost float64) float64 {
	switch q.By {
	case ByProcess:
		n *= c.processes
	case ByKey:
		n *= c.keys
	}
	if q.Costs {
		n /= cost
	}
	return n
}

// Bound returns about the rate a second at which the server of s can serve at
// the start, if calls come evenly to all keys that it counts apart: that of the
// tightest of its limits, and of the work that it can do. It is +Inf if nothing
// bounds it.
func (s *Scenario) Bound() float64 {
	least, c := math.Inf(1), s.crowd()
	for i, q := range s.Server.quotas() {
		if l := s.Server.part(i, q.Limit); !l.Unlimited() {
			least = min(least, c.requests(&q, perSecond(q.Limit, whole(q.Limit, s.Server.Nodes).Count), c.cost(l.Max())))
		}
	}
	return min(least, s.Server.Service.rate())
}
