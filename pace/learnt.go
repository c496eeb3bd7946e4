package pace

import (
	"math"
	"time"
)

// Learnt holds the rate that an Adaptive has learnt, to be kept across a restart. It may be stored
// as JSON.
type Learnt struct {
	// At is when it was learnt.
	At time.Time `json:"at"`
	// Rate is the rate found, in cost a second: in requests a second, where none states a
	// cost. If zero, nothing is known.
	Rate float64 `json:"rate"`
}

// forgotten is the age from which a Learnt is ignored.
const forgotten = 24 * time.Hour

// Learnt returns what is known at the time now: zero if nothing has shown a limit.
func (a *Adaptive) Learnt(now time.Time) Learnt {
	if !a.on && !a.level.on {
		return Learnt{}
	}
	rate := a.level.theta // the rate at r = h
	if !a.level.on {
		// The rate does not grow while nothing waits.
		rate = a.rate(min(now.Sub(a.epoch), a.next).Seconds())
	}
	if !a.level.on && a.refused > 0 { // not the rate at which it asks whether the server is back
		rate = a.base
	}
	return Learnt{At: now, Rate: rate * a.costs.unit()}
}

// Restore starts from what an earlier Adaptive had learnt, so that no refusal is needed to find
// the limit again. The older l is the sooner the rate grows: as after a cut so long ago, two T at
// most. If l is older than a day, from the future, or without a rate, it is ignored. Restore must
// be called before first use.
func (a *Adaptive) Restore(now time.Time, l Learnt) {
	age := now.Sub(l.At)
	if a.began || age < 0 || age > forgotten || !(l.Rate > 0) || math.IsInf(l.Rate, 0) {
		return
	}
	a.begin(now)
	a.on, a.restored = true, true
	a.born = -longestT // the estimate is not young
	a.base, a.trust = min(max(l.Rate, slowest), fastest), leastTrust
	a.cut(0)
	u := min(age.Seconds()/a.period, 2)
	a.resumedAt = -u * a.period
	a.base *= a.base / a.rate(0) // so that the rate is what it was
	a.settle(0)
}
