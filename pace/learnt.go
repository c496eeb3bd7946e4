package pace

import (
	"math"
	"time"
)

// Learnt is what an Adaptive has found out, to be kept over a restart; it may
// be stored as JSON.
type Learnt struct {
	// At is when.
	At time.Time `json:"at"`
	// Rate is the cost a second that it kept to: the requests, where none says
	// what it costs. If zero, nothing is known.
	Rate float64 `json:"rate"`
}

// forgotten is the age at which a Learnt is no better than nothing.
const forgotten = 24 * time.Hour

// Learnt is what is known at the time now: zero if there was no sign of a limit.
func (a *Adaptive) Learnt(now time.Time) Learnt {
	if !a.on && !a.level.on {
		return Learnt{}
	}
	rate := a.level.theta // at the level that is aimed for
	if !a.level.on {
		// Time in which nothing waits does not count.
		rate = a.rate(min(now.Sub(a.base), a.next).Seconds())
	}
	if !a.level.on && a.refused > 0 { // not how often it asks whether the server is back
		rate = a.floor
	}
	return Learnt{At: now, Rate: rate * a.costs.unit()}
}

// Restore begins with what was known before, in place of nothing, so that it
// need not be refused again to find out. The older it is, the sooner it looks
// for more: as after a cut so long ago, two Probes at most. What is older than
// a day, from the future, or no rate at all, is ignored. It must come before
// the first use.
func (a *Adaptive) Restore(now time.Time, l Learnt) {
	age := now.Sub(l.At)
	if a.began || age < 0 || age > forgotten || !(l.Rate > 0) || math.IsInf(l.Rate, 0) {
		return
	}
	a.begin(now)
	a.on, a.first.open, a.restored = true, true, true
	a.born = -longest // it has learnt before
	a.floor, a.trust = min(max(l.Rate, slowest), fastest), leastTrust
	a.cut(0)
	u := min(age.Seconds()/a.period, 2)
	a.liveAt = -u * a.period
	a.floor *= a.floor / a.rate(0) // so that the rate is now what it was
	a.settle(0)
}
