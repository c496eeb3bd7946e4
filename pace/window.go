package pace

import (
	"math"
	"time"
)

// divide estimates among how many a window is divided, from how many requests
// it serves for each of ours. When fewer are left than that, each takes its
// chance at them with a probability of its part: if all went for the last one,
// all but one would be refused.
func (l *level) divide(r float64, luck Luck) {
	if served := l.shown - r; served > 0 {
		l.peers += (served - l.peers) / 8
	}
	l.shown = r
	l.pass = l.window && r < l.peers && luck.Unit(4)*l.peers > r
}

// judge decides whether resets name one instant, as a window's do, or move on
// with every request served, as a bucket's. Within one window they must have
// agreed for a while; longer, once that was wrong.
func (l *level) judge(s, reset float64, served bool) {
	switch {
	case s < l.slides:
		l.window = false
		return
	case math.Abs(reset-l.resetAt) <= slack:
		l.resetAt = min(l.resetAt, reset)
		l.window = l.window || (served || !l.doubt) && s-l.agreed >= max(l.patience, 3)
		return
	case reset > l.resetAt && s >= l.resetAt-slack: // the next window
	case l.window: // it was none
		l.doubt = l.doubt || served
		l.window, l.patience = false, min(2*max(l.patience, 3), 24)
	}
	l.resetAt, l.agreed = reset, s
}

// after is how long to wait as a refusal says it. A reset counts as well, where
// nothing remains: else something else refused.
func (l *level) after(o Outcome) time.Duration {
	h := o.Hints
	if o.After > 0 || o.Verdict != Throttled || !h.Reset.OK || h.Remaining.V > 0 {
		return o.After
	}
	after := min(h.Reset.V, 24*time.Hour)
	if l.length > 0 { // within a window there is something again
		after = min(after, seconds(l.length))
	}
	return after
}

// stale reports whether answers that take rtt come when too much of the stated window
// is over for what they say to be acted on; what is acted on already, only when that
// is clearly so, as rtt varies.
func (l *level) stale(rtt float64) bool {
	most := l.length / fresh
	if l.on {
		most = l.length / old
	}
	return l.length > 0 && rtt > most
}

// scant reports whether the stated policy is of so few requests, in a window that
// is not short, that what remains says less than the policy itself.
func (l *level) scant() bool {
	least := few
	if l.on {
		least *= 0.7 // the mean cost varies
	}
	return l.length > short && l.quota < least
}
