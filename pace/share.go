package pace

import "math"

// share is this caller's fair part according to the server, a second. It is not
// obeyed: the rate is drawn to it, and the law goes on from there, since a
// caller that leaves a part unused leaves it to others, and since a server may
// be wrong. A part that is new becomes the rate at once, by a factor of leap at
// most; it is new when two answers in a row agree on it, and differ from the
// last that was so agreed. From then on theta is drawn to below times the part,
// with the time constant drawn, against growth and marks.
type share struct{ said, agreed, at float64 }

const (
	sameShare = 1.1  // factor within which shares are the same
	leap      = 10.0 // factor by which a rate changes at most
	below     = 0.6  // of its part a client aims at; f makes up the rest: r stands at 1.7 h
	drawn     = 5.0  // seconds
)

// follow takes in the share that an answer at s states.
func (a *Adaptive) follow(s float64, said Opt[float64]) {
	if !said.OK || a.Blind || !(said.V > 0) {
		return
	}
	said.V /= a.costs.unit()
	h := &a.share
	again, fresh, dt := same(said.V, h.said), !same(said.V, h.agreed), max(s-h.at, 0)
	h.said, h.at = said.V, s
	if !again {
		return
	}
	h.agreed = said.V
	target := min(max(below*said.V*a.weight(), slowest), fastest)
	switch l := &a.level; {
	case l.on && l.window: // it says all there is to know
	case l.on:
		now, pull := l.theta, dt/(dt+drawn)
		if fresh {
			pull = 1
		}
		change := min(max(math.Log(target/now), -math.Log(leap)), math.Log(leap))
		l.theta = now * math.Exp(pull*change)
		l.grownAt = s
	case a.on && fresh:
		now := a.rate(s)
		a.floor = min(max(target, now/leap), now*leap)
		a.cut(s)
	}
}

// same reports whether two rates are about equal; nothing is the same as zero.
func same(a, b float64) bool { return a <= b*sameShare && b <= a*sameShare }
