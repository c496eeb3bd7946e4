package throttlesql

import (
	"math"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// decide fills in d, as package limit decides.
func (q *question) decide(d []limit.Decision) (ok bool) {
	ok = true
	for i := range q.asks {
		d[i] = take(q.states[i], q.at, q.asks[i])
		ok = ok && d[i].OK
	}
	for i := range q.asks {
		if !ok && d[i].OK { // another was refused
			d[i] = take(q.states[i], q.at, limit.Ask{Limit: q.asks[i].Limit})
			d[i].OK, d[i].RetryAfter = true, 0
		}
	}
	return ok
}

// take decides on one. Of a log or slots, so much is told that package limit
// can answer the question: what was taken up to an edge, and what after it. The
// edge is that which must leave before the question passes, or where the newest
// is left after giving back.
func take(s [4]int64, now time.Time, a limit.Ask) (d limit.Decision) {
	var keeps interface {
		Take(time.Time, limit.Ask) limit.Decision
	}
	switch a.Limit.Kind {
	case limit.SlidingLog:
		keeps = new(limit.Log)
	case limit.SlidingSlots:
		keeps = new(limit.Slots)
	default:
		_, d = limit.Take(limit.State{T: s[0], N: s[1], P: s[2]}, now, a)
		return d
	}
	before := a.Limit
	before.Count = math.MaxInt64 // it may have been taken under a larger one
	for i := 0; i < len(s); i += 2 {
		if s[i+1] > 0 {
			keeps.Take(time.UnixMicro(s[i]), limit.Ask{Limit: before, N: s[i+1], Debt: true})
		}
	}
	return keeps.Take(now, a)
}
