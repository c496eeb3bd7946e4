package throttlesql

import (
	"math"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// decide fills in d, as limit.TakeAll does, and reports whether all pass. It is
// an error if PostgreSQL has decided otherwise.
func (s *Store) decide(r *request, d []limit.Decision) (ok bool, err error) {
	now := time.UnixMicro(r.now)
	ok = true
	for i := range r.asks {
		d[i] = r.items[i].decide(now, r.asks[i])
		ok = ok && d[i].OK
	}
	for i := range r.asks {
		if !ok && d[i].OK { // refused for another: it only looks
			d[i] = r.items[i].decide(now, limit.Ask{Limit: r.asks[i].Limit})
			d[i].OK, d[i].RetryAfter = true, 0
		}
	}
	if len(r.sent) > 0 && ok != r.ok && !r.refused {
		return false, errDisagree
	}
	s.noteRefusals(r, d)
	return ok, nil
}

// decide decides on one ask by package limit.
func (it *item) decide(now time.Time, a limit.Ask) (d limit.Decision) {
	var list interface {
		Take(time.Time, limit.Ask) limit.Decision
	}
	switch a.Limit.Kind {
	case limit.SlidingLog:
		list = new(limit.Log)
	case limit.SlidingSlots:
		list = new(limit.Slots)
	default:
		_, d = limit.Take(it.state, now, a)
		return d
	}
	before := a.Limit
	before.Count = math.MaxInt64 // the entries may have been taken under a larger one
	for _, e := range it.entries {
		if e.n > 0 {
			list.Take(time.UnixMicro(e.at), limit.Ask{Limit: before, N: e.n, Debt: true})
		}
	}
	return list.Take(now, a)
}
