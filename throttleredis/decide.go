package throttleredis

import (
	"time"

	"github.com/throttle-go/throttle/limit"
)

// decide fills in d, as limit.TakeAll does, and reports whether all pass.
func (r *request) decide(d []limit.Decision) (ok bool) {
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
	return ok
}

// decide decides on one ask by package limit.
func (it *item) decide(now time.Time, a limit.Ask) (d limit.Decision) {
	if !isList(a.Limit.Kind) {
		_, d = limit.Take(it.state, now, a)
		return d
	}
	var list interface {
		Take(time.Time, limit.Ask) limit.Decision
	} = new(limit.Log)
	if a.Limit.Kind == limit.SlidingSlots {
		list = new(limit.Slots)
	}
	before := a.Limit
	before.Count = maxCount // the entries may have been taken under a larger one
	for _, e := range it.entries {
		if e.n > 0 {
			list.Take(time.UnixMicro(e.at), limit.Ask{Limit: before, N: e.n, Debt: true})
		}
	}
	return list.Take(now, a)
}
